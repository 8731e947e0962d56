import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import { Option, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { ShownFile } from "../../http/ShownFiles.ts"
import { callId } from "../leg/ClientResults.ts"

/** Ids are made of the plan's, so that nothing has to be kept to find the plan again. */
const uuidOf = (plan: PlanId): string => plan.slice("plan_".length)

/** What of a plan a response shows: a leg, from 1. */
export interface ResponseRef {
  readonly plan_id: PlanId
  readonly leg: number
}

export const responseId = ({ leg, plan_id }: ResponseRef): string =>
  leg === 1 ? `resp_${plan_id}` : `resp_${plan_id}_${leg}`
export const textId = (kind: Text["kind"], plan: PlanId, index: number): string =>
  `${kind === "message" ? "msg" : "rs"}_${uuidOf(plan)}_${index}`
export const inputId = (plan: PlanId, index: number): string => `msg_${uuidOf(plan)}_in${index}`
export const approvalRequestId = (plan: PlanId, task: TaskId): string => `mcpr_${uuidOf(plan)}_${task}`

const decodePlanId = Schema.decodeUnknownOption(PlanId)
const decodeApproval = Schema.decodeUnknownOption(Schema.Struct({ plan_id: PlanId, task_id: TaskId }))

/** What the id of a response stands for. */
export const refOf = (id: string): Option.Option<ResponseRef> => {
  const [, plan = "", leg = "1"] = /^resp_(plan_[^_]+)(?:_([2-9]|[1-9]\d{1,5}))?$/.exec(id) ?? []
  return Option.map(decodePlanId(plan), (plan_id) => ({ plan_id, leg: Number(leg) }))
}

/** The plan whose text this is the id of: of an answer, or of an item that was asked. */
export const planOfText = (id: string): Option.Option<PlanId> => {
  const [, plan = ""] = /^msg_([^_]+)_(?:in)?\d+$/.exec(id) ?? []
  return decodePlanId(`plan_${plan}`)
}

/** The call that an approval request is about. */
export const approvalOf = (id: string) => {
  const [, plan = "", task = ""] = /^mcpr_([0-9a-f-]{36})_(.+)$/.exec(id) ?? []
  return decodeApproval({ plan_id: `plan_${plan}`, task_id: task })
}

/** Text that comes in deltas: an answer, or reasoning. */
export interface Text {
  readonly kind: "message" | "reasoning"
  readonly id: string
  readonly index: number
  text: string
}

type Status = "in_progress" | "completed" | "incomplete"

interface MessageItem {
  readonly id: string
  readonly type: "message"
  readonly role: "assistant"
  readonly status: Status
  readonly content: ReadonlyArray<object>
  readonly phase?: Phase
}

interface ReasoningItem {
  readonly id: string
  readonly type: "reasoning"
  readonly status: Status
  readonly summary: ReadonlyArray<object>
}

/** A call of a tool. */
export interface Call {
  readonly id: string
  readonly type: "mcp_call"
  readonly server_label: string
  readonly name: string
  readonly arguments: string
  readonly status: "in_progress" | "completed" | "failed"
  readonly output: string | null
  readonly error: object | null
  readonly approval_request_id: string | null
}

interface ApprovalRequest {
  readonly id: string
  readonly type: "mcp_approval_request"
  readonly server_label: string
  readonly name: string
  readonly arguments: string
}

/** A call that the client has to make. */
interface FunctionCall {
  readonly id: string
  readonly type: "function_call"
  readonly call_id: string
  readonly name: string
  readonly arguments: string
  readonly status: "in_progress" | "completed"
}

/** An image that a tool has given, in base64: null if it is gone, or too large. */
interface ImageItem {
  readonly id: string
  readonly type: "image_generation_call"
  readonly status: "completed"
  readonly result: string | null
}

/** An item of the output of a response. */
export type Item = MessageItem | ReasoningItem | Call | ApprovalRequest | FunctionCall | ImageItem

/** Text before calls of tools is a comment; only the last text is the answer. */
export type Phase = "commentary" | "final_answer"

/** The one part of a text. */
export const partOf = ({ kind, text }: Pick<Text, "kind" | "text">) =>
  kind === "message"
    ? { type: "output_text" as const, text, annotations: [], logprobs: [] }
    : { type: "summary_text" as const, text }

export const textItem = (text: Text, status: Status, phase?: Phase): Item => {
  const { id, kind } = text
  const parts = status === "in_progress" && text.text === "" ? [] : [partOf(text)]
  return kind === "message"
    ? { id, type: kind, role: "assistant", status, content: parts, ...(phase !== undefined && { phase }) }
    : { id, type: kind, status, summary: parts }
}

type Data<Name extends PlanEvent["event"]> = Extract<PlanEvent, { readonly event: Name }>["data"]

/** What a tool belongs to that is no agent's and no MCP server's. */
const ownLabel = "bowline"

export const startedCall = (
  { agent, input, skill, task_id, tool }: Data<"task.started">,
  approval_request_id: string | null
): Call => ({
  id: `mcp_${task_id}`,
  type: "mcp_call",
  server_label: agent ?? ownLabel,
  name: skill ?? tool,
  arguments: JSON.stringify(input),
  status: "in_progress",
  output: null,
  error: null,
  approval_request_id
})

export const finishedCall = (
  call: Call,
  { error, state }: Data<"task.finished">,
  artifacts: ReadonlyArray<Data<"task.artifact">["content"]>
): Call => {
  const output =
    artifacts.length === 0
      ? null
      : artifacts.map((content) => (typeof content === "string" ? content : JSON.stringify(content))).join("\n\n")
  if (state === "completed") return { ...call, status: "completed", output: output ?? "" }
  const { code, message } = error ?? { code: state, message: `The call ended as ${state}` }
  return { ...call, status: "failed", output, error: executionError(code, message) }
}

const executionError = (code: string, message: string) => ({
  type: "mcp_tool_execution_error",
  code,
  message,
  content: [{ type: "text", text: message }]
})

/** The name of a tool is that of its agent or server, and its own: `<label>_<name>`. */
const split = (tool: string, labels: ReadonlyArray<string>) => {
  const prefixOf = (label: string) => `${label.replaceAll(/[^A-Za-z0-9_-]/g, "_")}_`
  const [server_label] = labels.filter((label) => tool.startsWith(prefixOf(label))).sort((a, b) => b.length - a.length)
  return server_label === undefined
    ? { server_label: ownLabel, name: tool }
    : { server_label, name: tool.slice(prefixOf(server_label).length) }
}

/** A call of a history, with what the model has read of its result, if it has one. */
export const callItem = (
  { input, task_id, tool }: Pick<ToolCallPart, "input" | "task_id" | "tool">,
  result: Pick<ToolResultPart, "content" | "state"> | undefined,
  labels: ReadonlyArray<string>
): Call => {
  const isGood = result === undefined || result.state === "completed"
  const message = `The call ended as ${result?.state}`
  return {
    id: `mcp_${task_id}`,
    type: "mcp_call",
    ...split(tool, labels),
    arguments: JSON.stringify(input),
    status: isGood ? "completed" : "failed",
    output: result?.content ?? null,
    error: isGood ? null : executionError(result.state, message),
    approval_request_id: null
  }
}

/** What stands in place of messages that were summarised. Clients give it back as it is: `encrypted_content` is the summary in base64url. */
export const compactionItem = (plan: PlanId, summary: string) => ({
  id: `cmp_${uuidOf(plan)}`,
  type: "compaction" as const,
  encrypted_content: Base64Url.encode(summary)
})

/** A call that waits for a decision. */
export const approvalRequest = (
  plan: PlanId,
  { input, task_id, tool }: Data<"approval.requested">,
  labels: ReadonlyArray<string>
): ApprovalRequest => ({
  id: approvalRequestId(plan, task_id),
  type: "mcp_approval_request",
  ...split(tool, labels),
  arguments: JSON.stringify(input)
})

export const imageItem = ({ task_id }: Data<"task.artifact">, index: number, file: ShownFile | undefined): Item => ({
  id: `ig_${task_id}_${index}`,
  type: "image_generation_call",
  status: "completed",
  result: file !== undefined && "data" in file ? file.data : null
})

export const functionCall = (task_id: TaskId, tool: string, input: Schema.Json): FunctionCall => ({
  id: `fc_${task_id}`,
  type: "function_call",
  call_id: callId(task_id),
  name: tool,
  arguments: JSON.stringify(input),
  status: "completed"
})
