import { Schema } from "effect"

const file = {
  type: Schema.tag("file"),
  media_type: Schema.String.check(Schema.isPattern(/^[a-z0-9][a-z0-9.+-]*\/[a-z0-9][a-z0-9.+-]*$/)),
  name: Schema.optionalKey(Schema.NonEmptyString)
}

/**
 * A file that came with a question: its content in base64, or where it can be fetched, and never both. `media_type` is in lower
 * case and without parameters, as `image/png`.
 */
export const FilePart = Schema.Union(
  [
    Schema.Struct({ ...file, data: Schema.NonEmptyString.check(Schema.isBase64()) }),
    Schema.Struct({ ...file, url: Schema.String.check(Schema.isPattern(/^https?:\/\/\S+$/)) })
  ],
  { mode: "oneOf" }
)
export type FilePart = typeof FilePart.Type
