import type { FinishReason } from "@bowline/runtime/provider/Provider"
import type { Move } from "../../http/Move.ts"
import type { ProviderFailure, Turn, TurnMove } from "../Turn.ts"
import { inWrites } from "./inWrites.ts"
import { fragments } from "./withFinish.ts"

const stopReasons: Partial<Record<FinishReason, string>> = {
  stop: "end_turn",
  tool_calls: "tool_use",
  length: "max_tokens",
  pause: "pause_turn",
  other: "something_new"
}

const errorTypes: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error"
}

/** The body of a failure, with the other members that the script gives it. */
export const toFailure = (error: ProviderFailure, status: number) => ({
  type: "error",
  error: { type: errorTypes[status] ?? "api_error", ...error },
  request_id: "req_scripted"
})

const event = <A extends { readonly type: string }>(data: A): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

/** The moves of a host that sends the turn as a stream of Messages events. A block ends where another begins. */
export const toMoves = (turn: Turn, model: string): ReadonlyArray<Move> => {
  let isStarted = false
  let blocks = 0
  let open: string | undefined

  const start = () => {
    if (isStarted) return []
    isStarted = true
    const message = { id: "msg_scripted", type: "message", role: "assistant", model, content: [], stop_reason: null }
    return [event({ type: "message_start", message })]
  }
  const close = () => {
    if (open === undefined) return []
    open = undefined
    return [event({ type: "content_block_stop", index: blocks - 1 })]
  }
  const begin = (type: string, fields: object) => {
    const content_block = { type, ...fields }
    const events = [...start(), ...close(), event({ type: "content_block_start", index: blocks++, content_block })]
    open = type
    return events
  }
  const delta = (fields: object) => event({ type: "content_block_delta", index: blocks - 1, delta: fields })
  const change = (reason: string | null, fields?: object) =>
    event({ type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, ...fields })

  const events = (move: TurnMove): ReadonlyArray<string> => {
    switch (move._tag) {
      case "Say":
      case "Refuse":
        return [...(open === "text" ? [] : begin("text", { text: "" })), delta({ type: "text_delta", text: move.text })]
      case "Think":
        return [
          ...(open === "thinking" ? [] : begin("thinking", { thinking: "", signature: "" })),
          delta({ type: "thinking_delta", thinking: move.text })
        ]
      case "Call": {
        const id = move.id === null ? {} : { id: move.id ?? `toolu_${blocks}` }
        return [
          ...begin("tool_use", { ...id, name: move.name, input: {} }),
          ...fragments(move.arguments).map((piece) => delta({ type: "input_json_delta", partial_json: piece }))
        ]
      }
      case "Report": {
        const { input_tokens, output_tokens, cached_input_tokens, reasoning_tokens } = move.usage
        const usage = {
          input_tokens: input_tokens - cached_input_tokens,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: cached_input_tokens,
          output_tokens,
          output_tokens_details: { thinking_tokens: reasoning_tokens }
        }
        return [...start(), change(null, { usage })]
      }
      case "Finish":
        return [...start(), ...close(), change(stopReasons[move.reason] ?? move.reason)]
      case "Done":
        return [...start(), event({ type: "message_stop" })]
      case "Raw":
        return [move.text]
      case "ErrorChunk":
        return [event(toFailure(move.error, Number(move.error.code ?? 500)))]
      default:
        return []
    }
  }

  return inWrites([...turn, ...(turn.some(({ _tag }) => _tag === "Finish") ? [done] : [])], events)
}

const done: TurnMove = { _tag: "Done" }
