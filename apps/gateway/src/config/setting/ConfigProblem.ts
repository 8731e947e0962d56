import { formatPath } from "@bowline/protocol/unstable/api/Issues"
import { type Schema, SchemaIssue } from "effect"

/** What is wrong within one document. */
export interface Issue {
  readonly path: ReadonlyArray<PropertyKey>
  readonly expected: string
}

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

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    if (issue._tag === "UnexpectedKey") return "There is no such key"
    if (issue._tag === "MissingKey") return "Expected it to be there"
    return SchemaIssue.defaultLeafHook(issue)
  }
})

/** Lists everything that a schema found wrong. */
export const toIssues = ({ issue }: Schema.SchemaError): ReadonlyArray<Issue> =>
  format(issue).issues.map(({ message, path = [] }) => ({
    path: path.map((segment) => (typeof segment === "object" ? segment.key : segment)),
    expected: message
  }))
