import type { AgUiMessage } from "@bowline/client/unstable/ag-ui/AgUiEvents"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { Option, Predicate, Result, Schema } from "effect"
import { given } from "../openai/ChatSampling.ts"
import { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { Brought } from "../leg/ClientResults.ts"
import * as GivenFiles from "../question/GivenFiles.ts"
import {
  askedAgain,
  bring,
  type Decided,
  namedIn,
  Note,
  problemsOf,
  readOptions,
  renaming,
  type Said,
  toDecision,
  toPlan,
  type UiRequest
} from "./UiRequest.ts"

const TextPart = Schema.Struct({ type: Schema.tag("text"), text: Schema.String })
const isTextPart = Schema.is(TextPart)

/** Files as AG-UI has them from 1.0 on. */
const Media = Schema.Struct({
  type: Schema.Literals(["image", "audio", "video", "document"]),
  source: Schema.Union([
    Schema.Struct({ type: Schema.tag("data"), value: GivenFiles.FileData, mimeType: Schema.String }),
    Schema.Struct({ type: Schema.tag("url"), value: GivenFiles.FileUrl, mimeType: given(Schema.String) }),
    Schema.Struct({ type: Schema.tag("file"), value: GivenFiles.FileRef })
  ])
})

/** Files as they were before: with one of `data`, `url` and `id`. */
const Binary = Schema.Struct({
  type: Schema.tag("binary"),
  mimeType: given(Schema.String),
  filename: given(Schema.String),
  data: given(GivenFiles.FileData),
  url: given(GivenFiles.FileUrl),
  id: given(GivenFiles.FileRef)
}).check(
  Schema.makeFilter(
    ({ data = null, id = null, url = null }) =>
      [data, id, url].filter((one) => one !== null).length === 1 || "Expected one of data, url, id"
  )
)

const Part = Schema.Union([TextPart, Media, Binary]).annotate({
  message: 'Expected {type: "text", text}, or image, audio, video or document with a source of type data, url or file'
})
const decodePart = Schema.decodeUnknownResult(Part, { errors: "all" })

const toPlaced = (part: typeof Part.Type, path: string): GivenFiles.Placed => {
  if (part.type === "text") return { part, path }
  if (part.type === "binary") {
    const { data = null, filename: name, id = null, mimeType: type, url = null } = part
    if (id !== null) return { part: GivenFiles.fromId(id), path: `${path}.id` }
    const field = data === null ? "url" : "data"
    return { part: GivenFiles.fromUrl(data ?? url ?? "", { name, type }), path: `${path}.${field}` }
  }
  const { source } = part
  const file =
    source.type === "file"
      ? GivenFiles.fromId(source.value)
      : GivenFiles.fromUrl(source.value, { type: source.mimeType })
  return { part: file, path: `${path}.source.value` }
}

/** The events of the run repeat the messages as they were sent. */
const whole = <const Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.StructWithRest(Schema.Struct({ id: Schema.String, ...fields }), [Schema.Record(Schema.String, Schema.Unknown)])

/** What is wrong with the content of what a person or an operator says, or a tool has given. */
const problemOf = (role: string, content: unknown) => {
  if (typeof content === "string") return undefined
  if ((role !== "user" && role !== "tool") || !Array.isArray(content))
    return { path: ["content"], issue: "Expected a text" }
  return content.flatMap((part, index) => {
    const decoded = decodePart(part)
    return Result.isFailure(decoded) ? [{ path: ["content", index], issue: decoded.failure.issue }] : []
  })
}

const Message = whole({
  role: Schema.Literals(["user", "system", "developer", "assistant", "tool", "activity", "reasoning"]),
  content: Schema.optionalKey(Schema.Unknown),
  toolCalls: Schema.optionalKey(Schema.Array(whole({}))),
  toolCallId: Schema.optionalKey(Schema.String),
  error: Schema.optionalKey(Schema.String)
}).check(
  Schema.makeFilter(({ content, role }) =>
    role === "user" || role === "system" || role === "developer" || (role === "tool" && Array.isArray(content))
      ? problemOf(role, content)
      : undefined
  )
)
type Message = typeof Message.Type

const ResumeEntry = Schema.Struct({
  interruptId: Schema.String,
  status: Schema.Literals(["resolved", "cancelled"]),
  payload: given(Schema.Struct({ decision: Schema.Literals(["approve", "reject"]), note: Note }))
}).check(
  Schema.makeFilter(({ payload = null, status }) =>
    status === "cancelled" || payload !== null
      ? undefined
      : { path: ["payload"], issue: 'Expected {decision: "approve" | "reject", note?}' }
  )
)

const Body = Schema.Struct({
  threadId: ExternalSessionId,
  runId: Schema.String.check(Schema.isMaxLength(256)),
  messages: Schema.Array(Message).check(Schema.isMaxLength(1_000)),
  tools: given(
    Schema.Array(
      Schema.Struct({
        name: ClientTool.fields.name,
        description: given(ClientTool.fields.description.schema),
        parameters: given(ClientTool.fields.input_schema)
      })
    ).check(Schema.isMaxLength(128))
  ),
  context: given(Schema.Array(Schema.Struct({ description: Schema.String, value: Schema.String }))),
  resume: given(Schema.Array(ResumeEntry).check(Schema.isMaxLength(128))),
  forwardedProps: given(Schema.Unknown)
})

const decodeBody = Schema.decodeUnknownResult(Body, { errors: "all" })

/** A request of an AG-UI client. */
export interface AgUiRequest extends UiRequest {
  readonly runId: string
  /** The client's messages, as they were sent. */
  readonly messages: ReadonlyArray<AgUiMessage>
}

const textOf = ({ content }: Message): string => {
  if (typeof content === "string") return content
  const parts: ReadonlyArray<unknown> = Array.isArray(content) ? content : []
  return parts.flatMap((part) => (isTextPart(part) ? [part.text] : [])).join("\n\n")
}

const toSaid = (message: Message, index: number): Said => {
  const { content, role } = message
  if ((role !== "user" && role !== "tool") || !Array.isArray(content)) return { role, text: textOf(message) }
  const placed = content.flatMap((part, at) =>
    Option.toArray(
      Option.map(Result.getSuccess(decodePart(part)), (part) => toPlaced(part, `messages[${index}].content[${at}]`))
    )
  )
  return { role, ...GivenFiles.spoken(placed) }
}

const toolsOf = (tools: typeof Body.Type.tools): ReadonlyArray<ClientTool> =>
  (tools ?? []).map(({ description, name, parameters }) => ({
    name,
    ...(typeof description === "string" && { description }),
    input_schema: parameters ?? { type: "object" }
  }))

/** The results of the calls that the client has made itself: its last messages, but for what the user says behind them. */
const broughtBy = (
  messages: ReadonlyArray<Message>,
  said: ReadonlyArray<Said>,
  tools: UiRequest["tools"]
): Brought | undefined => {
  const until = messages.findLastIndex(({ role }) => role !== "user") + 1
  const from = messages.slice(0, until).findLastIndex(({ role }) => role !== "tool") + 1
  return bring(
    messages.slice(from, until).map(({ error, toolCallId = "" }, index) => {
      const { parts, text } = said[from + index] ?? { text: "" }
      return {
        path: `messages[${from + index}].content`,
        task_id: toolCallId,
        content: GivenFiles.contentOf({ text, ...(parts && { parts }) }),
        parts,
        ...(error !== undefined && { is_error: true })
      }
    }),
    said.slice(until),
    tools
  )
}

const toDecided = (entry: typeof ResumeEntry.Type, index: number): Decided => {
  const { interruptId, payload, status } = entry
  const decision =
    status === "cancelled" || payload === undefined || payload === null
      ? toDecision("reject", undefined)
      : toDecision(payload.decision, payload.note)
  return { path: `resume[${index}].interruptId`, task_id: interruptId, decision, isCancelled: status === "cancelled" }
}

const optionsOf = (props: unknown): unknown => (Predicate.hasProperty(props, "bowline") ? props.bowline : undefined)

const noQuestion: Issue = {
  path: "messages",
  message: "Expected the user's message, which is the question, as the last one, results of tools, or answers in resume"
}

/** Whether the user asks although a call has no result yet. */
const leavesOpen = (messages: ReadonlyArray<Message>): boolean => {
  const given = new Set(messages.map(({ toolCallId }) => toolCallId))
  const last = messages.findLastIndex(({ role }) => role === "user")
  const before = messages.slice(0, Math.max(last, 0)).findLast(({ role }) => role === "assistant")
  return messages.length - 1 === last && before?.toolCalls?.some(({ id }) => !given.has(id)) === true
}

/** Reads a body. Fails with everything that is wrong with it, field by field. */
export const decode = (sent: Readonly<Record<string, unknown>>): Result.Result<AgUiRequest, ReadonlyArray<Issue>> => {
  const body = Result.mapError(decodeBody(sent), fromSchema)
  const own = optionsOf(sent["forwardedProps"])
  const options = readOptions(own, "forwardedProps.bowline")
  if (Result.isFailure(body) || Result.isFailure(options)) return Result.fail(problemsOf(body, options))
  const { context, messages, resume, runId, threadId: session, tools } = body.success
  const named = renaming("threadId", "forwardedProps.bowline")
  const renamed: UiRequest["renamed"] = (issues) =>
    named(issues).map(({ message, path }) => ({
      path: path.replace(/^(tools\[\d+\])\.input_schema\b/, "$1.parameters"),
      message
    }))
  const decided = (resume ?? []).map(toDecided)
  const asks = messages.at(-1)?.role === "user"
  const ofPage = tools == null ? undefined : toolsOf(tools)
  const said = messages.map(toSaid)
  const isOpen = leavesOpen(messages)
  const brought = isOpen ? undefined : broughtBy(messages, said, ofPage)
  const common = { session, tools: ofPage, renamed, decided, brought, runId, messages, named: namedIn(own) }
  // The question that an answer belongs to may be the last message as well.
  if (brought === undefined && decided.some(({ isCancelled }) => !isCancelled))
    return Result.succeed({ ...common, request: undefined })
  if (!asks && brought === undefined)
    return decided.length > 0 ? Result.succeed({ ...common, request: undefined }) : Result.fail([noQuestion])
  const told = (context ?? []).map(({ description, value }) => `${description}: ${value}`)
  const interrupts = decided.length > 0
  const plan = toPlan({
    session,
    said: brought === undefined ? said : askedAgain(said),
    options: options.success,
    renamed,
    tools: ofPage ?? [],
    context: told,
    interrupts: interrupts || isOpen
  })
  return Result.map(plan, (asked): AgUiRequest => ({ ...common, ...asked }))
}
