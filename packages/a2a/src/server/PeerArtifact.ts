import { Option, Schema } from "effect"
import type { Part } from "../task/Task.ts"

const fileOf = Schema.decodeUnknownOption(
  Schema.Struct({
    name: Schema.optionalKey(Schema.String),
    bytes: Schema.optionalKey(Schema.String),
    uri: Schema.optionalKey(Schema.String)
  })
)

/** What a tool gave as parts: its text as it is, a file by its bytes or its place, and anything else as data. */
export const partsOf = (content: Schema.Json, mediaType: string): ReadonlyArray<Part> => {
  if (typeof content === "string") return [{ _tag: "Text", text: content }]
  const file = mediaType === "application/json" ? undefined : Option.getOrUndefined(fileOf(content))
  return file === undefined || (file.bytes ?? file.uri) === undefined
    ? [{ _tag: "Data", data: content }]
    : [{ _tag: "File", mediaType, ...file }]
}
