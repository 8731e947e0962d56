import { Effect, Schema } from "effect"
import { json, type Host, type HostRequest } from "../http/Host.ts"
import { answerTurn } from "./internal/answerTurn.ts"
import { ResponsesBody, toAsked } from "./internal/ResponsesBody.ts"
import { toMoves } from "./internal/ResponsesEvent.ts"
import { withFinish } from "./internal/withFinish.ts"
import { player, type Asked, type Script } from "./Script.ts"
import type { ProviderFailure } from "./Turn.ts"

const decode = Schema.decodeUnknownEffect(ResponsesBody, { onExcessProperty: "error" })

/** The question of a recorded request. A body of another format is a defect. */
export const asked = (request: HostRequest): Effect.Effect<Asked> =>
  decode(request.body).pipe(Effect.map(toAsked), Effect.orDie)

/** A server of OpenAI's Responses, at `/v1`, played from a script. Usage behind the finish is sent with the finish. */
export const make = (script: Script): Effect.Effect<Host> =>
  Effect.map(player(script), (turnFor): Host =>
    Effect.fnUntraced(function* (request) {
      if (request.method !== "POST" || request.url.pathname !== "/v1/responses") {
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
