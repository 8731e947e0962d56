import * as EgressRule from "@bowline/runtime/egress/EgressRule"
import { type Config, Data, Duration, Effect, Option, Redacted, Result } from "effect"
import { Base64 } from "effect/encoding"
import { parseCallerKeys, parseCallerNames } from "./CallerKeys.ts"
import { parseAuthor, parseName, parseSeed } from "./IdentitySettings.ts"
import { bytes32, duration, flag, globs, integer, matching, oneOf, type Parse, setting, size, url } from "./Setting.ts"

/** The configuration cannot be used. Each problem names a variable and what it expected. */
export class InvalidConfiguration extends Data.TaggedError("InvalidConfiguration")<{
  readonly problems: ReadonlyArray<string>
}> {}

const secret =
  (parse: Parse<string>): Parse<Redacted.Redacted> =>
  (text) =>
    Result.map(parse(text), Redacted.make)

const printable = matching(/^[\x20-\x7e]+$/, "Expected printable ASCII")

/** A comma list of keys: each of them once. */
const secrets: Parse<ReadonlyArray<Redacted.Redacted>> = (text) => {
  const keys = text.split(",").map((key) => key.trim())
  if (!keys.every((key) => /^[\x21-\x7e]+$/.test(key))) return Result.fail("Expected a comma list of printable ASCII")
  if (new Set(keys).size < keys.length) return Result.fail("Expected each key once")
  return Result.succeed(keys.map((key) => Redacted.make(key)))
}

const timer = duration("1ms")

const modelPattern = /^[a-z][a-z0-9_-]*\/[\x21-\x7e]+$/

/** A comma list of models. */
const models: Parse<ReadonlyArray<string>> = (text) => {
  const names = text.split(",").map((name) => name.trim())
  return names.every((name) => modelPattern.test(name))
    ? Result.succeed(names)
    : Result.fail("Expected a comma list of provider/model")
}

/** A comma list of rules. */
const egressRules: Parse<ReadonlyArray<EgressRule.EgressRule>> = (text) =>
  Option.match(Option.all(text.split(",").map((rule) => EgressRule.parse(rule.trim()))), {
    onNone: () => Result.fail("Expected a comma list of hosts, *.suffixes, addresses and networks such as 10.0.0.0/8"),
    onSome: (rules) => Result.succeed(rules)
  })

const settings = {
  BOWLINE_HOST: setting(
    "BOWLINE_HOST",
    matching(/^[A-Za-z0-9.:-]+$/, "Expected a name or an address of this machine to listen on"),
    "127.0.0.1"
  ),
  BOWLINE_PORT: setting("BOWLINE_PORT", integer(0, 65_535), 3774),
  BOWLINE_API_KEYS: setting("BOWLINE_API_KEYS", parseCallerKeys, []),
  BOWLINE_ADMIN_CALLERS: setting("BOWLINE_ADMIN_CALLERS", parseCallerNames, undefined),
  DATABASE_URL: setting(
    "DATABASE_URL",
    secret(url(["postgres:", "postgresql:"], "Expected a postgres:// URL")),
    undefined
  ),
  BOWLINE_DATA_DIR: setting("BOWLINE_DATA_DIR", Result.succeed<string>, ".bowline/data"),
  BOWLINE_MODEL: setting("BOWLINE_MODEL", matching(modelPattern, "Expected provider/model"), undefined),
  BOWLINE_FALLBACK_MODELS: setting("BOWLINE_FALLBACK_MODELS", models, []),
  BOWLINE_SUMMARY_MODEL: setting("BOWLINE_SUMMARY_MODEL", matching(modelPattern, "Expected provider/model"), undefined),
  BOWLINE_ALLOWED_MODELS: setting("BOWLINE_ALLOWED_MODELS", globs, undefined),
  BOWLINE_CONTEXT_WINDOW: setting("BOWLINE_CONTEXT_WINDOW", integer(100, 100_000_000), 128_000),
  BOWLINE_FIRST_TOKEN_TIMEOUT: setting("BOWLINE_FIRST_TOKEN_TIMEOUT", timer, undefined),
  BOWLINE_IDLE_TIMEOUT: setting("BOWLINE_IDLE_TIMEOUT", timer, undefined),
  BOWLINE_ATTEMPT_TIMEOUT: setting("BOWLINE_ATTEMPT_TIMEOUT", timer, Duration.seconds(1_800)),
  BOWLINE_RETRY_BASE: setting("BOWLINE_RETRY_BASE", timer, Duration.seconds(1)),
  BOWLINE_MAX_RETRIES: setting("BOWLINE_MAX_RETRIES", integer(0, 10), 3),
  BOWLINE_LEASE_TTL: setting("BOWLINE_LEASE_TTL", duration("1s"), Duration.seconds(15)),
  BOWLINE_SHUTDOWN_GRACE: setting("BOWLINE_SHUTDOWN_GRACE", duration("0s"), Duration.seconds(30)),
  BOWLINE_MAX_BODY: setting("BOWLINE_MAX_BODY", size, 8 * 2 ** 20),
  BOWLINE_MAX_PLANS: setting("BOWLINE_MAX_PLANS", integer(1, 1_000_000), 1_000),
  BOWLINE_ENV_ALLOW: setting("BOWLINE_ENV_ALLOW", globs, () => false),
  BOWLINE_EGRESS_ALLOW: setting("BOWLINE_EGRESS_ALLOW", egressRules, []),
  BOWLINE_EGRESS_DENY: setting("BOWLINE_EGRESS_DENY", egressRules, []),
  BOWLINE_SECRET_KEY: setting(
    "BOWLINE_SECRET_KEY",
    (text) => bytes32(Base64.decode(text), "Expected 32 bytes in base64"),
    undefined
  ),
  BOWLINE_SESSION_TTL: setting("BOWLINE_SESSION_TTL", duration("1m"), Duration.days(30)),
  BOWLINE_DID_SEED: setting("BOWLINE_DID_SEED", parseSeed, undefined),
  BOWLINE_DID_AUTHOR: setting("BOWLINE_DID_AUTHOR", parseAuthor, undefined),
  BOWLINE_DID_NAME: setting("BOWLINE_DID_NAME", parseName, undefined),
  OPENAI_API_KEY: setting("OPENAI_API_KEY", secret(printable), undefined),
  OPENAI_API_KEYS: setting("OPENAI_API_KEYS", secrets, undefined),
  OPENAI_BASE_URL: setting("OPENAI_BASE_URL", url(["http:", "https:"], "Expected an http or https URL"), undefined),
  ANTHROPIC_API_KEY: setting("ANTHROPIC_API_KEY", secret(printable), undefined),
  ANTHROPIC_API_KEYS: setting("ANTHROPIC_API_KEYS", secrets, undefined),
  ANTHROPIC_BASE_URL: setting(
    "ANTHROPIC_BASE_URL",
    url(["http:", "https:"], "Expected an http or https URL"),
    undefined
  ),
  OPENROUTER_API_KEY: setting("OPENROUTER_API_KEY", secret(printable), undefined),
  OPENROUTER_API_KEYS: setting("OPENROUTER_API_KEYS", secrets, undefined),
  OPENAI_API: setting("OPENAI_API", oneOf(["chat", "responses"]), undefined),
  LOG_LEVEL: setting("LOG_LEVEL", oneOf(["trace", "debug", "info", "warn", "error", "fatal", "none"]), "info"),
  LOG_FORMAT: setting("LOG_FORMAT", oneOf(["pretty", "json"]), undefined),
  // Of the file only: no variables.
  "plans.resume": setting("plans.resume", flag, true),
  "streams.grace": setting("streams.grace", duration("0s"), Duration.zero),
  "streams.takeover_grace": setting("streams.takeover_grace", duration("0s"), Duration.seconds(60))
}

/** Of the command line's commands that speak to a gateway. */
const clientVariables = ["BOWLINE_URL", "BOWLINE_API_KEY"]

/** Where the file is: it is read before all else. */
const fileVariable = "BOWLINE_CONFIG"

const laterVariables = [
  "BOWLINE_RECIPES_DIR",
  "BOWLINE_PLANNER_FILE",
  "BOWLINE_RATE_LIMIT",
  "OTEL_EXPORTER_OTLP_ENDPOINT"
]

type Parsed<S> = S extends Config.Config<infer A> ? A : never

/** What each variable says, or what holds where it is not set. */
export type Values = { readonly [Name in keyof typeof settings]: Parsed<(typeof settings)[Name]> }

const known: ReadonlySet<string> = new Set([
  ...Object.keys(settings),
  ...clientVariables,
  fileVariable,
  ...laterVariables
])

/** Whether what listens there can be reached from this machine only. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)

/**
 * Reads every variable, and names all that are wrong, or of no name that is known, at once, behind the problems that there
 * are already. `label` puts the place where a setting comes from in the place of its name.
 */
export const readSettings = Effect.fnUntraced(function* (
  names: ReadonlyArray<string>,
  already: ReadonlyArray<string>,
  label: (problem: string) => string
) {
  const results = yield* Effect.all(settings, { mode: "result" })
  const problems = Object.values(results).flatMap((result: Result.Result<unknown, Config.ConfigError>) =>
    Result.isFailure(result) ? [result.failure.cause.message] : []
  )
  const { BOWLINE_HOST: host, BOWLINE_API_KEYS: keys } = results
  if (Result.isSuccess(host) && !isLoopback(host.success) && Result.isSuccess(keys) && keys.success.length === 0) {
    problems.push("BOWLINE_API_KEYS: Expected keys, since BOWLINE_HOST can be reached from other machines")
  }
  for (const name of names) {
    const isOurs = name.startsWith("BOWLINE_") && !name.startsWith("BOWLINE_TEST_")
    if (isOurs && !known.has(name)) problems.push(`${name}: There is no such variable`)
  }
  if (already.length + problems.length > 0) {
    return yield* new InvalidConfiguration({ problems: [...already, ...problems.map(label)] })
  }
  const values = yield* Effect.orDie(Effect.fromResult(Result.all(results)))
  return { values, ignored: laterVariables.filter((name) => names.includes(name)) }
})
