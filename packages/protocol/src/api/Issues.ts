import * as JsonText from "@bowline/domain/unstable/json/JsonText"
import { Option, Predicate, Result, Schema, SchemaIssue } from "effect"
import type { Issue } from "./Problem.ts"

/** Of a body with more values only the first wrong field is looked for: each one costs 10 µs, in which nobody else is served. */
const maxThorough = 5_000

/** A field that callers look for in vain. */
const command = /^mcp_servers\[\d+\]\.command$/
const noCommand = "Expected a url instead: only the gateway's configuration may name a command"

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) =>
    issue._tag === "UnexpectedKey"
      ? "Unknown field"
      : issue._tag === "MissingKey"
        ? "This field is required"
        : SchemaIssue.defaultLeafHook(issue)
})

/** How far a value is from a schema: by the fields that the schema does not know, and then by those that it misses. */
const distanceOf = (issue: SchemaIssue.Issue): number => {
  if (issue._tag === "UnexpectedKey") return 1_000
  if (issue._tag === "MissingKey") return 1
  if ("issues" in issue) return issue.issues.reduce((sum, one) => sum + distanceOf(one), 0)
  return "issue" in issue ? distanceOf(issue.issue) : 0
}

/** Of what a value may be, what it was meant to be: of the others its own fields would be unknown, and theirs missing. */
const meantBy = (issue: SchemaIssue.Issue): SchemaIssue.Issue => {
  switch (issue._tag) {
    case "AnyOf": {
      const least = Math.min(...issue.issues.map(distanceOf))
      const meant = issue.issues.filter((one) => distanceOf(one) === least)
      return new SchemaIssue.AnyOf(issue.ast, meant.map(meantBy))
    }
    case "Composite": {
      const [first, ...others] = issue.issues
      return new SchemaIssue.Composite(issue.ast, [meantBy(first), ...others.map(meantBy)])
    }
    case "Pointer":
      return new SchemaIssue.Pointer(issue.path, meantBy(issue.issue))
    case "Encoding":
      return new SchemaIssue.Encoding(issue.ast, meantBy(issue.issue))
    default:
      return issue
  }
}

/** `["agents", 0, "a name"]` as `agents[0]["a name"]`. */
export const formatPath = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`
    const name = String(key)
    if (!/^[\w$-]+$/.test(name)) return `${text}[${JSON.stringify(name)}]`
    return text === "" ? name : `${text}.${name}`
  }, "")

/** What is wrong, field by field, without the values: they may be secrets. */
export const fromSchema = (error: Schema.SchemaError): ReadonlyArray<Issue> =>
  format(meantBy(error.issue)).issues.map(({ path: segments = [], message }) => {
    const keys = segments.map((segment) => (typeof segment === "object" ? segment.key : segment))
    const path = formatPath(keys)
    return { path, message: command.test(path) ? noCommand : message }
  })

/** How the text of a body writes half of a surrogate pair: UTF-8 itself has none. */
const surrogate = /\\u[dD][89a-fA-F]/

const isHalved = (text: string): boolean => !text.isWellFormed()

/** The texts of a value, and the names of its fields, that have half of a surrogate pair. */
const halvedTexts = (value: unknown, path: ReadonlyArray<PropertyKey> = []): ReadonlyArray<Issue> => {
  if (Predicate.isString(value)) {
    return isHalved(value)
      ? [{ path: formatPath(path), message: "Expected whole characters: it has half of a surrogate pair" }]
      : []
  }
  if (Array.isArray(value)) return value.flatMap((item, index) => halvedTexts(item, [...path, index]))
  if (!Predicate.isObject(value)) return []
  return Object.entries(value).flatMap(([key, item]) => [
    ...halvedTexts(key, [...path, key]),
    ...halvedTexts(item, [...path, key])
  ])
}

const parse = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/**
 * Decodes the JSON text of a body to its `value`, strictly, and gives the parsed JSON that was `sent`: a field that the schema does not have is wrong, as are more than 64 levels of nesting or more
 * than 50,000 values, which are counted before the text is parsed. Names every field that is wrong, or the first one, where the body has more
 * than 5,000 values. Half of a surrogate pair is wrong, too: readers of JSON and databases disagree about it (RFC 8259, section 8.2), unless its texts may be `any`.
 */
export const decodeJson = <A>(schema: Schema.ConstraintDecoder<A>, texts: "whole" | "any" = "whole") => {
  const decode = (errors: "all" | "first") => Schema.decodeUnknownResult(schema, { errors, onExcessProperty: "error" })
  const decodeAll = decode("all")
  const decodeFirst = decode("first")
  return (text: string): Result.Result<{ readonly sent: unknown; readonly value: A }, ReadonlyArray<Issue>> => {
    const { problem, values } = JsonText.check(text)
    if (problem !== undefined) return Result.fail([{ path: "", message: problem }])
    const body = parse(text)
    if (Option.isNone(body)) return Result.fail([{ path: "", message: "Expected JSON" }])
    const sent = body.value
    const halved = texts === "whole" && surrogate.test(text) ? halvedTexts(sent) : []
    const decoded = Result.mapBoth((values > maxThorough ? decodeFirst : decodeAll)(sent), {
      onFailure: (error) => [...fromSchema(error), ...halved],
      onSuccess: (value) => ({ sent, value })
    })
    return halved.length === 0 || Result.isFailure(decoded) ? decoded : Result.fail(halved)
  }
}
