import type { ProviderRequest, ToolDefinition } from "@bowline/runtime/provider/Provider"
import { Effect } from "effect"
import { error, type Turn } from "./Turn.ts"

/** A message of a prompt, whatever the wire. A `tool` message is the result of one call, named by its id. */
export type AskedMessage =
  | { readonly role: "user"; readonly text: string }
  | {
      readonly role: "assistant"
      readonly text: string
      readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly input: unknown }>
    }
  | { readonly role: "tool"; readonly id: string; readonly content: string }

/** What the planner sent to a provider. */
export interface Asked {
  readonly model: string
  readonly system: string
  readonly messages: ReadonlyArray<AskedMessage>
  readonly tools: ReadonlyArray<ToolDefinition>
  readonly toolChoice: ProviderRequest["toolChoice"]
}

/** The turns for the requests in order, or a function that chooses the turn for a request. */
export type Script = ReadonlyArray<Turn> | ((asked: Asked) => Turn)

/** The last question: what the user said last. */
export const question = (asked: Asked): string =>
  asked.messages.findLast((message) => message.role === "user")?.text ?? ""

/** The results of the calls that were made since the last question, in order. */
export const results = (asked: Asked): ReadonlyArray<string> => {
  const since = asked.messages.findLastIndex(({ role }) => role === "user")
  return asked.messages.slice(since + 1).flatMap((message) => (message.role === "tool" ? [message.content] : []))
}

/** Gives each request its turn. A request without a turn is refused with 400, and the message names it. */
export const player = (script: Script): Effect.Effect<(asked: Asked) => Turn> =>
  Effect.sync(() => {
    let requests = 0
    return (asked) => {
      if (typeof script === "function") return script(asked)
      const turn = script[requests++]
      return turn ?? [error(400, { message: `The script has no turn for request ${requests}: ${question(asked)}` })]
    }
  })

export const fromRequest = (request: ProviderRequest): Asked => ({
  model: request.model,
  system: request.system,
  messages: request.messages.flatMap(({ role, parts }): ReadonlyArray<AskedMessage> => {
    if (role === "tool") {
      return parts.flatMap((part) =>
        part.type === "tool_result" ? [{ role, id: part.task_id, content: part.content }] : []
      )
    }
    const texts = parts.flatMap((part) => (part.type === "text" && part.partial !== true ? [part.text] : []))
    if (role === "user") return [{ role, text: texts.join("\n\n") }]
    const text = texts.join("")
    const calls = parts.flatMap((part) =>
      part.type === "tool_call" ? [{ id: part.task_id, name: part.tool, input: part.input }] : []
    )
    return text === "" && calls.length === 0 ? [] : [{ role, text, calls }]
  }),
  tools: request.tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
  toolChoice: request.toolChoice
})
