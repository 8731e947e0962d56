import { Predicate, Schema } from "effect"
import type { Problem } from "../setting/ConfigPath.ts"
import type { Values } from "../setting/Settings.ts"

export type Section = { readonly [key: string]: keyof Values }

/** Where the settings stand in the file: the variables, and those that are no variables. */
export const sections = {
  server: {
    host: "BOWLINE_HOST",
    port: "BOWLINE_PORT",
    api_keys: "BOWLINE_API_KEYS",
    admin_callers: "BOWLINE_ADMIN_CALLERS",
    max_body: "BOWLINE_MAX_BODY",
    env_allow: "BOWLINE_ENV_ALLOW",
    shutdown_grace: "BOWLINE_SHUTDOWN_GRACE"
  },
  database: {
    url: "DATABASE_URL",
    data_dir: "BOWLINE_DATA_DIR"
  },
  sessions: {
    ttl: "BOWLINE_SESSION_TTL",
    lease_ttl: "BOWLINE_LEASE_TTL"
  },
  plans: {
    model: "BOWLINE_MODEL",
    fallback_models: "BOWLINE_FALLBACK_MODELS",
    summary_model: "BOWLINE_SUMMARY_MODEL",
    allowed_models: "BOWLINE_ALLOWED_MODELS",
    max_plans: "BOWLINE_MAX_PLANS",
    context_window: "BOWLINE_CONTEXT_WINDOW",
    first_token_timeout: "BOWLINE_FIRST_TOKEN_TIMEOUT",
    idle_timeout: "BOWLINE_IDLE_TIMEOUT",
    attempt_timeout: "BOWLINE_ATTEMPT_TIMEOUT",
    max_retries: "BOWLINE_MAX_RETRIES",
    retry_base: "BOWLINE_RETRY_BASE",
    resume: "plans.resume",
    secret_key: "BOWLINE_SECRET_KEY"
  },
  streams: {
    grace: "streams.grace",
    takeover_grace: "streams.takeover_grace"
  },
  egress: {
    allow: "BOWLINE_EGRESS_ALLOW",
    deny: "BOWLINE_EGRESS_DENY"
  },
  identity: {
    seed: "BOWLINE_DID_SEED",
    author: "BOWLINE_DID_AUTHOR",
    name: "BOWLINE_DID_NAME"
  },
  log: {
    level: "LOG_LEVEL",
    format: "LOG_FORMAT"
  }
} as const satisfies { readonly [section: string]: Section }

const Scalar = Schema.Union([Schema.String, Schema.Finite])

/** As the file may write a setting. What it has to be is the same as in the environment. */
const Value = Scalar.annotate({ message: "Expected text or a number" })

const List = Schema.Union([
  Scalar,
  Schema.Array(Scalar),
  Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Array(Schema.String)]))
]).annotate({ message: "Expected text, a number or a list" })

const Flag = Schema.Union([Schema.Boolean, Schema.Literals(["true", "false"])]).annotate({
  message: "Expected true or false"
})

const lists: ReadonlySet<keyof Values> = new Set([
  "BOWLINE_API_KEYS",
  "BOWLINE_ADMIN_CALLERS",
  "BOWLINE_ENV_ALLOW",
  "BOWLINE_FALLBACK_MODELS",
  "BOWLINE_ALLOWED_MODELS",
  "BOWLINE_EGRESS_ALLOW",
  "BOWLINE_EGRESS_DENY"
])

const schemaOf = (name: keyof Values) => (name === "plans.resume" ? Flag : lists.has(name) ? List : Value)

type Written = typeof List.Type | typeof Flag.Type

const section = (names: Section) =>
  Schema.optionalKey(
    Schema.Struct(
      Object.fromEntries(Object.entries(names).map(([key, name]) => [key, Schema.optionalKey(schemaOf(name))]))
    )
  )

/** The fields of the file that are settings. */
export const fields = {
  server: section(sections.server),
  database: section(sections.database),
  sessions: section(sections.sessions),
  plans: section(sections.plans),
  streams: section(sections.streams),
  egress: section(sections.egress),
  identity: section(sections.identity),
  log: section(sections.log)
}

/** A setting of the file, as it would stand in the environment. */
export interface FileSetting {
  readonly name: keyof Values
  readonly path: Problem["path"]
  readonly text: string
}

const elements = (written: Written): ReadonlyArray<string> => {
  if (typeof written !== "object") return [String(written)]
  if (Array.isArray(written)) return written.map(String)
  return Object.entries(written).flatMap(([name, values]) => [values].flat().map((value) => `${name}=${value}`))
}

/**
 * Every setting that stands in a document, whatever else is wrong with it. An element of a list cannot have a comma in it.
 */
export const settingsOf = (
  document: unknown
): { readonly settings: ReadonlyArray<FileSetting>; readonly problems: ReadonlyArray<Problem> } => {
  const settings: Array<FileSetting> = []
  const problems: Array<Problem> = []
  for (const [section, names] of Object.entries<Section>(sections)) {
    for (const [key, name] of Object.entries(names)) {
      const written = member(member(document, section), key)
      if (!Schema.is(schemaOf(name))(written)) continue
      const path = [section, key]
      const texts = elements(written)
      if (typeof written === "object" && texts.some((text) => text.includes(","))) {
        problems.push({ path, expected: "Expected a list without commas in its elements" })
      } else if (texts.includes("")) {
        problems.push({ path, expected: "Expected text that is not empty" })
      } else {
        settings.push({ name, path, text: texts.join(",") })
      }
    }
  }
  return { settings, problems }
}

const member = (value: unknown, key: string): unknown =>
  Predicate.hasProperty(value, key) && Object.hasOwn(value, key) ? value[key] : undefined
