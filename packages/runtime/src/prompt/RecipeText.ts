import { Result, Schema, SchemaIssue } from "effect"
import * as Yaml from "effect/encoding/Yaml"
import type { Recipe } from "./Recipes.ts"

/** Text of this form. Whatever is wrong with it, the message is the same. */
const field = (pattern: RegExp, message: string) =>
  Schema.String.annotate({ message })
    .check(Schema.isPattern(pattern, { message }))
    .pipe(Schema.annotateKey({ messageMissingKey: message }))

const FrontMatter = Schema.Struct({
  name: field(
    /^[a-z0-9][a-z0-9_-]{0,63}$/,
    "Expected name: 1..64 of a-z 0-9 _ -, of which the first is a letter or a digit"
  ),
  description: field(
    /^(?=[^]*\S)[^]{1,1024}$/,
    "Expected description: 1..1024 characters that say what the recipe is for"
  )
}).annotate({ message: "Expected name and description in the front matter" })

const decode = Schema.decodeUnknownResult(FrontMatter, { errors: "all" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

const wrong = ({ issue }: Schema.SchemaError): string =>
  format(issue)
    .issues.map(({ message }) => message)
    .join(". ")

const parseYaml = (text: string): Result.Result<unknown, string> =>
  Result.try({
    try: () => Yaml.parse(text),
    catch: (error) => `Its front matter is not YAML: ${error instanceof Error ? error.message : "it cannot be read"}`
  })

/** Reads Markdown with a front matter, or says what is wrong with it. Keys of the front matter that a recipe does not have are left out. */
export const parse = (text: string): Result.Result<Recipe, string> => {
  const [, head, body = ""] = /^---[ \t]*\r?\n([^]*?)(?<=\n)---[ \t]*(?:\r?\n([^]*))?$/.exec(text) ?? []
  if (head === undefined) return Result.fail("Expected a front matter between two lines ---, with name and description")
  if (body.trim() === "") return Result.fail("Expected a text after the front matter")
  return Result.map(
    Result.flatMap(parseYaml(head), (document) => Result.mapError(decode(document), wrong)),
    ({ description, name }) => ({ name, description: description.trim().replaceAll(/\s+/g, " "), body: body.trim() })
  )
}
