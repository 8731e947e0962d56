import { Schema } from "effect"
import type { Part } from "../task/Task.ts"

const word = Schema.optionalKey(Schema.NullOr(Schema.String))

const TextPart = Schema.Struct({ text: Schema.String, metadata: Schema.optionalKey(Schema.Json) })
const RawPart = Schema.Struct({ raw: Schema.String, filename: word, mediaType: word })
const UrlPart = Schema.Struct({ url: Schema.String, filename: word, mediaType: word })
const DataPart = Schema.Struct({ data: Schema.Json })
const OtherPart = Schema.Record(Schema.String, Schema.Json).check(
  Schema.makeFilter((part) => {
    const known = ["text", "raw", "url"].find((name) => part[name] != null)
    return known === undefined ? true : `Expected ${known} to be a string`
  })
)

/** A part of A2A 1.0, known by its member. A part with an unknown member is kept whole. */
export const WirePart10 = Schema.Union([TextPart, RawPart, UrlPart, DataPart, OtherPart])
export type WirePart10 = typeof WirePart10.Type

const isText = Schema.is(TextPart)
const isRaw = Schema.is(RawPart)
const isUrl = Schema.is(UrlPart)
const isData = Schema.is(DataPart)

type FileMembers = Omit<Part & { readonly _tag: "File" }, "bytes" | "uri">

const fileOf = ({ filename, mediaType }: typeof RawPart.Type | typeof UrlPart.Type): FileMembers => ({
  _tag: "File",
  mediaType: mediaType || "application/octet-stream",
  ...(filename && { name: filename })
})

export const toPart = (part: WirePart10): Part => {
  if (isText(part)) {
    return { _tag: "Text", text: part.text, ...(part.metadata != null && { metadata: part.metadata }) }
  }
  if (isRaw(part)) return { ...fileOf(part), bytes: part.raw }
  if (isUrl(part)) return { ...fileOf(part), uri: part.url }
  return { _tag: "Data", data: isData(part) ? part.data : part }
}
