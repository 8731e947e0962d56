import { Schema } from "effect"
import type { Part } from "../task/Task.ts"

const word = Schema.optionalKey(Schema.NullOr(Schema.String))

const TextPart = Schema.Struct({
  kind: Schema.Literal("text"),
  text: Schema.String,
  metadata: Schema.optionalKey(Schema.Json)
})
const DataPart = Schema.Struct({ kind: Schema.Literal("data"), data: Schema.Json })
const FilePart = Schema.Struct({
  kind: Schema.Literal("file"),
  file: Schema.Struct({ name: word, bytes: word, uri: word, mimeType: word, mime_type: word })
})
const OtherPart = Schema.Record(Schema.String, Schema.Json).check(
  Schema.makeFilter(({ kind }) =>
    kind === "text" || kind === "data" || kind === "file" ? `Expected a ${kind} part` : true
  )
)

/** A part of a message or an artifact. A part of an unknown kind is kept whole. */
export const WirePart = Schema.Union([TextPart, DataPart, FilePart, OtherPart])
export type WirePart = typeof WirePart.Type

const isText = Schema.is(TextPart)
const isData = Schema.is(DataPart)
const isFile = Schema.is(FilePart)

export const toPart = (part: WirePart): Part => {
  if (isText(part)) {
    return { _tag: "Text", text: part.text, ...(part.metadata != null && { metadata: part.metadata }) }
  }
  if (isData(part)) return { _tag: "Data", data: part.data }
  if (!isFile(part)) return { _tag: "Data", data: part }
  const { name, bytes, uri, mimeType, mime_type } = part.file
  return {
    _tag: "File",
    mediaType: mimeType ?? mime_type ?? "application/octet-stream",
    ...(name != null && { name }),
    ...(bytes != null && { bytes }),
    ...(uri != null && { uri })
  }
}
