import { anonymous, type CallerName } from "@bowline/domain/caller/CallerName"
import {
  everything,
  nothing,
  type Permission,
  type Permissions,
  spell as spellHost
} from "@bowline/runtime/unstable/config/Permissions"
import type { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { Record } from "effect"
import type { FilePermission, GlobRules } from "./file/CallerSchema.ts"
import type { ConfigFile } from "./file/ConfigFile.ts"
import type { Values } from "./setting/Settings.ts"
import { anyOf } from "./ConfiguredModels.ts"
import type { Misfit } from "./Misfit.ts"

/** Stands for every caller that has no entry of its own. */
const others = "*"

/** In front of the name of a caller whose key an admin makes while the gateway runs: nobody knows these names beforehand. */
const withIssuedKey = "key:"

/** In front of the name of a group, as an identity provider has it. */
const ofGroup = "group:"

type Entries<A> = { readonly [caller: string]: A }

const findOwn = <A>(entries: Entries<A>): ((caller: CallerName) => A | undefined) => {
  const byName = new Map(Object.entries(entries))
  return (caller) => byName.get(caller) ?? byName.get(`${withIssuedKey}${caller}`)
}

const find = <A>(entries: Entries<A>): ((caller: CallerName) => A | undefined) => {
  const ownOf = findOwn(entries)
  return (caller) => ownOf(caller) ?? entries[others]
}

const rulesOf = (all: ReadonlyArray<GlobRules | undefined>): GlobRules => ({
  // One that says nothing allows everything.
  allow: all.flatMap((rules) => rules?.allow ?? [others]),
  deny: all.flatMap((rules) => rules?.deny ?? [])
})

/** What several groups allow together: what any of them allows, and none denies. */
const joined = (entries: ReadonlyArray<FilePermission>): FilePermission => ({
  tools: rulesOf(entries.map(({ tools }) => tools)),
  hosts: rulesOf(entries.map(({ hosts }) => hosts)),
  models: rulesOf(entries.map(({ models }) => models)),
  recipes: rulesOf(entries.map(({ recipes }) => recipes)),
  presets: rulesOf(entries.map(({ presets }) => presets))
})

/** Without `allow` everything is allowed that `deny` does not name. */
const matcher = (
  { allow = [others], deny = [] }: GlobRules = {},
  spell: (glob: string) => string = (glob) => glob
): ((name: string) => boolean) => {
  const [isAllowed, isDenied] = [anyOf(allow.map(spell)), anyOf(deny.map(spell))]
  return (name) => isAllowed(name) && !isDenied(name)
}

export const toPermission = ({ hosts, models, presets, recipes, tools }: FilePermission): Permission => ({
  tool: matcher(tools),
  host: matcher(hosts, spellHost),
  model: matcher(models),
  recipe: matcher(recipes),
  preset: matcher(presets)
})

/** The preset that a gateway without a provider has besides those of its file. */
export const demoPreset = "demo"

/**
 * Who may use what. Where the file has permissions, a caller that it does not mention may use nothing. Nobody may use a preset that
 * the file does not have: after a reload the gateway still knows those that it has started with, and the file no longer says who may
 * use them.
 */
export const permissionsOf = ({ permissions, presets }: ConfigFile): typeof Permissions.Service => {
  const names = new Set<string>([demoPreset, ...presets.map(({ name }) => name)])
  const inFile = (permission: Permission): Permission => ({
    ...permission,
    preset: (name) => names.has(name) && permission.preset(name)
  })
  if (permissions === undefined) {
    const everyPreset = inFile(everything)
    return { forCaller: () => everyPreset }
  }
  const byName = Record.map(permissions, (entry) => inFile(toPermission(entry)))
  const ownOf = findOwn(byName)
  const ofOthers = byName[others] ?? nothing
  const ofGroups = (groups: ReadonlyArray<string>): Permission | undefined => {
    const entries = groups.flatMap((group) => permissions[`${ofGroup}${group}`] ?? [])
    return entries.length === 0 ? undefined : inFile(toPermission(joined(entries)))
  }
  return { forCaller: (caller, groups = []) => ownOf(caller) ?? ofGroups(groups) ?? ofOthers }
}

/** What each caller may use up on one day, and in one month. A caller that the file does not mention has no limit. */
export const budgetsOf = ({ budgets = {} }: ConfigFile): PlansConfig["Service"]["budgetOf"] =>
  find(
    Record.map(budgets, ({ cost_usd_per_day, cost_usd_per_month, tokens_per_day, tool_calls_per_day }) => ({
      tokens: tokens_per_day ?? Infinity,
      tool_calls: tool_calls_per_day ?? Infinity,
      ...(cost_usd_per_day !== undefined && { cost_usd: cost_usd_per_day }),
      ...(cost_usd_per_month !== undefined && { month_cost_usd: cost_usd_per_month })
    }))
  )

/** The entries for callers that do not exist. A misspelt name would leave a caller to the rules for others. */
export const callerMisfits = (file: ConfigFile, { apiKeys }: Values): ReadonlyArray<Misfit> => {
  const callers = apiKeys.length + file.issuers.length === 0 ? [anonymous] : apiKeys.map(({ name }) => name)
  const known = new Set<string>([...callers, others])
  const names = Array.from(new Set(callers)).join(", ")
  const behind = [withIssuedKey, ofGroup, ...file.issuers.map(({ name }) => `${name}:`)]
  const further = [`${withIssuedKey}<name> for one whose key an admin makes`].concat(
    file.issuers.map(({ name }) => `${name}:<caller> for one of this identity provider`),
    file.issuers.length === 0 ? [] : [`in permissions ${ofGroup}<name> for a group`]
  )
  const expected = `Expected the name of a caller, or ${others} for all others: ${names}; or ${further.join(", ")}`
  const isKnown = (name: string, section: string) =>
    known.has(name) ||
    behind.some((start) => name.startsWith(start) && (start !== ofGroup || section === "permissions"))
  return Object.entries({ permissions: file.permissions, budgets: file.budgets }).flatMap(([section, entries = {}]) =>
    Object.keys(entries)
      .filter((name) => !isKnown(name, section))
      .map((name) => ({ name: "apiKeys", place: { _tag: "File", file: file.name, path: [section, name] }, expected }))
  )
}

/** What the first glob that matches a tool says of its effect. */
export const effectsOf = ({ effects }: ConfigFile): PlansConfig["Service"]["effectOf"] => {
  const rules = Object.entries(effects).map(([glob, effect]) => ({ matches: anyOf([glob]), effect }))
  return (tool) => rules.find(({ matches }) => matches(tool))?.effect
}
