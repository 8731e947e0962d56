import * as JsonValue from "@bowline/domain/json/JsonValue"
import { Rpc } from "@bowline/domain/peer/PeerError"
import { Effect, Option, Result, Schema } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { exchange } from "./Exchange.ts"
import { excerpt, failure, fromStatus, garbled, type ExchangeError } from "./ExchangeError.ts"

/** Where the requests to a peer go. `headers` may hold a secret. */
export interface RpcTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** JSON-RPC 2.0. A member that is null counts as absent. */
const Reply = Schema.Struct({
  result: Schema.optionalKey(Schema.NullOr(Schema.Json)),
  error: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        code: Schema.Number,
        message: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed(""))),
        data: Schema.optionalKey(Schema.Json)
      })
    )
  )
})
const decodeReply = Schema.decodeUnknownResult(Schema.fromJsonString(Reply))
const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

/** Why nobody could write it as JSON again, if it is JSON at all. */
const unfitness = (body: string): string | undefined => {
  const parsed = Result.try(() => JSON.parse(body) as unknown)
  return Result.isSuccess(parsed) ? JsonValue.problem(parsed.success) : undefined
}

/** Calls a method of the peer's and gives its result. The error of a JSON-RPC answer counts under whatever status it comes. */
export const callMethod = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  target: RpcTarget,
  id: string,
  method: string,
  params: { readonly [key: string]: Schema.Json }
): Effect.fn.Return<Schema.Json, ExchangeError> {
  const request = HttpClientRequest.post(target.url).pipe(
    HttpClientRequest.setHeaders({ ...target.headers, accept: "application/json" }),
    HttpClientRequest.bodyJsonUnsafe({ jsonrpc: "2.0", id, method, params })
  )
  const { status, body, after } = yield* exchange(client, request)
  const unfit = unfitness(body)
  if (unfit !== undefined) return yield* garbled(method, { message: unfit })
  const reply = decodeReply(body)
  const isOk = status >= 200 && status < 300
  const error = Result.isSuccess(reply) ? reply.success.error : undefined
  const failed = fromStatus(
    status,
    Option.getOrElse(decodeJson(body), () => body),
    after
  )
  if (error != null && (isOk || (failed.reason._tag === "http" && failed.verdict === "refused"))) {
    const message = `The peer refused ${method}: ${excerpt(error.message)} (${error.code})`
    return yield* failure("refused", new Rpc({ message, code: error.code, data: error.data }))
  }
  if (!isOk) return yield* failed
  if (Result.isFailure(reply)) return yield* garbled(method, reply.failure)
  return reply.success.result ?? null
})
