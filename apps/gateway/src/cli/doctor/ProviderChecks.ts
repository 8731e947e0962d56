import * as HttpAttempt from "@bowline/runtime/unstable/provider/HttpAttempt"
import { Clock, Effect, Option, Record, Redacted, Schema } from "effect"
import { type HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import type { GatewayConfig } from "../../config/GatewayConfig.ts"
import type { ProviderSettings } from "../../config/file/ProviderSettings.ts"
import { skew } from "./ClockSkew.ts"
import { type Check, fail, ok, unreachable, warn } from "./Finding.ts"

/** By how many milliseconds the clock that wrote the `Date` of an answer is ahead. */
const aheadOf = (
  { headers }: HttpClientResponse.HttpClientResponse,
  asked: number,
  answered: number
): number | undefined => {
  // It has no fractions: on average it is half a second late.
  const date = Date.parse(headers["date"] ?? "") + 500
  return Number.isNaN(date) ? undefined : date - (asked + answered) / 2
}

/** What lists the models, or where that list is open to everybody, what tells of a key. */
const pathOf = ({ baseUrl, wire }: ProviderSettings): string => {
  if (wire === "messages") return "/v1/models"
  return new URL(baseUrl).hostname.endsWith("openrouter.ai") ? "/key" : "/models"
}

const authorization = (wire: ProviderSettings["wire"], key: string): Record<string, string> =>
  wire === "messages" ? { "x-api-key": key, "anthropic-version": "2023-06-01" } : { authorization: `Bearer ${key}` }

const Models = Schema.Struct({ data: Schema.Array(Schema.Struct({ id: Schema.String })) })
const decodeModels = Schema.decodeUnknownOption(Models)

/** What one key of a provider gives. The answer costs nothing: no model is asked. */
const ask = Effect.fnUntraced(function* (
  http: HttpClient.HttpClient,
  provider: ProviderSettings,
  key: Redacted.Redacted | undefined
) {
  const { baseUrl, headers, wire } = provider
  const request = HttpClientRequest.get(HttpAttempt.endpoint(baseUrl, pathOf(provider))).pipe(
    HttpClientRequest.setHeaders(key === undefined ? {} : authorization(wire, Redacted.value(key))),
    HttpClientRequest.setHeaders(Record.map(headers, Redacted.value))
  )
  const asked = yield* Clock.currentTimeMillis
  const response = yield* http.execute(request)
  const aheadMs = aheadOf(response, asked, yield* Clock.currentTimeMillis)
  const models = response.status === 200 ? yield* Effect.option(response.json) : Option.none()
  return { status: response.status, aheadMs, models: Option.flatMap(models, decodeModels) }
})

type Answer = Effect.Success<ReturnType<typeof ask>>

const judge = (what: string, { status }: Answer, hasKey: boolean) => {
  if (status === 401 || status === 403) {
    return hasKey
      ? fail(`${what} is refused (${status})`, "The key is wrong, expired or has no right: replace it")
      : fail(`${what} asks for a key (${status})`, "Set its key")
  }
  if (status === 404 || status === 405)
    return ok(`${what} answers, and has no list of models: nothing is known of its key`)
  if (status === 429) return warn(`${what} is at its limit (429)`, "Wait, or add a credential")
  if (status >= 500) return warn(`${what} answers ${status}`, "The provider has trouble: look at its status page")
  if (status >= 300) return fail(`${what} answers ${status}`, "Correct the base URL")
  return ok(`${what} is accepted`)
}

/** The models of the configuration that this provider does not have, where it lists what it has. */
const missing = (name: string, models: Option.Option<typeof Models.Type>, configured: ReadonlySet<string>) => {
  if (Option.isNone(models) || models.value.data.length === 0) return []
  const listed = new Set(models.value.data.map(({ id }) => `${name}/${id}`))
  const absent = Array.from(configured).filter((model) => model.startsWith(`${name}/`) && !listed.has(model))
  return absent.length === 0 ? [] : [warn(`it does not list ${absent.join(", ")}`, "Correct the names of the models")]
}

const providerCheck = (
  http: HttpClient.HttpClient,
  provider: ProviderSettings,
  configured: ReadonlySet<string>
): Check => {
  const { apiKeys, baseUrl, name } = provider
  const { host } = new URL(baseUrl)
  const keys = apiKeys.length === 0 ? [undefined] : apiKeys
  return {
    name: `provider ${name}`,
    find: Effect.forEach(
      keys,
      (key, index) =>
        ask(http, provider, key).pipe(
          Effect.map((answer) => {
            const finding = judge(
              key === undefined ? host : `${name}-${index + 1} at ${host}`,
              answer,
              key !== undefined
            )
            if (index > 0) return [finding]
            const { aheadMs, models } = answer
            const clock = aheadMs === undefined ? [] : [skew(host, aheadMs)]
            return [finding, ...missing(name, models, configured), ...clock]
          }),
          // All keys ask the same server: it is away once.
          Effect.catch((error) => Effect.succeed(index > 0 ? [] : [unreachable(host, error)]))
        ),
      { concurrency: 8 }
    ).pipe(Effect.map((findings) => findings.flat()))
  }
}

/** Whether each provider can be reached and takes each key. */
export const providerChecks = (
  http: HttpClient.HttpClient,
  { configuredModels, providers }: GatewayConfig["Service"]
): ReadonlyArray<Check> =>
  providers.length === 0
    ? [
        {
          name: "provider",
          find: Effect.succeed([
            warn("none is configured: the gateway runs its demo", "Set a key, such as OPENAI_API_KEY")
          ])
        }
      ]
    : providers.map((provider) => providerCheck(http, provider, configuredModels))
