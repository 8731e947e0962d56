import type { MessagePart } from "@bowline/domain/session/Message"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import { Effect } from "effect"
import { type Prompt, Tool, type Toolkit } from "effect/ai"
import type { ProviderRequest } from "../Provider.ts"

type Parts = ReadonlyArray<MessagePart>

const failed: ReadonlyArray<TaskState> = ["failed", "canceled", "rejected", "timed-out", "interrupted", "invalid"]

const fromText = (part: MessagePart): ReadonlyArray<Prompt.TextPartEncoded> =>
  part.type === "text" && part.partial !== true && part.text !== "" ? [{ type: "text", text: part.text }] : []

const fromCall = (part: MessagePart): ReadonlyArray<Prompt.ToolCallPartEncoded> =>
  part.type === "tool_call" ? [{ type: "tool-call", id: part.task_id, name: part.tool, params: part.input }] : []

/** A file's content in base64, or its URL. The model's adapter decides what to do with a kind that the model cannot read. */
const fromFile = (part: MessagePart): ReadonlyArray<Prompt.FilePartEncoded> =>
  part.type === "file" && !("file_id" in part)
    ? [
        {
          type: "file",
          mediaType: part.media_type,
          ...(part.name === undefined ? {} : { fileName: part.name }),
          data: "data" in part ? part.data : { _tag: "URL", href: part.url }
        }
      ]
    : []

/** The messages of a request. A result names its tool, as `effect/ai` wants it. Reasoning and partial text are never sent. */
export const toPrompt = ({ system, messages }: ProviderRequest): ReadonlyArray<Prompt.MessageEncoded> => {
  const tools = new Map(messages.flatMap(({ parts }) => parts.flatMap(fromCall)).map(({ id, name }) => [id, name]))
  const results = (parts: Parts): ReadonlyArray<Prompt.ToolResultPartEncoded> =>
    parts.flatMap((part) =>
      part.type === "tool_result"
        ? [
            {
              type: "tool-result",
              id: part.task_id,
              name: tools.get(part.task_id) ?? "",
              isFailure: failed.includes(part.state),
              result: part.content
            }
          ]
        : []
    )
  const written = messages.map(({ role, parts }): Prompt.MessageEncoded => {
    switch (role) {
      case "user":
        return { role, content: parts.flatMap((part) => [...fromText(part), ...fromFile(part)]) }
      case "assistant":
        return { role, content: parts.flatMap((part) => [...fromText(part), ...fromCall(part)]) }
      case "tool":
        return { role, content: results(parts) }
    }
  })
  const all: ReadonlyArray<Prompt.MessageEncoded> =
    system === "" ? written : [{ role: "system", content: system }, ...written]
  return all.filter(({ content }) => content.length > 0)
}

const toolOf = ({ name, description, inputSchema }: ProviderRequest["tools"][number]) =>
  Tool.dynamic(name, { description, parameters: inputSchema })

/** Declares the tools. The planner calls them, never `effect/ai`. */
export const toToolkit = ({
  tools
}: ProviderRequest): Toolkit.WithHandler<Record<string, ReturnType<typeof toolOf>>> => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, toolOf(tool)])),
  handle: () => Effect.die("The planner calls the tools")
})
