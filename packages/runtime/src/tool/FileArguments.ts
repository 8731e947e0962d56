import { Schema } from "effect"
import type { JsonSchema, ToolInput } from "./Tool.ts"

/** A place in the arguments of a call that its schema marks as a file: the arguments have its id there. */
export interface FileArgument {
  readonly path: ReadonlyArray<string | number>
  readonly id: string
  /** What the schema wants the file to be, if it says so. */
  readonly mediaType: string | undefined
  /** Whether the tool wants the bytes in the place of the id. */
  readonly isBase64: boolean
}

/** Deeper schemas mark nothing. */
const maxDepth = 8

const isObject = Schema.is(Schema.Record(Schema.String, Schema.Json))
const isList = (json: Schema.Json | undefined): json is ReadonlyArray<Schema.Json> => Array.isArray(json)

const findIn = (
  schema: Schema.Json | undefined,
  value: Schema.Json | undefined,
  path: FileArgument["path"]
): ReadonlyArray<FileArgument> => {
  if (!isObject(schema) || value === undefined || path.length > maxDepth) return []
  if (typeof value === "string") {
    const { contentEncoding, contentMediaType, format } = schema
    if (format !== "bowline-file" && typeof contentMediaType !== "string") return []
    const mediaType = typeof contentMediaType === "string" ? contentMediaType : undefined
    return [{ path, id: value, mediaType, isBase64: contentEncoding === "base64" }]
  }
  if (isList(value)) return value.flatMap((item, at) => findIn(schema["items"], item, [...path, at]))
  const { properties } = schema
  if (!isObject(value) || !isObject(properties)) return []
  return Object.entries(value).flatMap(([name, member]) =>
    findIn(Object.hasOwn(properties, name) ? properties[name] : undefined, member, [...path, name])
  )
}

/** The files among the arguments: strings that the schema marks with `format: "bowline-file"`, or with a `contentMediaType`. */
export const find = (schema: JsonSchema, input: ToolInput): ReadonlyArray<FileArgument> => findIn(schema, input, [])

/** The JSON with another string in this place. */
const replaced = (json: Schema.Json, [at, ...path]: FileArgument["path"], text: string): Schema.Json => {
  if (at === undefined) return text
  if (isList(json)) return json.map((item, index) => (index === at ? replaced(item, path, text) : item))
  if (!isObject(json)) return json
  return Object.fromEntries(
    Object.entries(json).map(([name, member]) => [name, name === at ? replaced(member, path, text) : member])
  )
}

/** The arguments with the contents of files in their places. */
export const withContents = (input: ToolInput, contents: ReadonlyArray<readonly [FileArgument, string]>): ToolInput => {
  const filled = contents.reduce<Schema.Json>((json, [{ path }, text]) => replaced(json, path, text), input)
  return isObject(filled) ? filled : input
}
