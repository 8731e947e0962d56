import { Result } from "effect"
import * as Yaml from "effect/encoding/Yaml"
import { parse, type ParseError, printParseErrorCode } from "jsonc-parser"
import { extname } from "node:path"
import type { Issue } from "../setting/ConfigProblem.ts"
import { isSet, type Texts } from "../setting/ReadSettings.ts"

const fromJson = (text: string, isLenient: boolean): Result.Result<unknown, string> => {
  const errors: Array<ParseError> = []
  const value: unknown = parse(text, errors, { disallowComments: !isLenient, allowTrailingComma: isLenient })
  const [error] = errors
  if (error === undefined) return Result.succeed(value)
  const before = text.slice(0, error.offset).split("\n")
  const what = printParseErrorCode(error.error)
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ")
    .toLowerCase()
  return Result.fail(
    `It is not valid JSON: ${what} at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`
  )
}

/** A blank text is a mistake: an editor or a copy that has not yet written the rest. */
const fromYaml = (text: string): Result.Result<unknown, string> => {
  if (text.trim() === "") return Result.fail("It is empty. Expected settings, or {} for none")
  return Result.try({
    try: () => Yaml.parse(text) ?? {},
    // YAML takes a text that begins with `*` for an alias. It may be a secret.
    catch: (error) => (error instanceof Error ? error.message.replace(/'\*.*'/, "after *") : "It cannot be read")
  }).pipe(
    Result.mapError((message) =>
      / at line \d+/.test(message)
        ? message
        : `${message.replace(/ at flow offset \d+/, "")} at line ${wrongLine(text)}`
    )
  )
}

/** The line behind the last one up to which the text can be read. */
const wrongLine = (text: string): number => {
  const lines = text.split("\n")
  const isReadable = (count: number) => Result.isSuccess(Result.try(() => Yaml.parse(lines.slice(0, count).join("\n"))))
  let count = lines.length - 1
  while (count > 0 && !isReadable(count)) count--
  return count + 1
}

/** Parses JSON, JSON with comments, or YAML, depending on the file's extension. Its errors never quote the content. */
export const parseText = (path: string, text: string): Result.Result<unknown, string> => {
  switch (extname(path)) {
    case ".json":
      return fromJson(text, false)
    case ".jsonc":
      return fromJson(text, true)
    case ".yaml":
    case ".yml":
      return fromYaml(text)
    default:
      return Result.fail("Expected a file whose name ends in .json, .jsonc, .yaml or .yml")
  }
}

const reference = /\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g

/** What is spelt like no variable may be a piece of a secret, such as `pa$sword`: it is not quoted. */
const unset = (name: string): string =>
  /^[A-Z_][A-Z0-9_]*$/.test(name)
    ? `The variable ${name} is not set`
    : "A $ begins the name of a variable, and that one is not set. Write $$ for a dollar"

/** Replaces `$NAME` and `${NAME}` in the strings of a document by the variable's value, and `$$` by a dollar. A variable that is not set, or is blank, is an issue. */
export const substitute = (
  document: unknown,
  environment: Texts
): { readonly document: unknown; readonly issues: ReadonlyArray<Issue> } => {
  const issues: Array<Issue> = []
  const inText = (text: string, path: Issue["path"]) =>
    text.replace(reference, (_, braced: string | undefined, plain: string | undefined) => {
      const name = braced ?? plain
      if (name === undefined) return "$"
      const value = environment[name]
      if (!isSet(value)) issues.push({ path, expected: unset(name) })
      return value ?? ""
    })
  const walk = (value: unknown, path: Issue["path"]): unknown => {
    if (typeof value === "string") return inText(value, path)
    if (Array.isArray(value)) return value.map((element: unknown, index) => walk(element, [...path, index]))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner, [...path, key])]))
  }
  return { document: walk(document, []), issues }
}
