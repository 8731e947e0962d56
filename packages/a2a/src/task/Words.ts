import { createHash } from "node:crypto"
import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { PeerEvent, ReceivedFile } from "@bowline/runtime/remote/PeerClient"
import { Result, Struct, type Schema } from "effect"
import { Base64 } from "effect/encoding"
import type { Artifact, Message, Part, Task } from "./Task.ts"

const isReadable = (mediaType: string): boolean => /^text\/|[/+](json|xml|yaml)$/.test(mediaType.split(";")[0] ?? "")

const fileText = (file: Part & { readonly _tag: "File" }): string => {
  if (file.bytes !== undefined && isReadable(file.mediaType)) {
    const text = Base64.decodeString(file.bytes)
    if (Result.isSuccess(text)) return text.success
  }
  const name = file.name === undefined ? "" : ` ${file.name}`
  const size = file.bytes === undefined ? "" : `, ${Math.floor((file.bytes.length * 3) / 4)} bytes`
  const place = file.uri === undefined ? "" : `: ${file.uri}`
  return `[file${name} (${file.mediaType}${size})${place}]`
}

const partText = (part: Part): string => {
  switch (part._tag) {
    case "Text":
      return part.text
    case "Data":
      return JSON.stringify(part.data)
    case "File":
      return fileText(part)
  }
}

/**
 * Parts as text for a model: data as JSON, a text file as its text, any other file as its name, type and size. Each part
 * starts a new line, unless there is white space between two of them.
 */
export const textOf = (parts: ReadonlyArray<Part>): string => {
  const texts: Array<string> = []
  let last = ""
  for (const part of parts) {
    const text = partText(part)
    if (texts.length > 0 && !/\s/.test(last) && !/^\s/.test(text)) texts.push((last = "\n"))
    texts.push(text)
    last = text.at(-1) ?? last
  }
  return texts.join("")
}

const partContent = (part: Part): Schema.Json => {
  switch (part._tag) {
    case "Text":
      return part.text
    case "Data":
      return part.data
    case "File":
      return Struct.omit(part, ["_tag", "mediaType"])
  }
}

const partMediaType = (part: Part): string => {
  switch (part._tag) {
    case "Text":
      return "text/plain"
    case "Data":
      return "application/json"
    case "File":
      return part.mediaType
  }
}

/** Whether a part is told as a file, and not in words. */
const isKept = (part: Part): boolean => part._tag === "File" && part.bytes !== undefined && !isReadable(part.mediaType)

/** The files of parts. Text files are told in words, too. */
const filesOf = (parts: ReadonlyArray<Part>): ReadonlyArray<ReceivedFile> =>
  parts.flatMap((part): ReadonlyArray<ReceivedFile> => {
    if (part._tag !== "File") return []
    const { bytes: data, mediaType, name, uri: url } = part
    const said = { mediaType, ...(name !== undefined && { name }) }
    if (data !== undefined) return [{ ...said, data }]
    return url === undefined ? [] : [{ ...said, url }]
  })

/** The files as a field of what is told, if there are any. */
const withFiles = (parts: ReadonlyArray<Part>): { readonly files?: ReadonlyArray<ReceivedFile> } => {
  const files = filesOf(parts)
  return files.length === 0 ? {} : { files }
}

const described = (part: Part): Schema.Json => ({ media_type: partMediaType(part), content: partContent(part) })

/** Characters of the name of an artifact. */
const maxName = 512

/** An artifact of one part is its content; of texts, the text; of anything else, a list of `{media_type, content}`. Its files are beside the content. */
export const artifactEvent = (artifact: Artifact, verified: Verified): PeerEvent => {
  const { name } = artifact
  const rest = { verified, ...withFiles(artifact.parts), ...(name !== undefined && { name: name.slice(0, maxName) }) }
  const parts = artifact.parts.filter((part) => part._tag !== "File" || part.bytes === undefined)
  const [part, ...others] = parts
  if (part === undefined && artifact.parts.length > 0) {
    return { _tag: "Artifact", content: null, mediaType: "application/json", ...rest }
  }
  if (part !== undefined && others.length === 0) {
    return { _tag: "Artifact", content: partContent(part), mediaType: partMediaType(part), ...rest }
  }
  return parts.every((part) => part._tag === "Text")
    ? { _tag: "Artifact", content: textOf(parts), mediaType: "text/plain", ...rest }
    : { _tag: "Artifact", content: parts.map(described), mediaType: "application/json", ...rest }
}

/** Stands for a text that is only compared, and may be long. */
export const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64")

/** Messages with the same key are the same message: a status message comes again in the history. */
export const keyOf = (message: Message): string => digestOf(`${message.id ?? ""}\n${textOf(message.parts)}`)

/** The messages in the result: the status message, and without artifacts also the last message of the agent. */
export const lastWords = (task: Task): ReadonlyArray<Message> => {
  const said = task.artifacts.length === 0 ? task.history.findLast((message) => message.fromAgent) : undefined
  if (task.message === null) return said === undefined ? [] : [said]
  return said === undefined || textOf(said.parts) === textOf(task.message.parts) ? [task.message] : [said, task.message]
}

/** The files of the result of a task. */
export const resultFiles = (task: Task): ReturnType<typeof withFiles> =>
  withFiles([...lastWords(task), ...task.artifacts].flatMap(({ parts }) => parts))

/**
 * The result of a task as text. `withDetails` adds its metadata, such as the terms of a payment. A task that did not complete
 * always has a text.
 */
export const resultText = (task: Task, withDetails: boolean): string => {
  const words = lastWords(task)
  const asides = withDetails ? [task.metadata, ...words.map((message) => message.metadata)] : []
  const told = (parts: ReadonlyArray<Part>) => textOf(parts.filter((part) => !isKept(part)))
  const texts = [
    ...words.map((message) => told(message.parts)),
    ...task.artifacts.map((artifact) => told(artifact.parts)),
    ...asides.filter((aside) => aside !== null).map((aside) => JSON.stringify(aside))
  ].filter((text) => text !== "")
  return texts.length > 0 || task.state === "completed" || resultFiles(task).files !== undefined
    ? texts.join("\n\n")
    : `The peer left the task as ${task.state}, without a word`
}
