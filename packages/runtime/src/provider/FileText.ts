import type { FilePart, FileReference } from "@bowline/domain/session/Message"
import { fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { Result } from "effect"
import { Base64 } from "effect/encoding"

/** A file with its content, or the place of it. Before a model is asked, stored files get their content, or become a line of text. */
export type WholeFile = Exclude<FilePart, FileReference>

/** The kinds of images that every provider of models with vision accepts. */
export const isImageType = (type: string): boolean => /^image\/(png|jpeg|gif|webp)$/.test(type)

export const isImage = ({ media_type }: FilePart): boolean => isImageType(media_type)

export const isPdf = ({ media_type }: FilePart): boolean => media_type === "application/pdf"

/** The `data:` URL of a file's content, or where the file is. */
export const fileUrl = (file: WholeFile): string =>
  "data" in file ? `data:${file.media_type};base64,${file.data}` : file.url

/** The text of a text file that came with its content. */
export const fileText = (file: FilePart): string | undefined => {
  if (!("data" in file) || !file.media_type.startsWith("text/")) return undefined
  return Result.getOrUndefined(Base64.decodeString(file.data))
}

/** What stands for a file that the wire cannot carry. */
export const fileNote = (file: FilePart): string =>
  "file_id" in file
    ? fileLine(file)
    : `[A file that cannot be shown: ${file.name ?? "without a name"} (${file.media_type})${"url" in file ? `, at ${file.url}` : ""}]`
