import { Api } from "@bowline/protocol/api/Api"
import { Problem } from "@bowline/protocol/api/Problem"
import { Data, Effect, Predicate, Schema } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as ClientConfig from "./ClientConfig.ts"
import { Ended, failed, misconfigured, reasonOf } from "./Ended.ts"

/** The gateway refused a request. */
export class RequestRefused extends Data.TaggedError("RequestRefused")<{ readonly problem: Problem }> {}

export type GatewayClient = Effect.Success<typeof make>

/** The typed client of the gateway that the environment names. */
export const make = Effect.gen(function* () {
  const { url, apiKey } = yield* ClientConfig.fromProcess
  const client = yield* HttpApiClient.make(Api, {
    baseUrl: url,
    transformClient: HttpClient.mapRequest(
      apiKey === undefined ? (request) => request : HttpClientRequest.bearerToken(apiKey)
    )
  })
  return { url, client, hasKey: apiKey !== undefined }
}).pipe(Effect.mapError(({ problems }) => misconfigured(problems)))

const decodeProblem = HttpClientResponse.schemaBodyJson(Problem)

/** What answers does not speak the protocol of a gateway. */
class NotAGateway extends Data.TaggedError("NotAGateway") {}

/** The response to a request for a stream, unless the gateway has refused it, or it is no stream of events. */
export const accepted = Effect.fnUntraced(function* (response: HttpClientResponse.HttpClientResponse) {
  if (response.status !== 200) return yield* new RequestRefused({ problem: yield* decodeProblem(response) })
  if (!/^text\/event-stream(;|$)/i.test(response.headers["content-type"] ?? "")) return yield* new NotAGateway()
  return response
})

const isProblem = Schema.is(Problem)

const formatProblem = ({ code, detail, issues = [], retryable }: Problem): string => {
  const said = issues.length === 0 ? detail : issues.map(({ path, message }) => `${path}: ${message}`).join("; ")
  if (code === "unauthorized") return `${code}: ${said}. Set BOWLINE_API_KEY to one of the gateway's keys`
  return retryable ? `${code}: ${said}. Try again later` : `${code}: ${said}`
}

/** Why the gateway at this URL has not answered, and what to do about it. */
export const explain = (url: string, error: unknown): Ended => {
  if (error instanceof Ended) return error
  if (error instanceof RequestRefused) return failed(formatProblem(error.problem))
  if (isProblem(error)) return failed(formatProblem(error))
  if (HttpClientError.isHttpClientError(error) && Predicate.isTagged(error.reason, "TransportError")) {
    return failed(
      `Cannot reach ${url}: ${reasonOf(error.reason.cause)}. Start a gateway with \`npm start\`, or name another one with BOWLINE_URL`
    )
  }
  return failed(`What answers at ${url} is not a gateway of this version. Name a gateway with BOWLINE_URL`)
}

/** Asks the gateway that the environment names. */
export const request = Effect.fnUntraced(function* <A, E>(
  ask: (client: GatewayClient["client"]) => Effect.Effect<A, E>
) {
  const { url, client } = yield* make
  return yield* Effect.mapError(ask(client), (error) => explain(url, error))
})
