import { formatPath } from "@bowline/protocol/unstable/api/Issues"
import { type Schema, SchemaAST, SchemaIssue } from "effect"
import { closest, distance } from "fastest-levenshtein"

/** What is wrong within one document. */
export interface Issue {
  readonly path: ReadonlyArray<PropertyKey>
  readonly expected: string
}

/** Whether a path leads to a value, or to something in it. */
export const isWithin = (path: Issue["path"], value: Issue["path"]): boolean =>
  value.every((key, at) => path[at] === key)

/** Where a setting or a problem stands. */
export type Place =
  | { readonly _tag: "Variable"; readonly name: string }
  | { readonly _tag: "Flag"; readonly name: string }
  | { readonly _tag: "File"; readonly file: string; readonly path: ReadonlyArray<PropertyKey> }

/** What is wrong with the configuration, and where. It never contains the value, which may be a secret. */
export interface Problem {
  readonly place: Place
  readonly expected: string
}

/** `BOWLINE_PORT`, `--port`, `bowline.config.yaml server.port`. */
export const formatPlace = (place: Place): string => {
  switch (place._tag) {
    case "Variable":
      return place.name
    case "Flag":
      return `--${place.name}`
    case "File":
      return place.path.length === 0 ? place.file : `${place.file} ${formatPath(place.path)}`
  }
}

/** The line that an operator reads. */
export const formatProblem = ({ expected, place }: Problem): string => `${formatPlace(place)}: ${expected}`

const noSuchKey = "There is no such key"

/** Stands between what is said of an unknown key and the known ones: the formatter tells which key it is about only when it is done. */
const separator = "\u0000"

const keysOf = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []

/** What to say of a name that nobody knows: the nearest known one, if it is near. */
export const unknownName = (said: string, name: string, known: ReadonlyArray<string>): string => {
  const near = closest(name, known)
  const isNear = known.length > 0 && distance(name, near) <= Math.min(2, Math.ceil(name.length / 3))
  return isNear ? `${said}. Did you mean ${near}?` : said
}

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    if (issue._tag === "UnexpectedKey") return [noSuchKey, ...keysOf(issue.ast)].join(separator)
    if (issue._tag === "MissingKey") return "Expected it to be there"
    return SchemaIssue.defaultLeafHook(issue)
  }
})

/** Lists everything that a schema found wrong. */
export const toIssues = ({ issue }: Schema.SchemaError): ReadonlyArray<Issue> =>
  format(issue).issues.map(({ message, path: segments = [] }) => {
    const path = segments.map((segment) => (typeof segment === "object" ? segment.key : segment))
    const [said = "", ...known] = message.split(separator)
    return { path, expected: said === noSuchKey ? unknownName(said, String(path.at(-1)), known) : message }
  })
