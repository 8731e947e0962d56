import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { Effect, Predicate, Result, Schema } from "effect"
import { type Headers, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as CallerRate from "../../http/CallerRate.ts"
import * as Etag from "../../http/Etag.ts"
import * as PlanArrival from "../../http/PlanArrival.ts"
import { answer, Refused, retryAfter } from "../../http/Refusals.ts"
import { readForeignJson } from "../../http/RequestBody.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"
import { code, decode, errorOf, idOf, resultOf, RpcError } from "./RpcMessage.ts"
import * as McpMethods from "./McpMethods.ts"
import { hasBatches, spokenBy } from "./Revision.ts"
import { type RunningCall, RunningCalls } from "./RunningCalls.ts"

/** More messages in one batch than any client sends. */
const maxBatch = 100

const sessionHeader = "mcp-session-id"

/** What is known at once about a message. */
interface Response {
  readonly status: number
  readonly body: object
}

const failed = (id: string | number | null, error: RpcError): Response => ({
  status: error.status,
  body: errorOf(id, error)
})

/** Who sends a message, on which way. */
interface From {
  readonly caller: CallerName
  readonly route: Route
}

const isCall = (served: Response | RunningCall): served is RunningCall => "run" in served

const invalidRequest = (message: string) => new RpcError({ code: code.invalidRequest, status: 400, message })

/** The messages of a body. A batch of more than `rateLimit` could never be let in. */
const messagesOf = (
  value: unknown,
  headers: Headers.Headers,
  rateLimit: number
): Result.Result<ReadonlyArray<unknown>, RpcError> => {
  if (!Array.isArray(value)) return Result.succeed([value])
  if (!hasBatches(headers)) return Result.fail(invalidRequest("Expected one message: only 2025-03-26 has batches"))
  if (value.length === 0 || value.length > maxBatch) {
    return Result.fail(invalidRequest(`Expected a batch of 1..${maxBatch} messages`))
  }
  if (value.length > rateLimit) {
    const limit = `each counts as a request, and you may make ${rateLimit} at once (BOWLINE_RATE_LIMIT)`
    return Result.fail(invalidRequest(`Expected a batch of at most ${rateLimit} messages: ${limit}`))
  }
  return value.some((message) => Predicate.hasProperty(message, "method") && message.method === "initialize")
    ? Result.fail(invalidRequest("Expected initialize alone, not in a batch"))
    : Result.succeed(value)
}

const takesEvents = ({ accept = "" }: Headers.Headers): boolean => /text\/(?:event-stream|\*)|\*\/\*/i.test(accept)

/** The validator of a result. The id is the request's: without it the same list has the same one each time. */
const etagOf = (body: object = {}): string | undefined =>
  "result" in body ? Etag.of(JSON.stringify(body.result)) : undefined

const toText = (message: object): string => `event: message\ndata: ${JSON.stringify(message)}\n\n`

/** The route of the Model Context Protocol. Between two requests it keeps nothing but the calls that run. */
export const layer = HttpApiBuilder.group(
  Api,
  "mcp",
  Effect.fnUntraced(function* (handlers) {
    const { maxBody, rateLimit: [rateLimit] = [Infinity] } = yield* GatewayConfig
    const uuid = yield* UuidGenerator
    const { cancelElsewhere, serve } = yield* McpMethods.make
    const readBody = readForeignJson(Schema.Unknown, maxBody)
    const running = new RunningCalls()
    const withinRate = yield* CallerRate.make

    const take = Effect.fnUntraced(function* ({ caller, route }: From, headers: Headers.Headers, value: unknown) {
      const session = headers[sessionHeader]
      const ownerOf = (id: unknown) => (session === undefined ? undefined : JSON.stringify([caller, session, id]))
      const message = decode(value)
      if (message instanceof RpcError) return failed(idOf(value), message)
      if (message._tag === "Reply") return undefined
      if (message._tag === "Notification") {
        const owner = ownerOf(message.params["requestId"])
        if (message.method === "notifications/cancelled" && owner !== undefined && !(yield* running.cancel(owner))) {
          yield* cancelElsewhere(caller, owner)
        }
        return undefined
      }
      const { id } = message
      const spoken = spokenBy(headers, message)
      if (spoken instanceof RpcError) return failed(id, spoken)
      const owner = ownerOf(id)
      return yield* serve({ caller, route, owner }, message, spoken).pipe(
        Effect.map((served): Response | RunningCall =>
          served instanceof McpMethods.Waiting
            ? { id, token: message.progressToken, owner, run: served.run }
            : { status: 200, body: resultOf(id, served) }
        ),
        Effect.catch((error) => Effect.succeed(failed(id, error)))
      )
    })

    const answerAll = Effect.fnUntraced(function* (
      from: From,
      headers: Headers.Headers,
      value: unknown,
      messages: ReadonlyArray<unknown>
    ) {
      const served = (yield* Effect.forEach(messages, (message) => take(from, headers, message))).filter(
        Predicate.isNotUndefined
      )
      const calls = served.filter(isCall)
      const known = served.filter((one): one is Response => !isCall(one))
      const bodies = known.map(({ body }) => body)
      if (calls.length > 0 && takesEvents(headers)) {
        return SseAnswer.translated({ frames: yield* running.stream(bodies, calls), next: toText, end: () => "" })
      }
      const all = [...bodies, ...(yield* running.responses(calls))]
      if (all.length === 0) return HttpServerResponse.empty({ status: 202 })
      if (Array.isArray(value)) return HttpServerResponse.jsonUnsafe(all)
      const method = Predicate.hasProperty(value, "method") ? value.method : undefined
      const status = known[0]?.status ?? 200
      const etag = method === "tools/list" ? etagOf(bodies[0]) : undefined
      if (etag !== undefined && Etag.isKnown({ headers }, etag)) {
        return HttpServerResponse.empty({ status: 304, headers: { etag } })
      }
      return HttpServerResponse.jsonUnsafe(all[0], {
        status,
        headers: {
          ...(method === "initialize" && { [sessionHeader]: uuid() }),
          ...(etag !== undefined && { etag }),
          ...(status === 503 && retryAfter)
        }
      })
    })

    return handlers.handleRaw("message", ({ headers: sent, request }) =>
      Effect.gen(function* () {
        const { headers } = request
        const from: From = { caller: yield* Caller, route: PlanArrival.routeOf(sent) }
        const { value } = yield* readBody(request)
        const messages = messagesOf(value, headers, rateLimit)
        if (Result.isFailure(messages)) {
          const { body, status } = failed(null, messages.failure)
          return HttpServerResponse.jsonUnsafe(body, { status })
        }
        const more = messages.success.length - 1
        const serving = answerAll(from, headers, value, messages.success)
        // The request has been counted: every further message of a batch counts as one more.
        return yield* more === 0 ? serving : withinRate(from.caller, serving, more)
      }).pipe(
        PlanArrival.traced("/mcp", request),
        Effect.catchIf(
          (error) => error instanceof Refused && error.code === "invalid_request",
          ({ detail }) =>
            Effect.succeed(
              HttpServerResponse.jsonUnsafe(errorOf(null, { code: code.parse, message: detail }), { status: 400 })
            )
        ),
        answer
      )
    )
  })
)
