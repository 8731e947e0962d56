import { Data, Duration, Option, Record, Result, Schema } from "effect"
import { formatPlace, toIssues, unknownName, type Place, type Problem } from "./ConfigProblem.ts"
import { clientSettings, fileVariable, type SettingName, table, Values } from "./Settings.ts"

/** The configuration cannot be used. */
export class InvalidConfiguration extends Data.TaggedError("InvalidConfiguration")<{
  readonly problems: ReadonlyArray<Problem>
}> {}

export type Texts = { readonly [name: string]: string | undefined }

/** The text of a setting, and where it was set. */
export interface Given {
  readonly text: string
  readonly place: Place
}

/** What the operator has set, by the name of the setting. */
export type Sources = ReadonlyMap<SettingName, Given>

/** Tells whether a variable is set. One that is blank counts as not set. */
export const isSet = (text: string | undefined): text is string => text !== undefined && text.trim() !== ""

const given = (text: string | undefined, place: Place): Given | undefined =>
  isSet(text) ? { text: text.trim(), place } : undefined

/** Flags win over variables, variables over the file. */
export const collect = (flags: Texts, environment: Texts, file: Sources): Sources => {
  const sources = new Map<SettingName, Given>()
  for (const [name, { flag = "", variable = "" }] of Record.toEntries(table)) {
    const found =
      given(flags[flag], { _tag: "Flag", name: flag }) ??
      given(environment[variable], { _tag: "Variable", name: variable }) ??
      file.get(name)
    if (found !== undefined) sources.set(name, found)
  }
  // Both name the database, so a folder in the environment wins over a URL in the file.
  if (sources.get("databaseUrl")?.place._tag === "File" && sources.get("dataDir")?.place._tag === "Variable") {
    sources.delete("databaseUrl")
  }
  return sources
}

/** Where a setting is set, or else its variable. */
export const placeOf = (sources: Sources, name: SettingName): Place =>
  sources.get(name)?.place ?? { _tag: "Variable", name: table[name].variable ?? name }

/** Tells whether only this machine can reach a server that listens there. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)

const decodeValues = Schema.decodeUnknownResult(Values, { errors: "all" })
const decodeSync = Schema.decodeUnknownSync(Values)
const decodeHost = Schema.decodeUnknownOption(Values.fields.host)

const known: ReadonlySet<string> = new Set(
  [...Object.values(table), ...Object.values(clientSettings)].map(({ variable = "" }) => variable).concat(fileVariable)
)

const isSettingName = (name: PropertyKey): name is SettingName => Object.hasOwn(table, name)

/** Reads every setting, and reports all that are wrong and all variables that do not exist. What is wrong counts as not set. */
export const read = (
  sources: Sources,
  environment: Texts,
  /** Whether callers come with tokens: then they need no keys. */
  hasIssuers = false
): { readonly values: Values; readonly problems: ReadonlyArray<Problem> } => {
  const texts = Object.fromEntries(Array.from(sources, ([name, { text }]) => [name, text]))
  const result = decodeValues(texts)
  const wrong = Result.isSuccess(result) ? [] : toIssues(result.failure)
  const problems = wrong.flatMap(({ expected, path: [name = ""] }) =>
    isSettingName(name) ? [{ place: placeOf(sources, name), expected }] : []
  )
  const host = decodeHost(texts["host"])
  if (!hasIssuers && !sources.has("apiKeys") && Option.isSome(host) && !isLoopback(host.value)) {
    const expected = `Expected keys, since ${formatPlace(placeOf(sources, "host"))} can be reached from other machines`
    problems.push({ place: placeOf(sources, "apiKeys"), expected })
  }
  for (const name of Object.keys(environment)) {
    const isOurs = name.startsWith("BOWLINE_") && !name.startsWith("BOWLINE_TEST_")
    if (isOurs && !known.has(name)) {
      problems.push({
        place: { _tag: "Variable", name },
        expected: unknownName("There is no such variable", name, [...known])
      })
    }
  }
  const isWrong = (name: string) => wrong.some(({ path }) => path[0] === name)
  const values = Result.getOrElse(result, () => decodeSync(Record.filter(texts, (_, name) => !isWrong(name))))
  if (values.eventsTtl !== undefined && Duration.isGreaterThan(values.eventsTtl, values.sessionTtl)) {
    const session = `${formatPlace(placeOf(sources, "sessionTtl"))} (${Duration.format(values.sessionTtl)})`
    const expected = `Expected no longer than ${session}: the events of a plan go with its session`
    problems.push({ place: placeOf(sources, "eventsTtl"), expected })
  }
  return { values, problems }
}
