import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { FileReference } from "@bowline/domain/session/Message"
import type { Decision } from "@bowline/domain/plan/Approval"
import { Option, Result, Schema } from "effect"
import { type Brought, taskOf } from "../leg/ClientResults.ts"
import { given } from "../openai/ChatSampling.ts"
import * as GivenFiles from "../question/GivenFiles.ts"

const Json = Schema.Record(Schema.String, Schema.Json)
type Json = typeof Json.Type

/** A text, or items. */
export const Input = Schema.Union([Schema.String, Schema.Array(Json).check(Schema.isMaxLength(1_000))]).annotate({
  message: "Expected a text, or a list of at most 1,000 items"
})

const texts = ["input_text", "output_text", "text", "refusal"] as const
const files = ["input_image", "input_file"] as const

const said = { text: Schema.optionalKey(Schema.String), refusal: Schema.optionalKey(Schema.String) }

const Part = Schema.Struct({
  type: Schema.Literals([...texts, ...files]).annotate({
    message:
      "Expected input_text, input_image or input_file: the planner takes no audio. Have it written down, and send the text"
  }),
  ...said,
  image_url: given(GivenFiles.FileUrl),
  file_url: given(GivenFiles.FileUrl),
  file_data: given(GivenFiles.FileData),
  file_id: given(GivenFiles.FileRef),
  filename: given(Schema.String),
  detail: given(Schema.String)
})
type Part = typeof Part.Type

/** Where a part may have its file. */
const sources = { input_image: ["image_url", "file_id"], input_file: ["file_data", "file_url", "file_id"] } as const

const isFile = ({ type }: Part): boolean => Object.hasOwn(sources, type)

const isSaid = ({ refusal, text, type }: Pick<Part, "refusal" | "text" | "type">): true | string =>
  (type === "refusal" ? refusal : text) !== undefined || "Expected a text in the field of its type"

const hasSource = (part: Part): true | string => {
  if (part.type !== "input_image" && part.type !== "input_file") return isSaid(part)
  const fields = sources[part.type]
  return fields.filter((field) => (part[field] ?? null) !== null).length === 1 || `Expected one of ${fields.join(", ")}`
}

const Message = Schema.Struct({
  role: Schema.Literals(["system", "developer", "user", "assistant"]),
  content: Schema.Union([Schema.String, Schema.Array(Part.check(Schema.makeFilter(hasSource)))]).annotate({
    message: "Expected a text, or a list of parts"
  })
}).check(
  Schema.makeFilter(({ content, role }) => {
    const file = role === "user" || typeof content === "string" ? -1 : content.findIndex((part) => isFile(part))
    return file === -1 ? undefined : { path: ["content", file, "type"], issue: "Expected text: files are the user's" }
  })
)
type Message = typeof Message.Type

const ApprovalResponse = Schema.Struct({
  approval_request_id: Schema.String,
  approve: Schema.Boolean,
  reason: Schema.optionalKey(Schema.NullOr(Schema.String.check(Schema.isMaxLength(4_096))))
})

const Call = Schema.Struct({ call_id: Schema.String, name: Schema.String, arguments: Schema.String })

const Output = Schema.Struct({
  call_id: Schema.String,
  output: Schema.Union([Schema.String, Schema.Array(Part.check(Schema.makeFilter(hasSource)))]).annotate({
    message: "Expected a text, or a list of parts"
  })
})

const Compaction = Schema.Struct({
  encrypted_content: Schema.StringFromBase64Url.annotate({ message: "Expected that of a compaction, as it came" })
})

export const decodeCompaction = Schema.decodeUnknownResult(Compaction, { errors: "all" })
export const decodeMessage = Schema.decodeUnknownResult(Message, { errors: "all" })
export const decodeCall = Schema.decodeUnknownResult(Call, { errors: "all" })
export const decodeOutput = Schema.decodeUnknownResult(Output, { errors: "all" })
const decodeApproval = Schema.decodeUnknownResult(ApprovalResponse, { errors: "all" })

/** What earlier responses have given, which the session has or the planner does not need. */
export const leftOut = new Set([
  "reasoning",
  "mcp_call",
  "image_generation_call",
  "mcp_list_tools",
  "mcp_approval_request",
  "item_reference"
])

/** An approval request that the caller has decided, and where it says so. */
export interface Decided {
  readonly path: string
  readonly approval_request_id: string
  readonly decision: Decision
}

/** What the items ask. Without a `question` they only decide about calls that wait. */
export interface Asked {
  readonly question: AskRequest["question"] | undefined
  readonly history: AskRequest["history"]
  readonly instructions: ReadonlyArray<string>
  /** What stands in place of earlier messages; undefined if nothing does. */
  readonly summary: string | undefined
  readonly decided: ReadonlyArray<Decided>
  /** What the last items bring to a plan that waits for its client. */
  readonly brought: Brought | undefined
  /** As `GET …/input_items` shows them, but for their ids: with the files of the plan. */
  readonly items: (request: PlanRequest) => ReadonlyArray<Json>
  /** Names what is wrong with a file by its place in the input. */
  readonly placed: ReturnType<typeof GivenFiles.conversation>["placed"]
  /** The types of the items that change nothing. */
  readonly ignored: ReadonlyArray<string>
}

const wordsOf = ({ refusal, text, type }: Pick<Part, "refusal" | "text" | "type">): string =>
  (type === "refusal" ? refusal : text) ?? ""

const placed = (part: Part, path: string): GivenFiles.Placed => {
  const { file_data, file_id, file_url, filename: name, image_url } = part
  if (!isFile(part)) return { part: { type: "text", text: wordsOf(part) }, path }
  if (typeof file_id === "string") return { part: GivenFiles.fromId(file_id), path: `${path}.file_id` }
  const url = part.type === "input_image" ? image_url : (file_url ?? file_data)
  const field = part.type === "input_image" ? "image_url" : file_url == null ? "file_data" : "file_url"
  return { part: GivenFiles.fromUrl(url ?? "", { name }), path: `${path}.${field}` }
}

export const spokenAt = (content: string | ReadonlyArray<Part>, path: string): GivenFiles.Spoken =>
  typeof content === "string"
    ? { text: content }
    : GivenFiles.spoken(content.map((part, index) => placed(part, `${path}[${index}]`)))

export const spokenIn = ({ content }: Message, path: string): GivenFiles.Spoken => spokenAt(content, `${path}.content`)

type Files = ReadonlyMap<string, FileReference>

/** A part without bytes, and with the id under which its file is stored now. */
const shown = (part: Part, path: string, files: Files): Json => {
  if (!isFile(part)) return { type: "input_text", text: wordsOf(part) }
  const file_id = files.get(placed(part, path).path)?.file_id ?? part.file_id ?? null
  return part.type === "input_image"
    ? { type: part.type, file_id, image_url: null, detail: part.detail ?? "auto" }
    : { type: part.type, file_id, ...(part.filename != null && { filename: part.filename }) }
}

const messageItem = (
  { content, role }: Message,
  { parts, text }: GivenFiles.Spoken,
  path: string,
  files: Files
): Json => ({
  type: "message",
  role,
  status: "completed",
  content:
    parts === undefined || typeof content === "string"
      ? [{ type: role === "assistant" ? "output_text" : "input_text", text }]
      : content.map((part, index) => shown(part, `${path}.content[${index}]`, files))
})

type Read =
  | {
      readonly _tag: "Message"
      readonly role: Message["role"]
      readonly said: GivenFiles.Spoken
      readonly item: (files: Files) => Json
    }
  | { readonly _tag: "Decided"; readonly decided: Decided; readonly item: (files: Files) => Json }
  | {
      readonly _tag: "Called" | "Given"
      readonly call: string
      readonly path: string
      readonly role: "user" | "assistant"
      readonly said: GivenFiles.Spoken
      /** The result of a call. */
      readonly output: GivenFiles.Spoken
      readonly item: (files: Files) => Json
    }
  | { readonly _tag: "Summary"; readonly text: string; readonly item: (files: Files) => Json }
  | { readonly _tag: "LeftOut"; readonly type: string }

export const within = (path: string, error: Schema.SchemaError): ReadonlyArray<Issue> =>
  fromSchema(error).map((issue) => ({
    path: issue.path === "" ? path : `${path}.${issue.path}`,
    message: issue.message
  }))

const readItem = (item: Json, index: number): Result.Result<Read, ReadonlyArray<Issue>> => {
  const path = `input[${index}]`
  const type = item["type"] ?? "message"
  if (type === "message") {
    return Result.mapBoth(decodeMessage(item), {
      onFailure: (error) => within(path, error),
      onSuccess: (message): Read => {
        const said = spokenIn(message, path)
        return { _tag: "Message", role: message.role, said, item: (files) => messageItem(message, said, path, files) }
      }
    })
  }
  if (type === "mcp_approval_response") {
    return Result.mapBoth(decodeApproval(item), {
      onFailure: (error) => within(path, error),
      onSuccess: ({ approval_request_id, approve, reason }): Read => {
        const decision = approve ? ("approve" as const) : ("reject" as const)
        const note = typeof reason === "string" && reason !== "" ? { note: reason } : {}
        return {
          _tag: "Decided",
          decided: { path, approval_request_id, decision: { decision, ...note } },
          item: () => item
        }
      }
    })
  }
  if (type === "compaction") {
    return Result.mapBoth(decodeCompaction(item), {
      onFailure: (error) => within(path, error),
      onSuccess: ({ encrypted_content: text }): Read => ({ _tag: "Summary", text, item: () => item })
    })
  }
  if (type === "function_call") {
    return Result.mapBoth(decodeCall(item), {
      onFailure: (error) => within(path, error),
      onSuccess: (call): Read => {
        const text = `[${call.call_id}: calls ${call.name} with ${call.arguments}]`
        return {
          _tag: "Called",
          call: call.call_id,
          path,
          role: "assistant",
          said: { text },
          output: { text: "" },
          item: () => item
        }
      }
    })
  }
  if (type === "function_call_output") {
    return Result.mapBoth(decodeOutput(item), {
      onFailure: (error) => within(path, error),
      onSuccess: ({ call_id, output }): Read => {
        const at = `${path}.output`
        const told = spokenAt(output, at)
        const said = GivenFiles.labelled(`[${call_id}: its result]`, told)
        const itemOf = (files: Files) => ({
          ...item,
          output:
            told.parts === undefined || typeof output === "string"
              ? told.text
              : output.map((part, index) => shown(part, `${at}[${index}]`, files))
        })
        return { _tag: "Given", call: call_id, path, role: "user", said, output: told, item: itemOf }
      }
    })
  }
  if (typeof type === "string" && leftOut.has(type)) return Result.succeed({ _tag: "LeftOut", type })
  const message = "Expected message, function_call, function_call_output, compaction or mcp_approval_response"
  return Result.fail([{ path: `${path}.type`, message }])
}

export const noQuestion: Issue = {
  path: "input",
  message:
    "Expected the user's message, which is the question, an mcp_approval_response, or a function_call_output for a call that waits, as the last item"
}

/** What the last items bring: results, decisions beside them, and then what the user says. */
const broughtBy = (items: ReadonlyArray<Exclude<Read, { readonly _tag: "LeftOut" }>>): Brought | undefined => {
  const spoken = items.findLastIndex((item) => item._tag !== "Message" || item.role !== "user") + 1
  const from = items.slice(0, spoken).findLastIndex(({ _tag }) => _tag !== "Given" && _tag !== "Decided") + 1
  const given = items.slice(from, spoken).flatMap((item) => (item._tag === "Given" ? [item] : []))
  const results = given.flatMap(({ call, output, path }) =>
    Option.toArray(
      Option.map(taskOf(call), (task_id) => ({
        path: `${path}.output`,
        task_id,
        content: GivenFiles.contentOf(output),
        parts: output.parts
      }))
    )
  )
  const called = items.slice(items.slice(0, from).findLastIndex(({ _tag }) => _tag !== "Called") + 1, from)
  const calls = called.flatMap((item) => (item._tag === "Called" ? Option.toArray(taskOf(item.call)) : []))
  if (results.length + calls.length === 0 || results.length < given.length) return undefined
  const texts = items.slice(spoken).flatMap((item) => (item._tag === "Message" ? [item.said] : []))
  return { path: "input", results, calls, texts }
}

/** What a list of items asks. Fails with everything that is wrong with it. */
const readItems = (items: ReadonlyArray<Json>): Result.Result<Asked, ReadonlyArray<Issue>> => {
  const results = items.map(readItem)
  const issues = results.flatMap((result) => (Result.isFailure(result) ? result.failure : []))
  const read = results.flatMap((result) => (Result.isSuccess(result) ? [result.success] : []))
  const spoken = read.filter((item) => item._tag !== "LeftOut")
  const last = spoken.at(-1)
  const asks = last?._tag === "Message" && last.role === "user"
  if (issues.length === 0 && !asks && last?._tag !== "Decided" && last?._tag !== "Given") issues.push(noQuestion)
  if (issues.length > 0) return Result.fail(issues)
  const brought = broughtBy(spoken)
  const isQuestion = (item: Read) => item._tag === "Message" && item.role === "user"
  const asked = last?._tag === "Decided" ? -1 : spoken.findLastIndex(isQuestion)
  const question = spoken[asked]
  if (question === undefined && brought === undefined && last?._tag === "Given") return Result.fail([noQuestion])
  const others = spoken.filter((_, index) => index !== asked)
  const said = others.flatMap((item) => ("said" in item ? [{ role: item.role, ...item.said }] : []))
  const summaries = spoken.flatMap((item) => (item._tag === "Summary" ? [item.text] : []))
  const conversation = GivenFiles.conversation(
    question?._tag === "Message" ? question.said : { text: "" },
    said.flatMap(({ role, ...one }) => (role === "user" || role === "assistant" ? [{ role, ...one }] : []))
  )
  return Result.succeed({
    question: question?._tag === "Message" ? conversation.asked.question : undefined,
    history: conversation.asked.history,
    instructions: said.flatMap(({ role, text }) =>
      (role === "system" || role === "developer") && text.trim() !== "" ? [text.trim()] : []
    ),
    summary: summaries.length === 0 ? undefined : summaries.join("\n\n"),
    decided: spoken.flatMap((item) => (item._tag === "Decided" ? [item.decided] : [])),
    brought,
    items: (request) => {
      const files = conversation.filesOf(request)
      return spoken.map(({ item }) => item(files))
    },
    placed: conversation.placed,
    ignored: [...new Set(read.flatMap((item) => (item._tag === "LeftOut" ? [`input[].${item.type}`] : [])))]
  })
}

/** What the input of a request asks. Fails with everything that is wrong with it, item by item. */
export const read = (input: typeof Input.Type): Result.Result<Asked, ReadonlyArray<Issue>> =>
  typeof input === "string" ? readItems([{ role: "user", content: input }]) : readItems(input)
