import type { Usage } from "@bowline/domain/plan/Usage"
import type { FinishReason } from "@bowline/runtime/provider/Provider"
import type { Move } from "../../http/Move.ts"
import type { Turn, TurnMove } from "../Turn.ts"
import { inWrites } from "./inWrites.ts"
import { fragments } from "./withFinish.ts"

type ItemType = "message" | "reasoning" | "function_call"

/** The members of an item with the given text. */
type Describe = (text: string) => object

interface OpenItem {
  readonly type: ItemType
  readonly write: (event: string, delta: string) => string
  readonly end: () => string
}

const message: Describe = (text) => ({ role: "assistant", content: [{ type: "output_text", text }] })
const refusal: Describe = (text) => ({ role: "assistant", content: [{ type: "refusal", refusal: text }] })
const reasoning: Describe = (text) => ({ summary: [{ type: "summary_text", text }] })

const incompleteReasons: Partial<Record<FinishReason, string>> = {
  length: "max_output_tokens",
  content_filter: "content_filter",
  other: "something_new"
}

const fromUsage = (usage: Usage) => ({
  input_tokens: usage.input_tokens,
  input_tokens_details: { cached_tokens: usage.cached_input_tokens },
  output_tokens: usage.output_tokens,
  output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
  total_tokens: usage.input_tokens + usage.output_tokens
})

/** The moves of a host that sends the turn as a stream of Responses events. */
export const toMoves = (turn: Turn, model: string): ReadonlyArray<Move> => {
  const finish = turn.findIndex(({ _tag }) => _tag === "Finish")
  const isLate = ({ _tag }: TurnMove, at: number) => _tag === "Report" && finish !== -1 && at > finish
  const report = turn.findLast(isLate)
  const usage = report?._tag === "Report" ? fromUsage(report.usage) : null
  let events = 0
  let items = 0
  let calls = 0
  let open: OpenItem | undefined

  const event = (type: string, fields: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: events++, ...fields })}\n\n`

  const response = (status: string, fields: object): string =>
    event(`response.${status}`, {
      response: { id: "resp_scripted", object: "response", created_at: 0, model, status, output: [], ...fields }
    })

  const end = (): ReadonlyArray<string> => {
    const ended = open
    open = undefined
    return ended === undefined ? [] : [ended.end()]
  }

  const begin = (type: ItemType, describe: Describe): ReadonlyArray<string> => {
    const before = end()
    const at = { output_index: items++ }
    const id = `${type}_${at.output_index}`
    let text = ""
    const itemEvent = (name: string, status: string) =>
      event(`response.output_item.${name}`, { ...at, item: { id, type, status, ...describe(text) } })
    const added = itemEvent("added", "in_progress")
    open = {
      type,
      write: (name, delta) => {
        text += delta
        return event(name, { ...at, item_id: id, delta })
      },
      end: () => itemEvent("done", "completed")
    }
    return [...before, added]
  }

  const delta = (name: string, text: string): ReadonlyArray<string> =>
    open === undefined ? [] : [open.write(`response.${name}.delta`, text)]

  const write = (type: ItemType, describe: Describe, name: string, text: string): ReadonlyArray<string> => {
    const before = open?.type === type ? [] : begin(type, describe)
    return [...before, ...delta(name, text)]
  }

  const call = ({ id, name, arguments: text }: Extract<TurnMove, { readonly _tag: "Call" }>): ReadonlyArray<string> => {
    const call_id = `call_${calls++}`
    const named = id === null ? { name } : { call_id: id ?? call_id, name }
    const [, ...pieces] = fragments(text)
    return [
      ...begin("function_call", (written) => ({ ...named, arguments: written })),
      ...pieces.flatMap((piece) => delta("function_call_arguments", piece))
    ]
  }

  const eventsOf = (move: TurnMove): ReadonlyArray<string> => {
    switch (move._tag) {
      case "Say":
        return write("message", message, "output_text", move.text)
      case "Refuse":
        return write("message", refusal, "refusal", move.text)
      case "Think":
        return write("reasoning", reasoning, "reasoning_summary_text", move.text)
      case "Call":
        return call(move)
      case "Finish": {
        const reason = incompleteReasons[move.reason]
        const fields = { usage, incomplete_details: reason === undefined ? null : { reason } }
        return [...end(), response(reason === undefined ? "completed" : "incomplete", fields)]
      }
      case "Report":
        return [response("in_progress", { usage: fromUsage(move.usage) })]
      case "Done":
        return ["data: [DONE]\n\n"]
      case "Raw":
        return [move.text]
      case "ErrorChunk":
        return [event("error", { error: move.error })]
      default:
        return []
    }
  }

  const created: TurnMove = { _tag: "Raw", text: response("created", {}) }
  return inWrites([created, ...turn.filter((move, at) => !isLate(move, at))], eventsOf)
}
