import { Effect, Schema } from "effect"
import { json, type Host, type HostRequest } from "../http/Host.ts"
import { ChatBody, toAsked } from "./internal/ChatBody.ts"
import { toMoves } from "./internal/ChatChunk.ts"
import { answerTurn } from "./internal/answerTurn.ts"
import { withFinish } from "./internal/withFinish.ts"
import { player, type Asked, type Script } from "./Script.ts"
import type { ProviderFailure } from "./Turn.ts"

const decode = Schema.decodeUnknownEffect(ChatBody)

/** The question of a recorded request. A body of another format is a defect. */
export const asked = (request: HostRequest): Effect.Effect<Asked> =>
  decode(request.body).pipe(Effect.map(toAsked), Effect.orDie)

/** A server of OpenAI's Chat Completions, at `/v1`, played from a script. */
export const make = (script: Script): Effect.Effect<Host> =>
  Effect.map(player(script), (turnFor): Host =>
    Effect.fnUntraced(function* (request) {
      if (request.method !== "POST" || request.url.pathname !== "/v1/chat/completions") {
        return json(404, toFailure({ message: `There is no ${request.method} ${request.url.pathname}` }))
      }
      return yield* decode(request.body).pipe(
        Effect.flatMap((body) =>
          answerTurn(withFinish(turnFor(toAsked(body))), (turn) => toMoves(turn, body.model), toFailure)
        ),
        Effect.catchTag("SchemaError", ({ message }) => Effect.succeed(json(400, toFailure({ message }))))
      )
    })
  )

const toFailure = (error: ProviderFailure) => ({ error })
