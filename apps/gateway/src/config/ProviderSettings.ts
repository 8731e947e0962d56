import type { Redacted } from "effect"
import type { Values } from "./Settings.ts"

/** A provider that is configured, and how it is spoken to. */
export interface ProviderSettings {
  /** What stands in front of the model in `provider/model`. */
  readonly name: "openai" | "anthropic" | "openrouter"
  readonly wire: "chat" | "responses" | "messages"
  readonly baseUrl: string
  /** One for each credential. A server of one's own may need none. */
  readonly apiKeys: ReadonlyArray<Redacted.Redacted>
  /** As `provider/model`. */
  readonly defaultModel: string
}

const keys = (pool: ReadonlyArray<Redacted.Redacted> | undefined, key: Redacted.Redacted | undefined) =>
  pool ?? (key === undefined ? [] : [key])

/** OpenAI's own, its regional hosts too. */
const isOfficial = (baseUrl: string): boolean => /(^|\.)api\.openai\.com$/.test(new URL(baseUrl).hostname)

/** The providers that have a key or a base URL, the first one being that of the default model. */
export const fromValues = (values: Values): ReadonlyArray<ProviderSettings> => {
  const openAiUrl = values.OPENAI_BASE_URL ?? "https://api.openai.com/v1"
  const known: ReadonlyArray<ProviderSettings> = [
    {
      name: "openai",
      wire: values.OPENAI_API ?? (isOfficial(openAiUrl) ? "responses" : "chat"),
      baseUrl: openAiUrl,
      apiKeys: keys(values.OPENAI_API_KEYS, values.OPENAI_API_KEY),
      defaultModel: "openai/gpt-5-mini"
    },
    {
      name: "anthropic",
      wire: "messages",
      baseUrl: values.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com",
      apiKeys: keys(values.ANTHROPIC_API_KEYS, values.ANTHROPIC_API_KEY),
      defaultModel: "anthropic/claude-sonnet-4-5"
    },
    {
      name: "openrouter",
      wire: "chat",
      baseUrl: "https://openrouter.ai/api/v1",
      apiKeys: keys(values.OPENROUTER_API_KEYS, values.OPENROUTER_API_KEY),
      defaultModel: "openrouter/openai/gpt-5-mini"
    }
  ]
  const hasServer = { openai: values.OPENAI_BASE_URL, anthropic: values.ANTHROPIC_BASE_URL, openrouter: undefined }
  return known.filter(({ name, apiKeys }) => apiKeys.length > 0 || hasServer[name] !== undefined)
}

const pools = ["OPENAI", "ANTHROPIC", "OPENROUTER"] as const

/** Variables of one key that are set, and that a pool of keys wins over. */
export const overruled = (values: Values): ReadonlyArray<string> =>
  pools
    .filter((name) => values[`${name}_API_KEYS`] !== undefined && values[`${name}_API_KEY`] !== undefined)
    .map((name) => `${name}_API_KEY`)
