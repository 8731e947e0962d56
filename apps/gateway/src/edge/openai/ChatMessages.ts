import { maxFiles } from "@bowline/domain/unstable/file/QuestionPart"
import { fileAt } from "@bowline/runtime/unstable/file/FileLinks"
import { Option, Schema } from "effect"
import { type Brought, taskOf } from "../leg/ClientResults.ts"
import * as GivenFiles from "../question/GivenFiles.ts"
import { given } from "./ChatSampling.ts"

const Part = Schema.Struct({
  type: Schema.Literals(["text", "refusal", "image_url", "file"]).annotate({
    message: "Expected text, image_url or file: the planner takes no audio. Have it written down, and send the text"
  }),
  text: Schema.optionalKey(Schema.String),
  refusal: Schema.optionalKey(Schema.String),
  image_url: Schema.optionalKey(Schema.Struct({ url: GivenFiles.FileUrl })),
  file: Schema.optionalKey(
    Schema.Struct({
      file_data: given(GivenFiles.FileData),
      file_id: given(GivenFiles.FileRef),
      filename: given(Schema.String)
    }).check(
      Schema.makeFilter(
        ({ file_data = null, file_id = null }) =>
          (file_data === null) !== (file_id === null) || "Expected either file_data or file_id"
      )
    )
  )
}).check(
  Schema.makeFilter((part) =>
    part[part.type] !== undefined
      ? undefined
      : part.type === "text" || part.type === "refusal"
        ? "Expected a text in the field of its type"
        : { path: [part.type], issue: "This field is required" }
  )
)
type Part = typeof Part.Type

const isFile = ({ type }: Part): boolean => type === "image_url" || type === "file"

const Call = Schema.Struct({
  id: Schema.String,
  function: Schema.optionalKey(Schema.Struct({ name: Schema.String, arguments: Schema.String }))
})

/** What is said of a file of an answer: its bytes decide, since other gateways may have named it. */
const anyType = "application/octet-stream"

/** A file of an answer, as the client got it. */
const decodeAnswered = Schema.decodeUnknownOption(
  Schema.Union([
    Schema.Struct({ image_url: Schema.Struct({ url: GivenFiles.FileUrl }) }),
    Schema.Struct({ file: Schema.Struct({ file_data: GivenFiles.FileUrl, filename: given(Schema.String) }) })
  ])
)

export const Message = Schema.Struct({
  role: Schema.Literals(["system", "developer", "user", "assistant", "tool", "function"]),
  content: given(Schema.Union([Schema.String, Schema.Array(Part)])),
  tool_calls: given(Schema.Array(Call)),
  tool_call_id: given(Schema.String),
  images: Schema.optionalKey(Schema.Unknown),
  files: Schema.optionalKey(Schema.Unknown)
}).check(
  Schema.makeFilter(({ role, tool_call_id }) =>
    role !== "tool" || typeof tool_call_id === "string"
      ? undefined
      : { path: ["tool_call_id"], issue: "This field is required" }
  ),
  Schema.makeFilter(({ content, role }) => {
    const file = role === "user" || role === "tool" || !Array.isArray(content) ? -1 : content.findIndex(isFile)
    return file === -1
      ? undefined
      : { path: ["content", file, "type"], issue: "Expected text: files are the user's, or those of a result" }
  })
)
export type Message = typeof Message.Type

const placed = (part: Part, path: string): GivenFiles.Placed => {
  const { file, image_url, refusal, text } = part
  if (image_url !== undefined) return { part: GivenFiles.fromUrl(image_url.url), path: `${path}.image_url.url` }
  if (file === undefined)
    return { part: { type: "text", text: (part.type === "refusal" ? refusal : text) ?? "" }, path }
  const { file_data = null, file_id = null, filename: name } = file
  return file_id === null
    ? { part: GivenFiles.fromUrl(file_data ?? "", { name }), path: `${path}.file.file_data` }
    : { part: GivenFiles.fromId(file_id), path: `${path}.file.file_id` }
}

const spoken = ({ content }: Message, index: number): GivenFiles.Spoken =>
  typeof content === "string"
    ? { text: content }
    : GivenFiles.spoken((content ?? []).map((part, at) => placed(part, `messages[${index}].content[${at}]`)))

export const textOf = (message: Message): string => spoken(message, 0).text

/** The files that an earlier answer had, in front of which the model is told so. The same bytes are no other file. Those of another shape or place are of other gateways, and change nothing. */
const answeredFiles = (
  { files, images }: Message,
  index: number,
  roots: ReadonlyArray<string>
): ReadonlyArray<GivenFiles.Told> => {
  const parts = Object.entries({ images, files }).flatMap(([field, list]) =>
    (Array.isArray(list) ? list : []).slice(-maxFiles).flatMap((one: unknown, at): ReadonlyArray<GivenFiles.Placed> => {
      const path = `messages[${index}].${field}[${at}]`
      const found = Option.getOrUndefined(decodeAnswered(one))
      if (found === undefined) return []
      const part =
        "image_url" in found
          ? GivenFiles.fromUrl(found.image_url.url, { type: anyType })
          : GivenFiles.fromUrl(found.file.file_data, { name: found.file.filename, type: anyType })
      if (!("url" in part)) return [{ part, path }]
      const own = fileAt(part.url, roots)
      return own === undefined ? [] : [{ part: GivenFiles.fromId(own), path }]
    })
  )
  if (parts.length === 0) return []
  return [
    { role: "user", ...GivenFiles.labelled("[files of the answer]", { text: "", parts: parts.slice(-maxFiles) }) }
  ]
}

export const instructionsOf = (messages: ReadonlyArray<Message>): string =>
  messages
    .flatMap((message) => (message.role === "system" || message.role === "developer" ? [textOf(message).trim()] : []))
    .filter((text) => text !== "")
    .join("\n\n")

/** A message of the history: calls of the client's tools and their results, too. */
const told = (message: Message, index: number, roots: ReadonlyArray<string>): ReadonlyArray<GivenFiles.Told> => {
  const { role, tool_call_id, tool_calls } = message
  const said = spoken(message, index)
  switch (role) {
    case "user":
      return [{ role, ...said }]
    case "assistant": {
      const calls = (tool_calls ?? []).map(
        ({ function: called, id }) => `[${id}: calls ${called?.name ?? "a tool"} with ${called?.arguments ?? "{}"}]`
      )
      const text = [said.text, ...calls].filter((line) => line.trim() !== "").join("\n\n")
      return [{ role, text }, ...answeredFiles(message, index, roots)]
    }
    case "tool":
    case "function":
      return [{ role: "user", ...GivenFiles.labelled(`[${tool_call_id ?? "a function"}: its result]`, said) }]
    default:
      return []
  }
}

/** What the messages ask: the last one of the user is the question, all others are history. `roots` are where the gateway is. */
export const asked = (messages: ReadonlyArray<Message>, roots: ReadonlyArray<string>) => {
  const last = messages.findLastIndex(({ role }) => role === "user")
  const question = messages[last]
  return GivenFiles.conversation(
    question === undefined ? { text: "" } : spoken(question, last),
    messages.flatMap((message, index) => (index === last ? [] : told(message, index, roots)))
  )
}

/** The messages up to the last one that somebody says: instructions may stand behind it. */
export const spokenOf = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.slice(0, messages.findLastIndex(({ role }) => role !== "system" && role !== "developer") + 1)

export const noQuestion =
  "Expected the user's message, which is the question, or results of tools, as the last messages. The planner begins its answer itself: say in a system message how"

/** What the last messages bring to a plan that waits for its client: results of calls, and then what the user says. */
export const broughtBy = (messages: ReadonlyArray<Message>, tools: Brought["tools"]): Brought | undefined => {
  const said = messages.findLastIndex(({ role }) => role !== "user") + 1
  const from = messages.slice(0, said).findLastIndex(({ role }) => role !== "tool") + 1
  const given = messages.slice(from, said)
  const results = given.flatMap((message, index) =>
    Option.toArray(
      Option.map(taskOf(message.tool_call_id ?? ""), (task_id) => {
        const said = spoken(message, from + index)
        return {
          path: `messages[${from + index}].content`,
          task_id,
          content: GivenFiles.contentOf(said),
          parts: said.parts
        }
      })
    )
  )
  const calls = (messages[from - 1]?.tool_calls ?? []).flatMap(({ id }) => Option.toArray(taskOf(id)))
  if (results.length + calls.length === 0 || results.length < given.length) return undefined
  const texts = messages.slice(said).map((message, index) => spoken(message, said + index))
  return { path: "messages", results, calls, texts, tools }
}
