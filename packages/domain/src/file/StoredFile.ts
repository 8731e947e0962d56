import { Schema } from "effect"

/** `file_` and a UUID. */
export const FileId = Schema.String.check(
  Schema.isPattern(/^file_[0-9a-f-]{36}$/u, { message: "Expected the file_id of a file" })
).pipe(Schema.brand("FileId"))
export type FileId = typeof FileId.Type

/**
 * A file that a caller has stored. `media_type` is what its bytes are, in lower case and without parameters; `sha256` is their digest in hexadecimal.
 * `width` and `height` are those of an image, in pixels, else null. Times are ISO 8601 in UTC; it is kept until `expires_at`.
 */
export const StoredFile = Schema.Struct({
  file_id: FileId,
  name: Schema.String,
  media_type: Schema.String,
  bytes: Schema.Int,
  sha256: Schema.String,
  width: Schema.NullOr(Schema.Int),
  height: Schema.NullOr(Schema.Int),
  created_at: Schema.String,
  expires_at: Schema.String
})
export type StoredFile = typeof StoredFile.Type

const control = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/gu

/** The longest start of the text that has at most 255 bytes in UTF-8. */
const shorten = (text: string): string => {
  let bytes = 0
  let kept = ""
  for (const character of text) {
    bytes += new TextEncoder().encode(character).byteLength
    if (bytes > 255) break
    kept += character
  }
  return kept
}

/** The name of a file as it is kept: without folders, control characters and marks that change the direction of text, 255 bytes at most, and `file` where nothing is left. */
export const fileName = (given: string): string => {
  const name = given.toWellFormed().replaceAll(control, "").split(/[/\\]/).at(-1)?.trim() ?? ""
  return /^\.*$/.test(name) ? "file" : shorten(name)
}
