import { Effect, Schema } from "effect"
import { json, type Host, type HostRequest } from "../http/Host.ts"
import { MessagesBody, toAsked } from "./internal/MessagesBody.ts"
import { toFailure, toMoves } from "./internal/MessagesEvent.ts"
import { answerTurn } from "./internal/answerTurn.ts"
import { withFinish } from "./internal/withFinish.ts"
import { player, type Asked, type Script } from "./Script.ts"

const decode = Schema.decodeUnknownEffect(MessagesBody, { onExcessProperty: "error" })

/** The question of a recorded request. A body of another format is a defect. */
export const asked = (request: HostRequest): Effect.Effect<Asked> =>
  decode(request.body).pipe(Effect.map(toAsked), Effect.orDie)

/** A server of Anthropic's Messages, at `/v1`, played from a script. */
export const make = (script: Script): Effect.Effect<Host> =>
  Effect.map(player(script), (turnFor): Host =>
    Effect.fnUntraced(function* (request) {
      if (request.method !== "POST" || request.url.pathname !== "/v1/messages") {
        return failure(404, `There is no ${request.method} ${request.url.pathname}`)
      }
      if (request.headers["anthropic-version"] === undefined)
        return failure(400, "anthropic-version: header is required")
      return yield* decode(request.body).pipe(
        Effect.flatMap((body) =>
          body.messages.at(-1)?.role === "assistant"
            ? Effect.succeed(failure(400, prefill))
            : answerTurn(withFinish(turnFor(toAsked(body))), (turn) => toMoves(turn, body.model), toFailure)
        ),
        Effect.catchTag("SchemaError", ({ message }) => Effect.succeed(failure(400, message)))
      )
    })
  )

/** What newer models answer to a request that ends with an answer of theirs. */
const prefill = "This model does not support assistant message prefill. The conversation must end with a user message."

const failure = (status: number, message: string) => json(status, toFailure({ message }, status))
