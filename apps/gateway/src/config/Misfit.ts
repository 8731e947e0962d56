import type { Problem } from "../setting/Problem.ts"
import { formatPlace } from "../setting/Problem.ts"
import { placeOf, type Sources } from "../setting/ReadSettings.ts"
import { type SettingName, table } from "../setting/Settings.ts"

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
