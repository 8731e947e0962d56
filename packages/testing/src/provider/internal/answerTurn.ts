import { Effect } from "effect"
import { type HostResponse, json } from "../../http/Host.ts"
import * as Move from "../../http/Move.ts"
import type { ProviderFailure, Turn } from "../Turn.ts"

/** Answers with an event stream, or with the refusal of the turn, in the wire format. */
export const answerTurn = Effect.fnUntraced(function* (
  turn: Turn,
  toMoves: (turn: Turn) => ReadonlyArray<Move.Move>,
  toFailure: (failure: ProviderFailure, status: number) => object
) {
  const refused = turn.findIndex(({ _tag }) => _tag === "Refused")
  const refusal = turn[refused]
  if (refusal?._tag !== "Refused") {
    const response: HostResponse = {
      status: 200,
      headers: { "content-type": "text/event-stream; charset=utf-8" },
      body: Move.toStream(toMoves(turn))
    }
    return response
  }
  for (const move of turn.slice(0, refused)) if (move._tag === "Wait") yield* move.effect
  return json(refusal.status, toFailure(refusal.error, refusal.status), refusal.headers)
})
