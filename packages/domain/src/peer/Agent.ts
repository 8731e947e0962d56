import { Effect, Schema } from "effect"
import { ToolEffect } from "../tool/TaskState.ts"

/** How a peer speaks A2A. */
export const Dialect = Schema.Literals(["a2a-1.0", "a2a-0.3", "bindu"])
export type Dialect = typeof Dialect.Type

/** The name that a request gives a peer. The names of its tools begin with it. */
export const AgentName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/u, {
    message: "Expected 1..64 characters of A-Z a-z 0-9 . _ -, the first one a letter or a digit"
  })
)

/** An http or https URL without credentials in it. */
export const HttpUrl = Schema.String.check(
  Schema.makeFilter((text) => {
    if (!URL.canParse(text)) return "Expected an http or https URL"
    const url = new URL(text)
    if (url.protocol !== "http:" && url.protocol !== "https:") return "Expected an http or https URL"
    return url.username === "" && url.password === "" ? true : "Expected no credentials in the URL: use auth or headers"
  })
)

const EnvVar = Schema.NonEmptyString.check(Schema.isMaxLength(256))

const OAuthText = Schema.optionalKey(Schema.NonEmptyString.check(Schema.isMaxLength(1_024)))

/** The token of the plan's caller is exchanged for one with which the gateway calls as that caller (RFC 8693). Without a `client_id` the endpoint knows the gateway by the tokens alone. */
const TokenExchange = Schema.Struct({
  type: Schema.tag("token_exchange"),
  token_url: HttpUrl,
  client_id: OAuthText,
  client_secret_env_var: Schema.optionalKey(EnvVar),
  audience: OAuthText,
  resource: Schema.optionalKey(HttpUrl),
  scope: OAuthText,
  actor_token_env_var: Schema.optionalKey(EnvVar)
}).check(
  Schema.makeFilter(
    ({ client_id, client_secret_env_var }) =>
      client_secret_env_var === undefined ||
      client_id !== undefined || { path: ["client_id"], issue: "Expected the client whose secret it is" }
  )
)

/** How the gateway proves to a peer who it is. An `env_var` names a variable of the gateway's environment that holds the secret. */
export const AgentAuth = Schema.Union([
  Schema.Struct({ type: Schema.tag("none") }),
  Schema.Struct({
    type: Schema.tag("bearer"),
    token: Schema.RedactedFromValue(Schema.NonEmptyString.check(Schema.isMaxLength(16_384)))
  }),
  Schema.Struct({ type: Schema.tag("bearer_env"), env_var: EnvVar }),
  Schema.Struct({ type: Schema.tag("did_signed"), token_env_var: Schema.optionalKey(EnvVar) }),
  Schema.Struct({
    type: Schema.tag("oauth2_client_credentials"),
    token_url: HttpUrl,
    client_id: Schema.NonEmptyString.check(Schema.isMaxLength(1_024)),
    client_secret_env_var: EnvVar,
    scope: OAuthText
  }),
  TokenExchange,
  // What the plan's caller has granted at the authorization server of an account that the configuration names.
  Schema.Struct({ type: Schema.tag("account"), account: AgentName })
]).annotate({
  message:
    "Expected an object of type none, bearer, bearer_env, did_signed, oauth2_client_credentials, token_exchange or account"
})
export type AgentAuth = typeof AgentAuth.Type

/** The fields of an agent's `auth` that name a variable, and which. */
export const variablesOf = (auth: AgentAuth): ReadonlyArray<readonly [field: string, name: string]> => {
  switch (auth.type) {
    case "bearer_env":
      return [["env_var", auth.env_var]]
    case "did_signed":
      return auth.token_env_var === undefined ? [] : [["token_env_var", auth.token_env_var]]
    case "oauth2_client_credentials":
      return [["client_secret_env_var", auth.client_secret_env_var]]
    case "token_exchange":
      return (["client_secret_env_var", "actor_token_env_var"] as const).flatMap((field) => {
        const name = auth[field]
        return name === undefined ? [] : [[field, name] as const]
      })
    default:
      return []
  }
}

/** Everything that requests to this URL with this `auth` connect to: the URL, and then the one that tokens come from. */
export const urlsOf = (url: string, auth: AgentAuth): ReadonlyArray<string> =>
  "token_url" in auth ? [url, auth.token_url] : [url]

/** Whether calls with this `auth` are made as the caller of their plan. */
export const actsForCaller = ({ type }: AgentAuth): boolean => type === "token_exchange" || type === "account"

/** Whether that needs a token with which the caller has come. */
export const needsCallersToken = ({ type }: AgentAuth): boolean => type === "token_exchange"

/** Milliseconds, from 100 to 6 hours. */
export const TimeoutMs = Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 21_600_000 }))

/**
 * What an agent can be asked to do. Without `input_schema` it takes `{input: string}`. A call of an `idempotent` skill whose effect is
 * unknown may be made once more with the same id; a `polling` skill is meant to be asked the same thing again and again. `approval` says
 * whether its calls wait for a person, whatever the request says of all its calls. With `fetch_files` the gateway fetches the files whose URLs the
 * agent gives, and keeps them.
 */
export const Skill = Schema.Struct({
  id: Schema.String.check(Schema.isBetweenLength(1, 256)),
  description: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(4_096))),
  input_schema: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  output_modes: Schema.optionalKey(Schema.Array(Schema.NonEmptyString).check(Schema.isMaxLength(32))),
  tags: Schema.optionalKey(Schema.Array(Schema.String).check(Schema.isMaxLength(64))),
  timeout_ms: Schema.optionalKey(TimeoutMs),
  idempotent: Schema.optionalKey(Schema.Boolean),
  polling: Schema.optionalKey(Schema.Boolean),
  approval: Schema.optionalKey(Schema.Literals(["never", "always"])),
  effect: Schema.optionalKey(ToolEffect),
  fetch_files: Schema.optionalKey(Schema.Boolean)
}).check(
  Schema.makeFilter(({ effect, polling }) =>
    polling === true && effect !== undefined
      ? { path: ["effect"], issue: "Expected no effect of a skill that is polling" }
      : undefined
  )
)
export type Skill = typeof Skill.Type

/** A decentralized identifier (W3C DID): `did:<method>:<id>`. */
export const Did = Schema.String.check(
  Schema.isPattern(/^did:[a-z0-9]+:[A-Za-z0-9._:%-]{1,500}$/u, { message: "Expected a DID: did:<method>:<id>" })
)

/** Whether a peer's answers must be signed, and by whom. Without `pinned_did` the card names the signer. */
export const Trust = Schema.Struct({
  verify_did: Schema.optionalKey(Schema.Boolean),
  pinned_did: Schema.optionalKey(Did)
})
export type Trust = typeof Trust.Type

/** A peer's own name of a task or a context. It is shown, stored and sent back. */
export const RemoteId = Schema.NonEmptyString.check(
  Schema.isMaxLength(512),
  Schema.isPattern(/^\P{Cc}*$/u, { message: "Expected no control characters" })
)

/**
 * A peer as a request names it.
 *
 * @example
 * ```ts
 * import { actsForCaller, Agent, AgentName, Did, HttpUrl, needsCallersToken, RemoteId, summary, TimeoutMs, urlsOf, variablesOf } from "@bowline/domain/peer/Agent"
 * import { Schema } from "effect"
 *
 * const agent = Schema.decodeUnknownSync(Agent)({
 *   name: AgentName.make("rigger"),
 *   endpoint: HttpUrl.make("https://rigger.example/"),
 *   auth: { type: "bearer_env", env_var: "RIGGER_TOKEN" },
 *   trust: { verify_did: true, pinned_did: Did.make("did:web:rigger.example") },
 *   context_id: RemoteId.make("refit-7"),
 *   skills: [{ id: "inspect", timeout_ms: TimeoutMs.make(10_000) }]
 * })
 *
 * console.log(summary(agent), variablesOf(agent.auth), urlsOf(agent.endpoint, agent.auth), actsForCaller(agent.auth), needsCallersToken(agent.auth))
 * ```
 */
export const Agent = Schema.Struct({
  name: AgentName,
  endpoint: HttpUrl,
  auth: AgentAuth.pipe(Schema.withDecodingDefaultKey(Effect.succeed({ type: "none" as const }))),
  dialect: Schema.Literals(["auto", ...Dialect.literals])
    .annotate({ default: "auto" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("auto" as const))),
  trust: Schema.optionalKey(Trust),
  streaming: Schema.optionalKey(Schema.Boolean),
  context_id: Schema.optionalKey(RemoteId),
  reference_task_ids: Schema.optionalKey(Schema.Array(RemoteId).check(Schema.isMaxLength(64))),
  skills: Schema.optionalKey(Schema.Array(Skill).check(Schema.isMaxLength(64)))
})
export type Agent = typeof Agent.Type

/** An agent as it is stored and shown: without its secrets, and with the type of `auth` only. */
export const AgentSummary = Schema.Struct({
  name: AgentName,
  endpoint: Schema.String,
  auth: Schema.Struct({ type: Schema.String }),
  dialect: Schema.String,
  skills: Schema.Array(Skill)
})
export type AgentSummary = typeof AgentSummary.Type

/** The agent without its secrets. */
export const summary = (agent: Agent): AgentSummary => ({
  name: agent.name,
  endpoint: agent.endpoint,
  auth: { type: agent.auth.type },
  dialect: agent.dialect,
  skills: agent.skills ?? []
})
