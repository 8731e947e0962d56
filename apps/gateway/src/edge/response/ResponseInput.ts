import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { Decision } from "@bowline/domain/plan/Approval"
import { Option, Result, Schema } from "effect"
import { type Brought, taskOf } from "../leg/ClientResults.ts"

const Json = Schema.Record(Schema.String, Schema.Json)
type Json = typeof Json.Type

/** A text, or items. */
export const Input = Schema.Union([Schema.String, Schema.Array(Json).check(Schema.isMaxLength(1_000))]).annotate({
  message: "Expected a text, or a list of at most 1,000 items"
})

const texts = ["input_text", "output_text", "text", "refusal"] as const

const Part = Schema.Struct({
  type: Schema.Literals(texts).annotate({
    message: "Expected text: the planner takes no images, audio or files"
  }),
  text: Schema.optionalKey(Schema.String),
  refusal: Schema.optionalKey(Schema.String)
}).check(
  Schema.makeFilter(
    ({ refusal, text, type }) =>
      (type === "refusal" ? refusal : text) !== undefined || "Expected a text in the field of its type"
  )
)

const Message = Schema.Struct({
  role: Schema.Literals(["system", "developer", "user", "assistant"]),
  content: Schema.Union([Schema.String, Schema.Array(Part)]).annotate({
    message: "Expected a text, or a list of texts"
  })
})
type Message = typeof Message.Type

const ApprovalResponse = Schema.Struct({
  approval_request_id: Schema.String,
  approve: Schema.Boolean,
  reason: Schema.optionalKey(Schema.NullOr(Schema.String.check(Schema.isMaxLength(4_096))))
})

const Call = Schema.Struct({ call_id: Schema.String, name: Schema.String, arguments: Schema.String })

const Output = Schema.Struct({
  call_id: Schema.String,
  output: Schema.Union([Schema.String, Schema.Array(Part)]).annotate({ message: "Expected a text, or a list of texts" })
})

const decodeMessage = Schema.decodeUnknownResult(Message, { errors: "all" })
const decodeCall = Schema.decodeUnknownResult(Call, { errors: "all" })
const decodeOutput = Schema.decodeUnknownResult(Output, { errors: "all" })
const decodeApproval = Schema.decodeUnknownResult(ApprovalResponse, { errors: "all" })

/** What earlier responses have given, which the session has or the planner does not need. */
const leftOut = new Set(["reasoning", "mcp_call", "mcp_list_tools", "mcp_approval_request", "item_reference"])

/** An approval request that the caller has decided, and where it says so. */
export interface Decided {
  readonly path: string
  readonly approval_request_id: string
  readonly decision: Decision
}

/** What the items ask. Without a `question` they only decide about calls that wait. */
export interface Asked {
  readonly question: string | undefined
  readonly history: PlanRequest["history"]
  readonly instructions: ReadonlyArray<string>
  readonly decided: ReadonlyArray<Decided>
  /** What the last items bring to a plan that waits for its client. */
  readonly brought: Brought | undefined
  /** As `GET …/input_items` shows them, but for their ids. */
  readonly items: ReadonlyArray<Json>
  /** The types of the items that change nothing. */
  readonly ignored: ReadonlyArray<string>
}

const textOf = ({ content }: { readonly content: Message["content"] }): string =>
  typeof content === "string"
    ? content
    : content.map(({ refusal, text, type }) => (type === "refusal" ? refusal : text) ?? "").join("\n\n")

const messageItem = ({ role }: Message, text: string): Json => ({
  type: "message",
  role,
  status: "completed",
  content: [{ type: role === "assistant" ? "output_text" : "input_text", text }]
})

type Read =
  | { readonly _tag: "Message"; readonly message: Message; readonly item: Json }
  | { readonly _tag: "Decided"; readonly decided: Decided; readonly item: Json }
  | {
      readonly _tag: "Called" | "Given"
      readonly call: string
      readonly path: string
      readonly message: Message
      readonly item: Json
    }
  | { readonly _tag: "LeftOut"; readonly type: string }

const within = (path: string, error: Schema.SchemaError): ReadonlyArray<Issue> =>
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
      onSuccess: (message): Read => ({ _tag: "Message", message, item: messageItem(message, textOf(message)) })
    })
  }
  if (type === "mcp_approval_response") {
    return Result.mapBoth(decodeApproval(item), {
      onFailure: (error) => within(path, error),
      onSuccess: ({ approval_request_id, approve, reason }): Read => {
        const decision = approve ? ("approve" as const) : ("reject" as const)
        const note = typeof reason === "string" && reason !== "" ? { note: reason } : {}
        return { _tag: "Decided", decided: { path, approval_request_id, decision: { decision, ...note } }, item }
      }
    })
  }
  if (type === "function_call") {
    return Result.mapBoth(decodeCall(item), {
      onFailure: (error) => within(path, error),
      onSuccess: (call): Read => {
        const content = `[${call.call_id}: calls ${call.name} with ${call.arguments}]`
        return { _tag: "Called", call: call.call_id, path, message: { role: "assistant", content }, item }
      }
    })
  }
  if (type === "function_call_output") {
    return Result.mapBoth(decodeOutput(item), {
      onFailure: (error) => within(path, error),
      onSuccess: ({ call_id, output }): Read => {
        const text = textOf({ content: output })
        const message = { role: "user", content: `[${call_id}: its result]\n${text}` } as const
        return { _tag: "Given", call: call_id, path, message, item: { ...item, output: text } }
      }
    })
  }
  if (typeof type === "string" && leftOut.has(type)) return Result.succeed({ _tag: "LeftOut", type })
  const message = "Expected message, function_call, function_call_output or mcp_approval_response"
  return Result.fail([{ path: `${path}.type`, message }])
}

const noQuestion: Issue = {
  path: "input",
  message:
    "Expected the user's message, which is the question, an mcp_approval_response, or a function_call_output for a call that waits, as the last item"
}

/** What the last items bring: results, decisions beside them, and then what the user says. */
const broughtBy = (items: ReadonlyArray<Exclude<Read, { readonly _tag: "LeftOut" }>>): Brought | undefined => {
  const spoken = items.findLastIndex((item) => item._tag !== "Message" || item.message.role !== "user") + 1
  const from = items.slice(0, spoken).findLastIndex(({ _tag }) => _tag !== "Given" && _tag !== "Decided") + 1
  const given = items.slice(from, spoken).flatMap((item) => (item._tag === "Given" ? [item] : []))
  const results = given.flatMap(({ call, item, path }) =>
    Option.toArray(
      Option.map(taskOf(call), (task_id) => ({ path: `${path}.output`, task_id, content: item["output"] ?? null }))
    )
  )
  const called = items.slice(items.slice(0, from).findLastIndex(({ _tag }) => _tag !== "Called") + 1, from)
  const calls = called.flatMap((item) => (item._tag === "Called" ? Option.toArray(taskOf(item.call)) : []))
  if (results.length + calls.length === 0 || results.length < given.length) return undefined
  const texts = items.slice(spoken).flatMap((item) => (item._tag === "Message" ? [textOf(item.message)] : []))
  return { path: "input", results, calls, texts: texts.filter((text) => text.trim() !== "") }
}

/** What a list of items asks. Fails with everything that is wrong with it. */
const readItems = (items: ReadonlyArray<Json>): Result.Result<Asked, ReadonlyArray<Issue>> => {
  const results = items.map(readItem)
  const issues = results.flatMap((result) => (Result.isFailure(result) ? result.failure : []))
  const read = results.flatMap((result) => (Result.isSuccess(result) ? [result.success] : []))
  const spoken = read.filter((item) => item._tag !== "LeftOut")
  const last = spoken.at(-1)
  const asks = last?._tag === "Message" && last.message.role === "user"
  if (issues.length === 0 && !asks && last?._tag !== "Decided" && last?._tag !== "Given") issues.push(noQuestion)
  if (issues.length > 0) return Result.fail(issues)
  const brought = broughtBy(spoken)
  const isQuestion = (item: Read) => item._tag === "Message" && item.message.role === "user"
  const asked = last?._tag === "Decided" ? -1 : spoken.findLastIndex(isQuestion)
  const question = spoken[asked]
  if (question === undefined && brought === undefined && last?._tag === "Given") return Result.fail([noQuestion])
  const others = spoken.filter((_, index) => index !== asked)
  const said = others.flatMap((item) =>
    "message" in item ? [{ role: item.message.role, content: textOf(item.message) }] : []
  )
  return Result.succeed({
    question: question?._tag === "Message" ? textOf(question.message) : undefined,
    history: said.flatMap(({ content, role }) =>
      (role === "user" || role === "assistant") && content.trim() !== "" ? [{ role, content }] : []
    ),
    instructions: said.flatMap(({ content, role }) =>
      (role === "system" || role === "developer") && content.trim() !== "" ? [content.trim()] : []
    ),
    decided: spoken.flatMap((item) => (item._tag === "Decided" ? [item.decided] : [])),
    brought,
    items: spoken.map(({ item }) => item),
    ignored: [...new Set(read.flatMap((item) => (item._tag === "LeftOut" ? [`input[].${item.type}`] : [])))]
  })
}

/** What the input of a request asks. Fails with everything that is wrong with it, item by item. */
export const read = (input: typeof Input.Type): Result.Result<Asked, ReadonlyArray<Issue>> =>
  typeof input === "string" ? readItems([{ role: "user", content: input }]) : readItems(input)
