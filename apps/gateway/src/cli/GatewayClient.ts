import { Api } from "@bowline/protocol/api/Api"
import { Problem } from "@bowline/protocol/api/Problem"
import { decode } from "@bowline/protocol/stream/SseFrame"
import { Data, Effect, Stream } from "effect"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as ClientConfig from "./ClientConfig.ts"
import { misconfigured } from "./Ended.ts"

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
  return { url, client }
}).pipe(Effect.mapError(({ problems }) => misconfigured(problems)))

const decodeProblem = HttpClientResponse.schemaBodyJson(Problem)

/** The frames of a response, or the problem in their place. A stream that is silent for longer than its pings allow counts as ended. */
export const frames = (response: HttpClientResponse.HttpClientResponse) =>
  Stream.unwrap(
    Effect.gen(function* () {
      if (response.status !== 200) return yield* new RequestRefused({ problem: yield* decodeProblem(response) })
      return decode(Stream.timeout(response.stream, "30 seconds"))
    })
  )
