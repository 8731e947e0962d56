import { Schema } from "effect"
import { FileReference } from "../session/Message.ts"
import { FileId } from "./StoredFile.ts"

const isSaid = Schema.makeFilter((text: string) => text.trim() !== "" || "Expected a question that is not blank")

/** The text of a question. */
export const QuestionText = Schema.String.check(isSaid, Schema.isMaxLength(200_000))

/** A part of a question as it is kept with its plan. */
export const QuestionPart = Schema.Union([
  Schema.Struct({ type: Schema.tag("text"), text: Schema.String }),
  FileReference
])
export type QuestionPart = typeof QuestionPart.Type

/** How many files a question may have, and how many parts. */
export const maxFiles = 20
export const maxParts = 64

/**
 * A part of a question as a caller sends it: a text, a file that is stored, one that comes with the request, or one that is fetched.
 */
export const GivenPart = Schema.Union(
  [
    Schema.Struct({ type: Schema.tag("text"), text: Schema.String.check(Schema.isMaxLength(200_000)) }),
    Schema.Struct({ type: Schema.tag("file"), file_id: FileId }),
    Schema.Struct({
      type: Schema.tag("file"),
      data: Schema.NonEmptyString.check(Schema.isBase64()),
      media_type: Schema.String.check(Schema.isBetweenLength(1, 256)),
      name: Schema.optionalKey(Schema.NonEmptyString)
    }),
    Schema.Struct({ type: Schema.tag("file"), url: Schema.String.check(Schema.isBetweenLength(1, 8_192)) })
  ],
  { mode: "oneOf" }
).annotate({
  message:
    'Expected {type: "text", text}, {type: "file", file_id}, {type: "file", url} or {type: "file", data, media_type, name?}'
})
export type GivenPart = typeof GivenPart.Type

/** The parts of a message: at most 64, with at most 20 files. */
export const GivenParts = Schema.Array(GivenPart).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(maxParts),
  Schema.makeFilter(
    (parts) => parts.filter(({ type }) => type === "file").length <= maxFiles || `Expected at most ${maxFiles} files`
  )
)

/** A question as a caller sends it: a text, or parts. */
export const GivenQuestion = Schema.Union([
  QuestionText,
  GivenParts.check(
    Schema.makeFilter(
      (parts) =>
        parts.some((part) => part.type === "file" || part.text.trim() !== "") || "Expected a question that is not blank"
    )
  )
])
export type GivenQuestion = typeof GivenQuestion.Type

/** What stands for a file where it cannot be shown: to a model, and wherever a question is one text. */
export const fileLine = ({ file_id, height, media_type, name, width }: FileReference): string => {
  const what = media_type.startsWith("image/") ? "image" : "file"
  const size = width === null || height === null ? media_type : `${width}×${height}`
  return `[${what} ${name}, ${size}, ${file_id}]`
}

/** What stands for a file that was deleted: its name, or its id where that is all that is known. */
export const deletedPart = (name: string) => ({ type: "text", text: `[${name}, deleted]` }) as const

/** The question as one text, for people and for whatever has no files. */
export const textOf = (parts: ReadonlyArray<QuestionPart>): string =>
  parts.map((part) => (part.type === "text" ? part.text : fileLine(part))).join("\n\n")
