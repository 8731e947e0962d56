import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { FileReference } from "@bowline/domain/session/Message"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import type { GivenPart } from "@bowline/domain/unstable/file/QuestionPart"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { Schema } from "effect"

/** A file of a message as its client sends it. */
export type GivenFile = Exclude<GivenPart, { readonly type: "text" }>

/** A part of a message, and where the body has it. */
export interface Placed {
  readonly part: GivenPart
  readonly path: string
}

/** A message of a conversation: its text, and its parts if it has files. */
export interface Spoken {
  readonly text: string
  readonly parts?: ReadonlyArray<Placed>
}

const isBase64 = Schema.is(Schema.NonEmptyString.check(Schema.isBase64()))
const isFileId = Schema.is(FileId)
const unsaid = "application/octet-stream"

/** What a client may say of a file besides its bytes. */
interface Said {
  readonly name?: string | null | undefined
  readonly type?: string | null | undefined
}

/** A file of these bytes. */
export const fromBase64 = (data: string, { name, type }: Said = {}): GivenFile => ({
  type: "file",
  data,
  media_type: type?.slice(0, 256) || unsaid,
  ...(name && { name })
})

export const fromId = (id: string): GivenFile => ({ type: "file", file_id: FileId.make(id) })

/** The two halves of a `data:` URL, the media type without its parameters. Its text may be long: no pattern runs over it. */
const dataOf = (url: string) => {
  const comma = url.indexOf(",")
  const head = url.slice(0, comma)
  const [, type = ""] = /^data:([^;,]*)(?:;[^;,]*)*;base64$/i.exec(head) ?? []
  return comma > 0 && /^data:.*;base64$/i.test(head) ? { type, data: url.slice(comma + 1) } : undefined
}

/** A file of this gateway, by the path of its bytes. */
const idIn = (url: string): string | undefined =>
  url.length < 2_048 ? /^\/files\/(file_[0-9a-f-]{36})\/content(?:\?token=[\w-]+)?$/.exec(url)?.[1] : undefined

/** By plain http there are only files of this gateway: whether it is one tells who takes the question in. */
const isWeb = (url: string): boolean =>
  url.length <= 8_192 && /^https:\/\/|^http:\/\/[^?#]+\/files\/[\w-]+\/content(\?|$)/i.test(url)

/** What is wrong with the URL of a file. */
export const urlProblem = (url: string): string | undefined => {
  if (idIn(url) !== undefined || isWeb(url)) return undefined
  const data = dataOf(url)
  if (data === undefined)
    return "Expected an https URL, a data URL in base64, or /files/{file_id}/content of a stored file"
  return isBase64(data.data) ? undefined : "Expected base64 behind the comma of the data URL"
}

/** The URL of a file: https, `data:` in base64, or that of a file that the gateway has. */
export const FileUrl = Schema.String.check(Schema.makeFilter(urlProblem))

/** A file in base64. */
export const FileData = Schema.String.check(
  Schema.makeFilter((data) => isBase64(dataOf(data)?.data ?? data) || "Expected base64, or a data URL of it")
)

/** Names a file that the caller has stored. */
export const FileRef = Schema.String.check(
  Schema.makeFilter((id) => isFileId(id) || "Expected the id of a file that you have stored")
)

/** The file of a URL that is a `FileUrl`, or of text that is `FileData`. */
export const fromUrl = (url: string, said: Said = {}): GivenFile => {
  const id = idIn(url)
  if (id !== undefined) return fromId(id)
  if (isWeb(url)) return { type: "file", url }
  const data = dataOf(url)
  if (data === undefined) return fromBase64(url, said)
  // What is said of it may be as little as `image`.
  return fromBase64(data.data, { ...said, type: said.type?.includes("/") === true ? said.type : data.type })
}

const given = (parts: ReadonlyArray<Placed>) => parts.map(({ part }) => part)

/** A message of these parts. Without a file it is its text, the parts joined by `between`. */
export const spoken = (parts: ReadonlyArray<Placed>, between = "\n\n"): Spoken => {
  const text = parts.flatMap(({ part }) => (part.type === "text" ? [part.text] : [])).join(between)
  if (!parts.some(({ part }) => part.type === "file")) return { text }
  return { text, parts: parts.filter(({ part }) => part.type === "file" || part.text.trim() !== "") }
}

/** The message with a line in front of it, which says whose it is. */
export const labelled = (label: string, { parts, text }: Spoken): Spoken => ({
  text: `${label}\n${text}`,
  ...(parts && { parts: [{ part: { type: "text", text: label }, path: "" }, ...parts] })
})

/** What the message has as the result of a call: a text, or its parts if it has files. */
export const contentOf = ({ parts, text }: Spoken): Schema.Json => (parts === undefined ? text : given(parts))

/** A message before the question. */
export interface Told extends Spoken {
  readonly role: "user" | "assistant"
}

type Renamed = (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>

/**
 * A conversation as the question and the history of a plan, without blank messages. `placed` names what is wrong with one of their files by the place where the body has it, and leaves all else to the
 * edge.
 */
export const conversation = (question: Spoken, before: ReadonlyArray<Told>) => {
  const told = before.filter(({ parts, text }) => parts !== undefined || text.trim() !== "")
  const placeOf = (path: string): string | undefined => {
    const [, asked] = /^question\[(\d+)\]/.exec(path) ?? []
    if (asked !== undefined) return question.parts?.[Number(asked)]?.path
    const [, entry, part] = /^history\[(\d+)\]\.parts\[(\d+)\]/.exec(path) ?? []
    return entry === undefined ? undefined : told[Number(entry)]?.parts?.[Number(part)]?.path
  }
  const history: AskRequest["history"] = told.map(({ parts, role, text }) => ({
    role,
    content: text,
    ...(parts !== undefined && { parts: given(parts) })
  }))
  return {
    /** The files of the plan by their places in the body. Those of a history that the session did not need are missing. */
    filesOf: (request: PlanRequest): ReadonlyMap<string, FileReference> => {
      const pairs = [
        { parts: question.parts, taken: request.question_parts },
        ...told.map(({ parts }, index) => ({ parts, taken: request.history[index]?.parts }))
      ]
      return new Map(
        pairs.flatMap(({ parts = [], taken = [] }) =>
          taken.flatMap((part, index) => (part.type === "file" ? [[parts[index]?.path ?? "", part] as const] : []))
        )
      )
    },
    asked: { question: question.parts === undefined ? question.text : given(question.parts), history },
    placed:
      (renamed: Renamed): Renamed =>
      (issues) =>
        issues.flatMap((issue) => {
          const path = placeOf(issue.path)
          return path === undefined ? renamed([issue]) : [{ ...issue, path }]
        })
  }
}
