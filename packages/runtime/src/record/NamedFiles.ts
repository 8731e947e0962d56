import type { FileReference, Message } from "@bowline/domain/session/Message"
import { deletedPart, fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { KeptFile } from "../store/FileStore.ts"
import type { BeginRecord } from "./BeginRecord.ts"

/** A file that other lines name: the text that a model reads in its place, and the SHA-256 of its bytes in hexadecimal, null if the file was deleted. */
export interface NamedFile {
  readonly type: "named"
  readonly file_id: FileId
  readonly text: string
  readonly sha256: string | null
}

/** The parts of a record that name files. */
interface Naming {
  readonly messages: ReadonlyArray<Pick<Message, "parts">>
  readonly begins: ReadonlyArray<Pick<BeginRecord, "files">>
  readonly frames: ReadonlyArray<{ readonly event: string; readonly data: object }>
}

/** The file of an artifact. No message names it while its call runs, so it is read from the event. */
const fileOfArtifact = (data: object): ReadonlyArray<FileReference> => {
  const { content, file_id, media_type, name }: Readonly<Record<string, unknown>> = { ...data }
  if (typeof file_id !== "string") return []
  const [, width, height] = /, (\d+)×(\d+), file_/.exec(String(content)) ?? []
  const size = {
    width: width === undefined ? null : Number(width),
    height: height === undefined ? null : Number(height)
  }
  const id = FileId.make(file_id)
  return [{ type: "file", file_id: id, media_type: String(media_type), name: String(name), bytes: 1, ...size }]
}

/** The files of the question, of the history and of the results of calls, each once. */
export const filesIn = ({ begins, frames, messages }: Naming): ReadonlyArray<FileReference> => {
  const told = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === "file" && "file_id" in part ? [part] : []))
  )
  const given = frames.flatMap(({ data, event }) => (event === "task.artifact" ? fileOfArtifact(data) : []))
  const listed = begins.flatMap(({ files = [] }) => files)
  return Array.from(new Map([...given, ...told, ...listed].map((file) => [file.file_id, file])).values())
}

/** A line for each file. `there` are the files of the session that exist now. */
export const namedFiles = (
  files: ReadonlyArray<FileReference>,
  there: ReadonlyArray<KeptFile>
): ReadonlyArray<NamedFile> => {
  const digests = new Map(there.map(({ file_id, sha256 }) => [file_id, sha256]))
  return files.map((file) => {
    const { file_id, name } = file
    const sha256 = digests.get(file_id) ?? null
    return { type: "named", file_id, text: sha256 === null ? deletedPart(name).text : fileLine(file), sha256 }
  })
}
