import { Effect, type Schema } from "effect"
import { type Host, type HostRequest, type HostResponse, json } from "../../http/Host.ts"
import * as Move from "../../http/Move.ts"
import { type Asked, player, type Script } from "../Script.ts"
import type { ProviderFailure, Turn } from "../Turn.ts"
import { withFinish } from "./withFinish.ts"

/** What tells the servers of providers apart. */
interface Wire<Body extends { readonly model: string }> {
  readonly path: string
  readonly decode: (body: string) => Effect.Effect<Body, Schema.SchemaError>
  readonly toAsked: (body: Body) => Asked
  readonly toMoves: (turn: Turn, model: string) => ReadonlyArray<Move.Move>
  readonly toFailure: (failure: ProviderFailure, status: number) => object
  /** Why the server refuses a request with 400, whatever its script says. */
  readonly refusal?: (request: HostRequest, body: Body) => string | undefined
}

/** Answers with an event stream, or with the refusal of the turn, in the wire format. */
const answerTurn = Effect.fnUntraced(function* (
  turn: Turn,
  model: string,
  { toFailure, toMoves }: Pick<Wire<never>, "toFailure" | "toMoves">
) {
  const refused = turn.findIndex(({ _tag }) => _tag === "Refused")
  const refusal = turn[refused]
  if (refusal?._tag !== "Refused") {
    const response: HostResponse = {
      status: 200,
      headers: { "content-type": "text/event-stream; charset=utf-8" },
      body: Move.toStream(toMoves(turn, model))
    }
    return response
  }
  for (const move of turn.slice(0, refused)) if (move._tag === "Wait") yield* move.effect
  return json(refusal.status, toFailure(refusal.error, refusal.status), refusal.headers)
})

/** The server of a wire, played from a script. `asked` is the question of a recorded request; a body of another format is a defect. */
export const scriptedHost = <Body extends { readonly model: string }>(wire: Wire<Body>) => {
  const { decode, path, refusal = () => undefined, toAsked, toFailure } = wire
  const failure = (status: number, message: string) => json(status, toFailure({ message }, status))
  return {
    asked: (request: HostRequest): Effect.Effect<Asked> => decode(request.body).pipe(Effect.map(toAsked), Effect.orDie),
    make: (script: Script): Effect.Effect<Host> =>
      Effect.map(player(script), (turnFor): Host =>
        Effect.fnUntraced(function* (request) {
          if (request.method !== "POST" || request.url.pathname !== path) {
            return failure(404, `There is no ${request.method} ${request.url.pathname}`)
          }
          return yield* decode(request.body).pipe(
            Effect.flatMap((body) => {
              const refused = refusal(request, body)
              return refused === undefined
                ? answerTurn(withFinish(turnFor(toAsked(body))), body.model, wire)
                : Effect.succeed(failure(400, refused))
            }),
            Effect.catchTag("SchemaError", ({ message }) => Effect.succeed(failure(400, message)))
          )
        })
      )
  }
}
