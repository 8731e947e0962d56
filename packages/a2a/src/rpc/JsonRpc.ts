import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import { Auth, Rpc } from "@bowline/domain/peer/PeerError"
import { Effect, Result, Schema, type Scope } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import type { Headers, PeerAuth } from "@bowline/runtime/unstable/auth/PeerAuth"
import * as GenAi from "@bowline/runtime/unstable/telemetry/GenAi"
import * as Spans from "@bowline/runtime/unstable/telemetry/Spans"
import type { Params } from "../dialect/Codec.ts"
import { openEvents, type Events } from "./Events.ts"
import { exchange, type Answer } from "@bowline/runtime/unstable/http/Exchange"
import { excerpt, failure, fromStatus, garbled, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"

/** Where the requests to a peer go, and what they carry. */
export interface RpcTarget {
  readonly url: string
  readonly headers: Headers
  /** Parameters of every method. */
  readonly params: Params
  readonly auth: PeerAuth
}

/** `JSON.parse` gives JSON: decoding does not check it again. */
const Parsed = Schema.declare((_value): _value is Schema.Json => true)

/** JSON-RPC 2.0. A member that is null counts as absent. */
const Reply = Schema.Struct({
  result: Schema.optionalKey(Schema.NullOr(Parsed)),
  error: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        code: Schema.Number,
        message: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed(""))),
        data: Schema.optionalKey(Parsed)
      })
    )
  )
})
const decodeReply = Schema.decodeUnknownResult(Reply)
const isJson = Schema.is(Parsed)

/** A request for a method. The body is written once, so that the signed bytes are the sent ones. */
const rpcRequest = Effect.fnUntraced(function* (
  { auth, headers, params: always, url }: RpcTarget,
  id: string,
  method: string,
  params: Params
): Effect.fn.Return<HttpClientRequest.HttpClientRequest, ExchangeError> {
  const body = JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...always, ...params } })
  return HttpClientRequest.post(url).pipe(
    HttpClientRequest.setHeaders({ accept: "application/json", ...headers, ...(yield* auth.headers(body)) }),
    HttpClientRequest.bodyText(body, "application/json")
  )
})

/**
 * The result in an answer. A JSON-RPC error counts under 2xx, and under a status that has no meaning of its own here, such
 * as 400.
 */
export const resultOf = (
  { auth: { redaction } }: RpcTarget,
  method: string,
  { after, body, status }: Answer
): Result.Result<Schema.Json, ExchangeError> => {
  const isOk = status >= 200 && status < 300
  const parsed = Result.try(() => JSON.parse(body) as unknown)
  if (Result.isFailure(parsed)) {
    return Result.fail(isOk ? garbled(method, { message: "Expected JSON" }) : fromStatus(status, body, after))
  }
  const unfit = JsonValue.problem(parsed.success)
  if (unfit !== undefined) return Result.fail(garbled(method, { message: unfit }))
  const reply = decodeReply(parsed.success)
  const error = Result.isSuccess(reply) ? reply.success.error : undefined
  const failed = isOk
    ? undefined
    : fromStatus(status, isJson(parsed.success) ? redaction.json(parsed.success) : body, after)
  if (error != null && (failed === undefined || (failed.reason._tag === "http" && failed.verdict === "refused"))) {
    const message = `The peer refused ${method}: ${excerpt(redaction.text(error.message))} (${error.code})`
    const data = error.data === undefined ? undefined : redaction.json(error.data)
    return Result.fail(failure("refused", new Rpc({ message, code: error.code, data })))
  }
  if (failed !== undefined) return Result.fail(failed)
  return Result.mapBoth(reply, {
    onFailure: ({ message }) => garbled(method, { message: redaction.text(message) }),
    onSuccess: ({ result }) => result ?? null
  })
}

const isUnauthorized = ({ reason }: ExchangeError): boolean => reason instanceof Auth && reason.status === 401

/** Makes a request. After a 401 it makes it once more, with a renewed token, if there is one. */
const authorized = <A, R>(
  { auth }: RpcTarget,
  request: Effect.Effect<A, ExchangeError, R>
): Effect.Effect<A, ExchangeError, R> =>
  Effect.catchIf(request, isUnauthorized, (refused) =>
    Effect.flatMap(auth.renew(), (renewed) => (renewed ? request : Effect.fail(refused)))
  )

/** One request to a peer. */
const inSpan = ({ url }: RpcTarget, method: string) =>
  Spans.within(method, () => ({
    kind: "client",
    attributes: {
      [GenAi.rpcSystem]: "jsonrpc",
      [GenAi.rpcMethod]: method,
      [GenAi.serverAddress]: new URL(url).hostname
    }
  }))

/** Calls a method of the peer and gives its result. */
export const callMethod = (
  client: HttpClient.HttpClient,
  target: RpcTarget,
  id: string,
  method: string,
  params: Params
): Effect.Effect<Schema.Json, ExchangeError> =>
  authorized(
    target,
    rpcRequest(target, id, method, params).pipe(
      Effect.flatMap((request) => exchange(client, request)),
      Effect.flatMap((answer) => Effect.fromResult(resultOf(target, method, answer)))
    )
  ).pipe(inSpan(target, method))

/** A stream of events, each with a result as its data; or one result, from a peer that has nothing to stream. */
export type StreamReply =
  | { readonly _tag: "Events"; readonly events: Events }
  | { readonly _tag: "Result"; readonly result: Schema.Json }

/** Calls a method that streams. The connection closes with the scope. */
export const streamMethod = (
  client: HttpClient.HttpClient,
  target: RpcTarget,
  id: string,
  method: string,
  params: Params
): Effect.Effect<StreamReply, ExchangeError, Scope.Scope> =>
  authorized(
    target,
    rpcRequest(target, id, method, params).pipe(
      Effect.flatMap((request) => openEvents(client, request)),
      Effect.flatMap((reply): Effect.Effect<StreamReply, ExchangeError> =>
        reply._tag === "Events"
          ? Effect.succeed(reply)
          : Effect.map(Effect.fromResult(resultOf(target, method, reply.answer)), (result) => ({
              _tag: "Result",
              result
            }))
      )
    )
  ).pipe(inSpan(target, method))
