import type { AttemptTimers } from "@bowline/runtime/provider/Attempt"
import { Option, Record, Redacted, Result } from "effect"
import type { Problem } from "../setting/ConfigPath.ts"
import type { FileProvider } from "./FileSchema.ts"
import { duration } from "../setting/Setting.ts"
import type { Values } from "../setting/Settings.ts"

/** A provider that is configured, and how it is spoken to. */
export interface ProviderSettings {
  /** What stands in front of the model in `provider/model`. */
  readonly name: string
  readonly wire: "chat" | "responses" | "messages"
  readonly baseUrl: string
  /** One for each credential. A server of one's own may need none. */
  readonly apiKeys: ReadonlyArray<Redacted.Redacted>
  /** They may hold secrets, too. */
  readonly headers: Readonly<Record<string, Redacted.Redacted>>
  /** As `provider/model`. None where nobody has named a model of it. */
  readonly defaultModel: string | undefined
}

const wires = { "openai-chat": "chat", "openai-responses": "responses", "anthropic-messages": "messages" } as const

const keys = (pool: ReadonlyArray<Redacted.Redacted> | undefined, key: Redacted.Redacted | undefined) =>
  pool ?? (key === undefined ? undefined : [key])

/** OpenAI's own, its regional hosts too. */
const isOfficial = (baseUrl: string): boolean => /(^|\.)api\.openai\.com$/.test(new URL(baseUrl).hostname)

/** What holds of the providers that have variables, where neither these nor the file say anything else. */
const known = {
  openai: { wire: undefined, baseUrl: "https://api.openai.com/v1", defaultModel: "openai/gpt-5-mini" },
  anthropic: {
    wire: "messages",
    baseUrl: "https://api.anthropic.com",
    defaultModel: "anthropic/claude-sonnet-4-5"
  },
  openrouter: {
    wire: "chat",
    baseUrl: "https://openrouter.ai/api/v1",
    defaultModel: "openrouter/openai/gpt-5-mini"
  }
} as const

const isKnown = (name: string): name is keyof typeof known => Object.hasOwn(known, name)

/** What the variables say of a provider: it wins over the file. */
const fromVariables = (values: Values) => ({
  openai: {
    wire: values.OPENAI_API,
    baseUrl: values.OPENAI_BASE_URL,
    apiKeys: keys(values.OPENAI_API_KEYS, values.OPENAI_API_KEY)
  },
  anthropic: {
    wire: undefined,
    baseUrl: values.ANTHROPIC_BASE_URL,
    apiKeys: keys(values.ANTHROPIC_API_KEYS, values.ANTHROPIC_API_KEY)
  },
  openrouter: {
    wire: undefined,
    baseUrl: undefined,
    apiKeys: keys(values.OPENROUTER_API_KEYS, values.OPENROUTER_API_KEY)
  }
})

/** The models that a provider of the file has, as `provider/model`. */
export const modelsOf = ({ models = {}, name }: FileProvider): ReadonlyArray<string> =>
  Object.keys(models).map((model) => `${name}/${model}`)

/** The providers of the file and then those that have a key or a base URL, the first one being that of the default model. */
export const fromValues = (values: Values, file: ReadonlyArray<FileProvider>): ReadonlyArray<ProviderSettings> => {
  const variables = fromVariables(values)
  const isSet = (name: keyof typeof known) =>
    variables[name].apiKeys !== undefined || variables[name].baseUrl !== undefined
  const others = Object.keys(known).filter(
    (name) => isKnown(name) && isSet(name) && !file.some((provider) => provider.name === name)
  )
  return [...file, ...others.map((name): FileProvider => ({ name }))].map((provider) => {
    const { api_keys = [], base_url, headers = {}, name, wire } = provider
    const set = isKnown(name) ? variables[name] : undefined
    const usual = isKnown(name) ? known[name] : undefined
    const baseUrl = set?.baseUrl ?? base_url ?? usual?.baseUrl ?? ""
    return {
      name,
      wire:
        set?.wire ??
        (wire === undefined ? undefined : wires[wire]) ??
        usual?.wire ??
        (URL.canParse(baseUrl) && isOfficial(baseUrl) ? "responses" : "chat"),
      baseUrl,
      apiKeys: set?.apiKeys ?? api_keys.map((key) => Redacted.make(key)),
      headers: Record.map(headers, (value) => Redacted.make(value)),
      defaultModel: modelsOf(provider)[0] ?? usual?.defaultModel
    }
  })
}

/** What the providers of the file lack, and names that two of them have. */
export const problemsOf = (file: ReadonlyArray<FileProvider>): ReadonlyArray<Problem> =>
  file.flatMap(({ api_keys = [], base_url, name, wire }, index) => {
    const problem = (key: string, expected: string): Problem => ({ path: ["providers", index, key], expected })
    const isRepeated = file.findIndex((other) => other.name === name) < index
    return [
      ...(isRepeated ? [problem("name", "Expected each name once")] : []),
      ...(new Set(api_keys).size < api_keys.length ? [problem("api_keys", "Expected each key once")] : []),
      ...(base_url === undefined && !isKnown(name) ? [problem("base_url", "Expected an http or https URL")] : []),
      ...(wire === undefined && !isKnown(name) ? [problem("wire", "Expected the wire that it speaks")] : [])
    ]
  })

const timer = (text: string | undefined) =>
  text === undefined ? undefined : Option.getOrUndefined(Result.getSuccess(duration("1ms")(text)))

/** How long the providers of the file may be silent, where no variable says it of all. */
export const timersOf = (
  file: ReadonlyArray<FileProvider>,
  isSet: (variable: string) => boolean
): ReadonlyMap<string, Partial<AttemptTimers>> =>
  new Map(
    file.map(({ name, timeouts = {} }) => {
      const firstToken = isSet("BOWLINE_FIRST_TOKEN_TIMEOUT") ? undefined : timer(timeouts.first_token)
      const idle = isSet("BOWLINE_IDLE_TIMEOUT") ? undefined : timer(timeouts.idle)
      const total = isSet("BOWLINE_ATTEMPT_TIMEOUT") ? undefined : timer(timeouts.attempt)
      return [
        name,
        {
          ...(firstToken === undefined ? {} : { firstToken }),
          ...(idle === undefined ? {} : { idle }),
          ...(total === undefined ? {} : { total })
        }
      ]
    })
  )

const pools = ["OPENAI", "ANTHROPIC", "OPENROUTER"] as const

/** Variables of one key that are set, and that a pool of keys wins over. */
export const overruled = (values: Values): ReadonlyArray<string> =>
  pools
    .filter((name) => values[`${name}_API_KEYS`] !== undefined && values[`${name}_API_KEY`] !== undefined)
    .map((name) => `${name}_API_KEY`)
