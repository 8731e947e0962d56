import * as JsonText from "@bowline/domain/json/JsonText"
import { Option, Result, Schema, SchemaIssue } from "effect"
import type { Issue } from "./Problem.ts"

/** Of a body with more values only the first wrong field is looked for: each one costs 10 µs, in which nobody else is served. */
const maxThorough = 5_000

/** Fields that callers look for in vain: those of the contract that this version does not honour, and those of the configuration. */
const explained: ReadonlyMap<string, string> = new Map([
  ["mcp_servers[].approval", "Not supported yet"],
  ["mcp_servers[].command", "Expected a url instead: only the gateway's configuration may name a command"]
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
    const why = message === "Unknown field" ? explained.get(toText(keys, () => "[]")) : undefined
    return { path: formatPath(keys), message: why ?? message }
  })

const parse = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/**
 * Decodes the JSON text of a body, strictly: a field that the schema does not have is wrong, as are more than 64 levels of nesting or more
 * than 50,000 values, which are counted before the text is parsed. Names every field that is wrong, or the first one, where the body has more
 * than 5,000 values.
 */
export const decodeJson = <A>(schema: Schema.ConstraintDecoder<A>) => {
  const decode = (errors: "all" | "first") => Schema.decodeUnknownResult(schema, { errors, onExcessProperty: "error" })
  const decodeAll = decode("all")
  const decodeFirst = decode("first")
  return (text: string): Result.Result<A, ReadonlyArray<Issue>> => {
    const { problem, values } = JsonText.check(text)
    if (problem !== undefined) return Result.fail([{ path: "", message: problem }])
    const body = parse(text)
    if (Option.isNone(body)) return Result.fail([{ path: "", message: "Expected JSON" }])
    return Result.mapError((values > maxThorough ? decodeFirst : decodeAll)(body.value), fromSchema)
  }
}
