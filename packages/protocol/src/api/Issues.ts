import { Option, Result, Schema, SchemaIssue } from "effect"
import type { Issue } from "./Problem.ts"

/** How deep a body may be nested. */
const maxDepth = 64

/** Fields of the contract that this version does not honour: it says so, rather than to pass over them. */
const laterFields: ReadonlySet<string> = new Set([
  "mcp_servers",
  "preferences.max_total_tokens",
  "preferences.response_format",
  "preferences.approval",
  "agents[].skills[].approval",
  "agents[].skills[].polling"
])

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) =>
    issue._tag === "UnexpectedKey"
      ? "Unknown field"
      : issue._tag === "MissingKey"
        ? "This field is required"
        : SchemaIssue.defaultLeafHook(issue)
})

const toText = (path: ReadonlyArray<PropertyKey>, index: (key: number) => string): string =>
  path.reduce<string>((text, key) => {
    if (typeof key === "number") return text + index(key)
    const name = String(key)
    if (!/^[\w$-]+$/.test(name)) return `${text}[${JSON.stringify(name)}]`
    return text === "" ? name : `${text}.${name}`
  }, "")

/** `["agents", 0, "a name"]` as `agents[0]["a name"]`. */
export const formatPath = (path: ReadonlyArray<PropertyKey>): string => toText(path, (key) => `[${key}]`)

/** What is wrong, field by field, without the values: they may be secrets. */
export const fromSchema = (error: Schema.SchemaError): ReadonlyArray<Issue> =>
  format(error.issue).issues.map(({ path = [], message }) => {
    const keys = path.map((segment) => (typeof segment === "object" ? segment.key : segment))
    const isLater = message === "Unknown field" && laterFields.has(toText(keys, () => "[]"))
    return { path: formatPath(keys), message: isLater ? "Not supported yet" : message }
  })

const isTooDeep = (value: unknown, depth: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (depth > maxDepth || Object.values(value).some((inner) => isTooDeep(inner, depth + 1)))

const parse = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/**
 * Decodes the JSON text of a body, strictly: a field that the schema does not have is wrong, as is a nesting of more than
 * 64 levels. Names every field that is wrong.
 */
export const decodeJson = <A>(schema: Schema.ConstraintDecoder<A>) => {
  const decode = Schema.decodeUnknownResult(schema, { errors: "all", onExcessProperty: "error" })
  return (text: string): Result.Result<A, ReadonlyArray<Issue>> => {
    const body = parse(text)
    if (Option.isNone(body)) return Result.fail([{ path: "", message: "Expected JSON" }])
    if (isTooDeep(body.value, 1)) {
      return Result.fail([{ path: "", message: `Expected at most ${maxDepth} levels of nesting` }])
    }
    return Result.mapError(decode(body.value), fromSchema)
  }
}
