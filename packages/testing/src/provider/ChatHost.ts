import { Effect, Schema } from "effect"
import { json, type Host, type HostRequest } from "../http/Host.ts"
import * as Move from "../http/Move.ts"
import { ChatBody, toAsked } from "./internal/ChatBody.ts"
import { toMoves } from "./internal/ChatChunk.ts"
import { withFinish } from "./internal/withFinish.ts"
import { player, type Asked, type Script } from "./Script.ts"
import type { Turn } from "./Turn.ts"

const decode = Schema.decodeUnknownEffect(ChatBody)

/** What a recorded request asked. A body that is none of the format is a defect. */
export const asked = (request: HostRequest): Effect.Effect<Asked> =>
  decode(request.body).pipe(Effect.map(toAsked), Effect.orDie)

/** A server of OpenAI's Chat Completions, at `/v1`, played from a script. */
export const make = (script: Script): Effect.Effect<Host> =>
  Effect.map(player(script), (turnFor): Host =>
    Effect.fnUntraced(function* (request) {
      if (request.method !== "POST" || request.url.pathname !== "/v1/chat/completions") {
        return failure(404, { message: `There is no ${request.method} ${request.url.pathname}` })
      }
      return yield* decode(request.body).pipe(
        Effect.flatMap((body) => respond(withFinish(turnFor(toAsked(body))), body.model)),
        Effect.catchTag("SchemaError", ({ message }) => Effect.succeed(failure(400, { message })))
      )
    })
  )

const failure = (status: number, error: unknown, headers?: Readonly<Record<string, string>>) =>
  json(status, { error }, headers)

const respond = Effect.fnUntraced(function* (turn: Turn, model: string) {
  const refused = turn.findIndex(({ _tag }) => _tag === "Refused")
  const refusal = turn[refused]
  if (refusal?._tag !== "Refused") {
    return {
      status: 200,
      headers: { "content-type": "text/event-stream; charset=utf-8" },
      body: Move.toStream(toMoves(turn, model))
    }
  }
  for (const move of turn.slice(0, refused)) if (move._tag === "Wait") yield* move.effect
  return failure(refusal.status, refusal.error, refusal.headers)
})
