import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
import * as TextFile from "@bowline/runtime/unstable/prompt/TextFile"
import { Effect, Result } from "effect"
import { formatPlace, type Problem } from "./setting/ConfigProblem.ts"
import { placeOf, type Sources } from "./setting/ReadSettings.ts"
import { type SettingName, table, type Values } from "./setting/Settings.ts"

/** A setting that does not fit the others. */
export interface Misfit extends Problem {
  readonly name: SettingName
}

const identityNames = ["didSeed", "didAuthor", "didName"] as const

/** The settings of the identity that are missing where others of them are set. */
export const identityMisfits = (sources: Sources): ReadonlyArray<Misfit> => {
  const given = identityNames.filter((name) => sources.has(name)).map((name) => placeOf(sources, name))
  if (given.length === 0) return []
  const inFile = given.find((place) => place._tag === "File")
  const expected = `Expected with ${given.map(formatPlace).join(", ")}, or none of them`
  return identityNames
    .filter((name) => !sources.has(name))
    .map((name) => {
      const { path } = table[name]
      const place = inFile === undefined || path === undefined ? placeOf(sources, name) : { ...inFile, path }
      return { name, place, expected }
    })
}

/** Several processes cannot open one embedded database, nor share what is in memory. */
export const workerMisfits = ({ databaseUrl, workers }: Values, sources: Sources): ReadonlyArray<Misfit> =>
  workers === 1 || databaseUrl !== undefined
    ? []
    : [
        {
          name: "workers",
          place: placeOf(sources, "workers"),
          expected:
            "Expected 1, or a Postgres server in DATABASE_URL: several processes cannot share the embedded database"
        }
      ]

/** Where the operator's texts are. */
export const textsOf = ({ plannerFile, recipesDir }: Values, sources: Sources) => ({
  recipes: { folder: recipesDir, isOptional: !sources.has("recipesDir") },
  plannerFile
})

/** The operator's texts that cannot be read. A recipe that cannot be used is no misfit: the others can. */
export const textMisfits = Effect.fnUntraced(function* (
  { plannerFile, recipes }: ReturnType<typeof textsOf>,
  sources: Sources
): Effect.fn.Return<ReadonlyArray<Misfit>> {
  const misfits: Array<Misfit> = []
  const report = (name: SettingName, expected: string) =>
    void misfits.push({ name, place: placeOf(sources, name), expected })
  const folder = (yield* RecipeFolder.faultsOf(recipes)).find(({ path }) => path === recipes.folder)
  if (folder !== undefined) report("recipesDir", `Expected a folder that can be read. ${folder.reason}`)
  if (plannerFile === undefined) return misfits
  const { text } = yield* TextFile.look(plannerFile)
  if (Result.isFailure(text)) report("plannerFile", `Expected a file with text. ${text.failure}`)
  return misfits
})

/** Leaves out what may only follow from a problem of the same setting, or of a part of the file that has it. */
export const notReported = (
  misfits: ReadonlyArray<Misfit>,
  problems: ReadonlyArray<Problem>,
  sources: Sources
): ReadonlyArray<Misfit> =>
  misfits.filter(
    ({ name }) =>
      !problems.some(({ place }) => {
        if (place._tag !== "File") return formatPlace(place) === formatPlace(placeOf(sources, name))
        const { path = [] } = table[name]
        return path.every((key, at) => at >= place.path.length || place.path[at] === key)
      })
  )
