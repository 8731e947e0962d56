import { FilePart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Schema } from "effect"
import type { Asked } from "../provider/Script.ts"

const Text = Schema.Union([Schema.Literals(["", " ", "\n", "words", "cut in two \ud83d"]), Schema.String])

/** Few, so that calls and results meet, are doubled and are missing. */
const FewIds = Schema.Literals(["a", "b", "c", "d"].map((letter) => TaskId.make(letter.repeat(36))))

const Name = Schema.Literals(["search", "ask peer/1: prices?", "", "a".repeat(100)])

const Phase = Schema.optionalKey(Schema.Literals(["commentary", "final_answer"]))

/** Any messages in any order, as a damaged history may hold them. */
export const RandomHistory = Schema.Array(
  Schema.Struct({
    role: Schema.Literals(["user", "assistant", "tool"]),
    parts: Schema.Array(
      Schema.Union([
        Schema.Struct({ ...TextPart.fields, text: Text, phase: Phase }),
        Schema.Struct({
          ...ReasoningPart.fields,
          text: Text,
          provider: Schema.optionalKey(Schema.Literals(["openai", "anthropic"])),
          signature: Schema.optionalKey(Schema.Literals(["c2lnbmVk", "redacted_thinking:c2VjcmV0"]))
        }),
        Schema.Struct({ ...ToolCallPart.fields, task_id: FewIds, tool: Name }),
        Schema.Struct({ ...ToolResultPart.fields, task_id: FewIds, content: Text }),
        FilePart
      ])
    )
  })
)

/**
 * What a server of any format would refuse in a request: calls without their results directly behind them, duplicate or
 * invalid ids, invalid names of tools, empty messages, and half characters.
 */
export const faults = ({ messages }: Asked, body: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  const seen = new Set<string>()
  if (messages[0]?.role !== "user") found.push("the user does not begin")
  if (/\\ud[89a-f]/i.test(body)) found.push("half a character")
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool" && !seen.has(message.id)) found.push(`a result of no call: ${message.id}`)
    if (message.role !== "assistant") continue
    if (message.calls.length === 0 && message.text.trim() === "") found.push(`nothing is said in ${at}`)
    for (const [index, { id, name }] of message.calls.entries()) {
      const result = messages[at + 1 + index]
      if (result?.role !== "tool" || result.id !== id) found.push(`no result directly behind ${id}`)
      if (seen.has(id)) found.push(`a call that is there twice: ${id}`)
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) found.push(`an id that cannot be: ${id}`)
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) found.push(`a name that cannot be: ${name}`)
      seen.add(id)
    }
    const behind = messages[at + 1 + message.calls.length]
    if (behind?.role === "tool") found.push(`a result too many: ${behind.id}`)
  }
  return found
}
