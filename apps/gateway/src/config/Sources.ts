import type { ConfigFile } from "../file/ConfigFile.ts"

export type Environment = { readonly [name: string]: string | undefined }

/** The environment over the file: an empty variable says nothing. */
export const merge = (environment: Environment, { place, settings }: ConfigFile) => {
  const isSet = (name: string): boolean => (environment[name] ?? "") !== ""
  const given = settings.filter(
    // One of the two says where the database is.
    ({ name }) => !isSet(name) && !(name === "DATABASE_URL" && isSet("BOWLINE_DATA_DIR"))
  )
  const places = new Map<string, string>(given.map(({ name, path }) => [name, place(path)]))
  return {
    isSet,
    variables: { ...environment, ...Object.fromEntries(given.map(({ name, text }) => [name, text])) },
    /** Puts the place in the file in front of a problem of a setting that comes from there. */
    label: (problem: string): string => problem.replace(/^[\w.]+(?=: )/, (name) => places.get(name) ?? name)
  }
}
