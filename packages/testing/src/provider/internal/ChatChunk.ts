import type { FinishReason } from "@bowline/runtime/provider/Provider"
import type { Move } from "../../http/Move.ts"
import type { Turn, TurnMove } from "../Turn.ts"
import { inWrites } from "./inWrites.ts"
import { fragments } from "./withFinish.ts"

const finishReasons: Partial<Record<FinishReason, string>> = { refusal: "stop", other: "something_new" }

const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`

/** The moves of a host that sends the turn as a stream of Chat Completions chunks. */
export const toMoves = (turn: Turn, model: string): ReadonlyArray<Move> => {
  const head = { id: "chatcmpl-scripted", object: "chat.completion.chunk", created: 0, model }
  const chunk = (delta: unknown, finish: string | null = null) =>
    event({ ...head, choices: [{ index: 0, delta, finish_reason: finish }] })
  let calls = 0

  const callChunks = ({ id, name, arguments: text }: Extract<TurnMove, { readonly _tag: "Call" }>) => {
    const index = calls++
    return fragments(text).map((piece, at) =>
      chunk({
        tool_calls: [
          at === 0
            ? {
                index,
                ...(id === null ? {} : { id: id ?? `call_${index}` }),
                type: "function",
                function: { name, arguments: piece }
              }
            : { index, function: { arguments: piece } }
        ]
      })
    )
  }

  const events = (move: TurnMove): ReadonlyArray<string> => {
    switch (move._tag) {
      case "Say":
        return [chunk({ content: move.text })]
      case "Think":
        return [chunk({ reasoning_content: move.text })]
      case "Refuse":
        return [chunk({ refusal: move.text })]
      case "Call":
        return callChunks(move)
      case "Report":
        return [
          event({
            ...head,
            choices: [],
            usage: {
              prompt_tokens: move.usage.input_tokens,
              completion_tokens: move.usage.output_tokens,
              total_tokens: move.usage.input_tokens + move.usage.output_tokens,
              prompt_tokens_details: { cached_tokens: move.usage.cached_input_tokens },
              completion_tokens_details: { reasoning_tokens: move.usage.reasoning_tokens }
            }
          })
        ]
      case "Finish":
        return [chunk({}, finishReasons[move.reason] ?? move.reason)]
      case "Done":
        return ["data: [DONE]\n\n"]
      case "Raw":
        return [move.text]
      case "ErrorChunk":
        return [event({ error: move.error })]
      default:
        return []
    }
  }

  return inWrites([...turn, ...(turn.some(({ _tag }) => _tag === "Finish") ? [done] : [])], events)
}

const done: TurnMove = { _tag: "Done" }
