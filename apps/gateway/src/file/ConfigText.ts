import { Result } from "effect"
import * as Yaml from "effect/encoding/Yaml"
import { parse, type ParseError, printParseErrorCode } from "jsonc-parser"
import { extname } from "node:path"

const fromJson = (text: string, isLenient: boolean): Result.Result<unknown, string> => {
  const errors: Array<ParseError> = []
  const value: unknown = parse(text, errors, { disallowComments: !isLenient, allowTrailingComma: isLenient })
  const [error] = errors
  if (error === undefined) return Result.succeed(value)
  const before = text.slice(0, error.offset).split("\n")
  const what = printParseErrorCode(error.error)
  return Result.fail(`${what} at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`)
}

const fromYaml = (text: string): Result.Result<unknown, string> =>
  Result.try({
    try: () => Yaml.parse(text) ?? {},
    // What stands behind a `*` is meant as an alias, and may be a secret.
    catch: (error) => (error instanceof Error ? error.message.replace(/'\*.*'/, "after *") : "It cannot be read")
  })

/** Parses JSON, JSON with comments, or YAML, as the name of the file says. What is wrong is told without what is in it. */
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
