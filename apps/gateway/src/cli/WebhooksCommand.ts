import { isWebhookSecret } from "@bowline/domain/unstable/plan/Webhook"
import { Clock, Context, Effect, Layer, Option, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { fault } from "../push/WebhookSignature.ts"
import { Ended, exitCodes, failed, reasonOf } from "./Ended.ts"
import { printLine, tell } from "./Output.ts"
import * as Signals from "./Signals.ts"
import { oneLine } from "./TerminalText.ts"

// The other commands start faster without it.
const HttpServing = Effect.promise(() => import("@effect/platform-node/NodeHttpServer"))

const parameters = {
  port: Flag.Int("port").pipe(Flag.withDescription("Where to listen on 127.0.0.1"), Flag.withDefault(3775)),
  secret: Flag.Redacted("secret").pipe(
    Flag.withDescription("whsec_…: a delivery that is not signed with it is refused with 401"),
    Flag.optional
  )
}

/** Prints a delivery as one line, and takes it if its signature is good, or nobody looks at it. */
const receive = Effect.fnUntraced(function* (secret: string | undefined) {
  const { headers, method, text } = yield* HttpServerRequest.HttpServerRequest
  if (method !== "POST") return HttpServerResponse.empty({ status: 405 })
  const body = yield* text
  const wrong = secret === undefined ? undefined : fault(secret, headers, body, yield* Clock.currentTimeMillis)
  const how = secret === undefined ? "unverified" : wrong === undefined ? "verified" : `refused: ${wrong}`
  yield* printLine(`${how}\t${oneLine(headers["webhook-id"] ?? "")}\t${oneLine(body)}`)
  return HttpServerResponse.empty({ status: wrong === undefined ? 204 : 401 })
})

const listen = Command.make(
  "listen",
  parameters,
  Effect.fnUntraced(function* ({ port, secret: given }) {
    const secret = Option.getOrUndefined(Option.map(given, Redacted.value))
    if (secret !== undefined && !isWebhookSecret(secret)) {
      const line = "--secret: Expected whsec_ and the secret's bytes in base64"
      return yield* new Ended({ code: exitCodes.usage, lines: [line] })
    }
    const NodeHttpServer = yield* HttpServing
    const serving = HttpServer.serve(receive(secret)).pipe(
      Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port }))
    )
    const context = yield* Layer.build(serving).pipe(
      Effect.catchTag("ServeError", (error) => Effect.fail(failed(`Cannot listen on port ${port}: ${reasonOf(error)}`)))
    )
    const { address } = Context.get(context, HttpServer.HttpServer)
    yield* tell(`Listening on ${HttpServer.formatAddress(address)}`)
    return yield* Effect.andThen(Signals.first, new Ended({ code: exitCodes.interrupted, lines: [] }))
  }, Effect.scoped)
).pipe(Command.withDescription("Print the deliveries of webhooks that come to a port, one line each, and verify them"))

/** For whoever tries webhooks. */
export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("Receive webhooks"),
  Command.withSubcommands([listen])
)
