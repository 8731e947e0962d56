import type { AttemptTimers } from "@bowline/runtime/unstable/provider/Attempt"
import { Redacted } from "effect"
import type { Issue } from "../setting/ConfigProblem.ts"
import { knownProviders } from "../setting/ProviderVariables.ts"
import type { Sources } from "../setting/ReadSettings.ts"
import { type SettingName, table, type Values } from "../setting/Settings.ts"
import type { FileProvider } from "./FileSchema.ts"

/** A configured provider, and how the gateway reaches it. */
export interface ProviderSettings {
  /** What stands in front of the model in `provider/model`. */
  readonly name: string
  readonly wire: "chat" | "responses" | "messages"
  readonly baseUrl: string
  /** One for each credential. A local server may need none. */
  readonly apiKeys: ReadonlyArray<Redacted.Redacted>
  /** They may contain secrets, too. */
  readonly headers: Readonly<Record<string, Redacted.Redacted>>
  /** As `provider/model`. Undefined if nobody has named a model of this provider. */
  readonly defaultModel: string | undefined
}

const wires = { "openai-chat": "chat", "openai-responses": "responses", "anthropic-messages": "messages" } as const

/** OpenAI's own hosts, the regional ones included. */
const isOfficial = (baseUrl: string): boolean => /(^|\.)api\.openai\.com$/.test(new URL(baseUrl).hostname)

type KnownName = keyof typeof knownProviders

const isKnown = (name: string): name is KnownName => Object.hasOwn(knownProviders, name)

/** What the variables set of a provider. */
const fromVariables = ({ sets }: (typeof knownProviders)[KnownName], values: Values) => {
  const key = values[sets.apiKey]
  return {
    wire: sets.wire && values[sets.wire],
    baseUrl: sets.baseUrl && values[sets.baseUrl],
    apiKeys: values[sets.apiKeys] ?? (key && [key])
  }
}

/** The models of a provider of the file, as `provider/model`. */
export const modelsOf = ({ models = {}, name }: FileProvider): ReadonlyArray<string> =>
  Object.keys(models).map((model) => `${name}/${model}`)

/** The providers of the file, then those whose variables set a key or a base URL. The first one has the default model. */
export const fromValues = (
  values: Values,
  sources: Sources,
  file: ReadonlyArray<FileProvider>
): ReadonlyArray<ProviderSettings> => {
  const others = Object.entries(knownProviders).flatMap(([name, { sets }]): ReadonlyArray<FileProvider> => {
    const isConfigured = [sets.apiKey, sets.apiKeys, sets.baseUrl].some((setting) => setting && sources.has(setting))
    return isConfigured && !file.some((provider) => provider.name === name) ? [{ name }] : []
  })
  return [...file, ...others].map((provider) => {
    const { api_keys = [], base_url, headers = {}, name, wire } = provider
    const known = isKnown(name) ? knownProviders[name] : undefined
    const set = known && fromVariables(known, values)
    const baseUrl = set?.baseUrl ?? base_url ?? known?.baseUrl ?? ""
    return {
      name,
      wire:
        set?.wire ??
        (wire === undefined ? undefined : wires[wire]) ??
        known?.wire ??
        (URL.canParse(baseUrl) && isOfficial(baseUrl) ? "responses" : "chat"),
      baseUrl,
      apiKeys: set?.apiKeys ?? api_keys,
      headers,
      defaultModel: modelsOf(provider)[0] ?? known?.defaultModel
    }
  })
}

/** Reports what providers of the file lack, and what stands there twice. */
export const providerIssues = (file: ReadonlyArray<FileProvider>): ReadonlyArray<Issue> =>
  file.flatMap(({ api_keys = [], base_url, name, wire }, index) => {
    const issue = (key: string, expected: string): Issue => ({ path: ["providers", index, key], expected })
    const isRepeated = file.findIndex((other) => other.name === name) < index
    return [
      ...(isRepeated ? [issue("name", "Expected each name once")] : []),
      ...(new Set(api_keys.map(Redacted.value)).size < api_keys.length
        ? [issue("api_keys", "Expected each key once")]
        : []),
      ...(base_url === undefined && !isKnown(name) ? [issue("base_url", "Expected an http or https URL")] : []),
      ...(wire === undefined && !isKnown(name) ? [issue("wire", "Expected the wire that it speaks")] : [])
    ]
  })

/** The timers of the file's providers. A variable holds for all models, and wins. */
export const timersOf = (
  file: ReadonlyArray<FileProvider>,
  sources: Sources
): ReadonlyMap<string, Partial<AttemptTimers>> => {
  const holdsForAll = (name: SettingName) => sources.get(name)?.place._tag === "Variable"
  return new Map(
    file.map(({ name, timeouts: { attempt, first_token, idle } = {} }) => [
      name,
      {
        ...(first_token === undefined || holdsForAll("firstTokenTimeout") ? {} : { firstToken: first_token }),
        ...(idle === undefined || holdsForAll("idleTimeout") ? {} : { idle }),
        ...(attempt === undefined || holdsForAll("attemptTimeout") ? {} : { total: attempt })
      }
    ])
  )
}

/** Variables with one key that have no effect, because the variable with several keys is set, too. */
export const overruled = (sources: Sources): ReadonlyArray<string> =>
  Object.values(knownProviders).flatMap(({ sets: { apiKey, apiKeys } }) =>
    sources.has(apiKeys) && sources.has(apiKey) ? [table[apiKey].variable ?? apiKey] : []
  )
