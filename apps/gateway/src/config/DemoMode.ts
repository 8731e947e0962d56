import { Struct } from "effect"
import type { ConfigFile } from "./file/ConfigFile.ts"
import type { ProviderSettings } from "./file/ProviderSettings.ts"
import type { Misfit } from "./Misfit.ts"
import { formatPlace, type Place } from "./setting/ConfigProblem.ts"
import { knownProviders } from "./setting/ProviderVariables.ts"
import { isLoopback, placeOf, type Sources } from "./setting/ReadSettings.ts"
import type { SettingName, Values } from "./setting/Settings.ts"

/** The name of the demo's provider, and its model. */
export const demoProvider = "openai"
export const demoModel = `${demoProvider}/demo`

/** What is known of its model, as a file would say it: it holds answers to a schema. */
export const demoModels = { name: demoProvider, models: { demo: { structured_output: true } } }

/** The settings and the file of a demo on purpose: it has one model, whatever else they name. */
export const forDemo = (values: Values, file: ConfigFile): { readonly values: Values; readonly file: ConfigFile } => ({
  values: { ...Struct.omit(values, ["model", "summaryModel", "allowedModels"]), fallbackModels: [] },
  file: {
    ...file,
    providers: [],
    presets: file.presets.map((preset) => ({ ...preset, preferences: Struct.omit(preset.preferences, ["model"]) }))
  }
})

/** Settings that nobody sets for a demo. */
const ofProduction = [
  "apiKeys",
  "databaseUrl",
  "publicHosts",
  "publicUrl",
  "model",
  "fallbackModels",
  "summaryModel"
] as const

/** The key of each provider that the gateway knows by itself. */
const keys = new Map<string, SettingName>(Object.entries(knownProviders).map(([name, { sets }]) => [name, sets.apiKey]))

/** The public servers of the known providers answer nobody without a key. A server of the operator's own may. A key that is wrong is reported as such. */
const isUsable =
  (sources: Sources) =>
  ({ apiKeys, baseUrl, headers, name }: ProviderSettings): boolean => {
    if (apiKeys.length > 0 || Object.keys(headers).length > 0) return true
    const known = Object.entries(knownProviders).find(([one]) => one === name)?.[1]
    if (known === undefined || known.baseUrl !== baseUrl) return true
    const { apiKey, apiKeys: pool, baseUrl: server } = known.sets
    return [apiKey, pool, server].some((setting) => setting !== undefined && sources.has(setting))
  }

/** Where the operator says that this gateway is no demo. A setting that is wrong says nothing. */
const saysProduction = (values: Values, sources: Sources, file: ConfigFile): ReadonlyArray<Place> => [
  ...ofProduction.filter((name) => [values[name] ?? []].flat().length > 0).map((name) => placeOf(sources, name)),
  // A public host without keys is wrong.
  ...(isLoopback(values.host) || (values.apiKeys.length === 0 && file.issuers.length === 0)
    ? []
    : [placeOf(sources, "host")]),
  ...(file.issuers.length > 0 ? [{ _tag: "File", file: file.name, path: ["auth", "jwt"] } as const] : []),
  ...(file.providers.length > 0 ? [{ _tag: "File", file: file.name, path: ["providers"] } as const] : [])
]

/**
 * What is wrong with a gateway that has no provider which can answer, and that something says is no demo: it must not answer callers from a
 * script. The key of the provider is missing whose model the operator names, or which the file has.
 */
export const demoMisfits = (
  values: Values,
  sources: Sources,
  file: ConfigFile,
  providers: ReadonlyArray<ProviderSettings>
): ReadonlyArray<Misfit> => {
  if (providers.some(isUsable(sources))) return []
  const places = saysProduction(values, sources, file)
  if (places.length === 0) return []
  const named = values.model === undefined ? providers[0]?.name : values.model.slice(0, values.model.indexOf("/"))
  const key = keys.get(named ?? "")
  const any = [...keys.values(), "openaiBaseUrl"] as const
  const others = any.slice(1).map((name) => formatPlace(placeOf(sources, name)))
  const name = key ?? any[0] ?? "openaiApiKey"
  const expected =
    `Expected the key of a provider${key === undefined ? `, or one of ${others.join(", ")}` : ""}, since this is no demo: ` +
    `${places.map(formatPlace).join(", ")} ${places.length === 1 ? "is" : "are"} set. A demo on purpose has --demo`
  return [{ name, place: placeOf(sources, name), expected }]
}
