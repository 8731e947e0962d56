import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { isWebhookSecret, type Webhook, WebhookEvent } from "@bowline/domain/unstable/plan/Webhook"
import { Effect, Option, Redacted, Schema } from "effect"
import { GatewayIdentity } from "../auth/GatewayIdentity.ts"
import { EnvironmentSecrets } from "../config/EnvironmentSecrets.ts"
import type { Preset } from "../config/Presets.ts"
import type { NewWebhook, PushTarget } from "../store/PushStore.ts"
import * as Sealing from "../store/Sealing.ts"
import { SecretKey } from "../store/SecretKey.ts"

/** What a request says of its webhook that nobody else may know. */
const Secrets = Schema.Struct({
  secret: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
})
export type WebhookSecrets = typeof Secrets.Type
const decodeSecrets = Schema.decodeOption(Schema.fromJsonString(Secrets))

/** The secrets are for this caller's plans and this URL only. */
const belongsTo = (owner: CallerName, url: string): string => `webhook ${owner} ${url}`

/** What only the receiver and the gateway know. */
export const secretsOf = ({ headers, secret }: Webhook): WebhookSecrets => ({
  ...(secret !== undefined && { secret: Redacted.value(secret) }),
  ...(headers !== undefined && { headers: Redacted.value(headers) })
})

/** The secrets of a webhook that a request has brought; none if this process cannot read them. */
export const open = (
  owner: CallerName,
  { secrets, url }: Pick<PushTarget, "secrets" | "url">,
  key: Option.Option<Sealing.SealingKey>
): Option.Option<WebhookSecrets> =>
  secrets === null
    ? Option.some({})
    : Option.flatMap(key, (key) => Option.flatMap(Sealing.unseal(secrets, belongsTo(owner, url), key), decodeSecrets))

/** Who is told of a plan: whom its request names, whom its preset does, and whom the operator has told of all. */
export const of = (
  owner: CallerName,
  { webhooks = [] }: Pick<PlanRequest, "webhooks">,
  configured: ReadonlyArray<Webhook>,
  key: Option.Option<Sealing.SealingKey>
): ReadonlyArray<NewWebhook> => {
  const toNew =
    (is_configured: boolean) =>
    (webhook: Webhook): NewWebhook => {
      const { events = WebhookEvent.literals, include = [], secret_env_var = null, url } = webhook
      const text = JSON.stringify(is_configured ? {} : secretsOf(webhook))
      const sealed =
        text === "{}" ? Option.none() : Option.map(key, (key) => Sealing.seal(text, belongsTo(owner, url), key))
      const settings = { secret_env_var, has_final: include.includes("final"), is_configured }
      return { url, events, settings, secrets: Option.getOrNull(sealed) }
    }
  return [...webhooks.map(toNew(false)), ...configured.map(toNew(true))]
}

/** Says why the webhooks of a request cannot be told, or not in secret. */
export const makeCheck = Effect.gen(function* () {
  const key = yield* SecretKey
  const identity = yield* GatewayIdentity
  const { get, isAllowed } = yield* EnvironmentSecrets
  return ({ webhooks = [] }: Pick<PlanRequest, "webhooks">): Effect.Effect<InvalidRequest["issues"]> =>
    Effect.map(
      Effect.forEach(
        webhooks,
        Effect.fnUntraced(function* ({ headers, secret, secret_env_var }, index) {
          const issue = (field: ReadonlyArray<string>, message: string) => [
            { path: ["webhooks", index, ...field], message }
          ]
          const sealed = secret === undefined ? "headers" : "secret"
          if ((secret ?? headers) !== undefined && Option.isNone(key)) {
            const instead = secret === undefined ? "no headers" : "secret_env_var"
            return issue([sealed], `Expected ${instead}: without BOWLINE_SECRET_KEY the gateway stores no secret`)
          }
          if (secret_env_var === undefined) {
            if (secret !== undefined || Option.isSome(identity)) return []
            const why = "the gateway has no key to sign with: BOWLINE_DID_SEED (identity.seed in the file) is not set"
            return issue([], `Expected secret_env_var or secret: ${why}`)
          }
          if (!isAllowed(secret_env_var)) {
            const named = "Expected a variable that BOWLINE_ENV_ALLOW (server.env_allow in the file) names"
            return issue(["secret_env_var"], named)
          }
          const value = Option.map(yield* get(secret_env_var), Redacted.value)
          if (Option.exists(value, isWebhookSecret)) return []
          return issue(["secret_env_var"], "Expected a variable that holds whsec_ and the secret's bytes in base64")
        })
      ),
      (issues) => issues.flat()
    )
})

/** Whom the operator has told of the plans of a preset. */
export const configuredOf = ({ webhooks = [] }: Preset, ofAll: ReadonlyArray<Webhook>): ReadonlyArray<Webhook> => [
  ...webhooks,
  ...ofAll
]
