import type { Permissions } from "@bowline/runtime/unstable/config/Permissions"
import type { ModelOverrides } from "@bowline/runtime/unstable/provider/ModelTable"
import { Effect, Equal, Record, Struct } from "effect"
import * as ConfigFile from "./file/ConfigFile.ts"
import type { PeerTls } from "./file/PeerTls.ts"
import * as ProviderSettings from "./file/ProviderSettings.ts"
import { isWithin, type Problem } from "./setting/ConfigProblem.ts"
import { collect, read as readSettings, type Sources, type Texts } from "./setting/ReadSettings.ts"
import { withoutServiceLinks } from "./setting/ServiceLinks.ts"
import { table, type Values } from "./setting/Settings.ts"
import { callerMisfits, permissionsOf } from "./CallerRules.ts"
import { type CommandLine, withOwn } from "./CommandLine.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import { demoMisfits, demoModels, forDemo } from "./DemoMode.ts"
import { actingMisfits, presetMisfits } from "./ConfiguredPresets.ts"
import { identityMisfits, notReported, textMisfits, textsOf, workerMisfits } from "./Misfit.ts"

/** What flags, the environment and the file say together, and everything that is wrong with it. */
export interface Reading {
  readonly file: ConfigFile.ConfigFile
  readonly sources: Sources
  readonly values: Values
  readonly providers: ReadonlyArray<ProviderSettings.ProviderSettings>
  readonly models: ReturnType<typeof ConfiguredModels.choose>
  readonly texts: ReturnType<typeof textsOf>
  readonly links: ReadonlyArray<string>
  readonly problems: ReadonlyArray<Problem>
}

/** Reads everything that an operator can set. It reports every problem, but for those that may only follow from another. */
export const read = Effect.fnUntraced(function* (
  environment: Texts,
  commandLine: CommandLine
): Effect.fn.Return<Reading> {
  const { flags, isDemo } = commandLine
  const loaded = withOwn(yield* ConfigFile.load(environment), commandLine, environment)
  const { links, settings } = withoutServiceLinks(environment)
  const sources = collect(flags, settings, loaded.settings)
  const { problems: wrong, values: given } = readSettings(sources, settings, loaded.issuers.length > 0)
  const { file, values } = isDemo ? forDemo(given, loaded) : { file: loaded, values: given }
  const providers = isDemo ? [] : ProviderSettings.fromValues(values, sources, file.providers)
  const models = ConfiguredModels.choose(values, sources, providers, file)
  const noProvider = isDemo ? [] : demoMisfits(values, sources, file, providers)
  // What is wrong within a list is not said of the list again.
  const isKnown = ({ place }: Problem) =>
    place._tag === "File" &&
    file.problems.some((known) => known.place._tag === "File" && isWithin(known.place.path, place.path))
  const found = [...file.problems, ...wrong.filter((problem) => !isKnown(problem))]
  const texts = textsOf(values, sources)
  const unreadable = yield* textMisfits(texts, sources)
  const ofModels = noProvider.length > 0 ? noProvider : models.misfits
  const ofLists = file.hasLists
    ? [...ofModels, ...callerMisfits(file, values), ...presetMisfits(file), ...actingMisfits(file, values)]
    : []
  const misfits = [...ofLists, ...identityMisfits(sources), ...workerMisfits(values, sources), ...unreadable]
  const problems = [...found, ...notReported(misfits, found, sources)]
  return { file, sources, values, providers, models, texts, links, problems }
})

/** What a running gateway takes over from a file that has changed. */
export interface Changeable {
  readonly models: ModelOverrides
  /** Whether `preferences.model` may name this model. */
  readonly allowsModel: (model: string) => boolean
  readonly permissions: typeof Permissions.Service
  readonly peerTls: PeerTls
}

/** What the file says now of what may change. Of the providers that the gateway has started with, these are the models. */
export const changeableOf = (
  { file: started, providers, sources, values }: Reading,
  now: ConfigFile.ConfigFile
): Changeable => {
  const configured = started.providers.map((provider) => {
    const { models = {} } = now.providers.find(({ name }) => name === provider.name) ?? provider
    return { ...provider, models }
  })
  return {
    models: ConfiguredModels.overridesOf(now.models, providers.length === 0 ? [demoModels] : configured),
    allowsModel: ConfiguredModels.choose(values, sources, providers, { ...now, providers: configured }).allows,
    permissions: permissionsOf(now),
    peerTls: now.peerTls
  }
}

const lists = {
  providers: ({ file }: Reading) => file.providers.map(Struct.omit(["models"])),
  agents: ({ file }: Reading) => file.presets[0]?.agents,
  mcp_servers: ({ file }: Reading) => file.presets[0]?.servers,
  presets: ({ file }: Reading) => file.presets.slice(1),
  budgets: ({ file }: Reading) => file.budgets,
  webhooks: ({ file }: Reading) => file.webhooks,
  "auth.jwt": ({ file }: Reading) => file.issuers,
  accounts: ({ file }: Reading) => file.accounts,
  accounts_discovered: ({ file }: Reading) => file.accountsDiscovered,
  "console.oidc": ({ file }: Reading) => file.oidc,
  "files.s3": ({ file }: Reading) => file.s3,
  "tools.effects": ({ file }: Reading) => file.effects
}

/** The keys of the file whose values differ, and that a running gateway does not take over. */
export const needRestart = (started: Reading, now: Reading): ReadonlyArray<string> => [
  ...Record.toEntries(table).flatMap(([name, { path }]) =>
    path === undefined || started.sources.get(name)?.text === now.sources.get(name)?.text ? [] : [path.join(".")]
  ),
  ...Record.toEntries(lists).flatMap(([key, of]) => (Equal.equals(of(started), of(now)) ? [] : [key]))
]
