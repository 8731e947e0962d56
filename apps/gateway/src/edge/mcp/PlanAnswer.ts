import type { PendingApproval } from "@bowline/domain/plan/Approval"
import { Failure, Final } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { Usage } from "@bowline/domain/plan/Usage"
import { SessionId } from "@bowline/domain/session/Session"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { problems } from "@bowline/protocol/unstable/api/Problem"
import type { PlanResult } from "@bowline/protocol/unstable/plan/PlansApi"
import { isImageType } from "@bowline/runtime/unstable/provider/FileText"
import { Schema } from "effect"
import type { Refused } from "../../http/Refusals.ts"
import type { ShownFiles } from "../../http/ShownFiles.ts"

/** What the resources are called that are files. */
export const filesUri = "bowline://files/"

/** What a tool says of a plan. `text` is the answer, or what the client can do now. */
export const PlanAnswer = Schema.Struct({
  plan_id: PlanId,
  session_id: SessionId,
  state: Schema.Literals(["running", "input-required", "completed", "failed", "aborted"]),
  text: Schema.String,
  output: Schema.optionalKey(Schema.Json),
  stop_reason: Schema.optionalKey(Final.fields.stop_reason),
  code: Schema.optionalKey(Schema.String),
  retryable: Schema.optionalKey(Schema.Boolean),
  reason: Failure.fields.reason,
  approval: Schema.optionalKey(
    Schema.Struct({ task_id: Schema.String, tool: Schema.String, input: Schema.Json, expires_at: Schema.String })
  ),
  usage: Usage
})
export type PlanAnswer = typeof PlanAnswer.Type

type Content =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly data: string; readonly mimeType: string }
  | { readonly type: "resource_link"; readonly uri: string; readonly name: string; readonly mimeType: string }

/** The result of a tool in MCP. */
export interface ToolResult {
  readonly content: ReadonlyArray<Content>
  readonly structuredContent?: PlanAnswer
  readonly isError: boolean
}

const texts = (value: object): ToolResult["content"] => [{ type: "text", text: JSON.stringify(value) }]

/** The files of tools as parts of a result: images are in it, and other files are resources that the client may read. */
export const contentOf = (events: ReadonlyArray<PlanEvent>, files: ShownFiles): ToolResult["content"] => {
  const content = new Map<FileId, ToolResult["content"][number]>()
  for (const event of events) {
    if (event.event !== "task.artifact" || event.data.file_id === undefined) continue
    const { file_id, media_type: mimeType, name = "file" } = event.data
    const file = files.of(file_id)
    const isShown = file !== undefined && "data" in file && isImageType(mimeType)
    content.set(
      file_id,
      isShown
        ? { type: "image", data: file.data, mimeType }
        : { type: "resource_link", uri: `${filesUri}${file_id}`, name, mimeType }
    )
  }
  return Array.from(content.values())
}

/** The answer as text and as it is, and the files of its tools. Also a plan that ended badly has one: its client sees `isError`. */
export const toResult = (answer: PlanAnswer, files: ToolResult["content"] = []): ToolResult => ({
  content: [...texts(answer), ...files],
  structuredContent: answer,
  isError: answer.state === "failed" || answer.state === "aborted"
})

const goOn = (plan_id: PlanId): string =>
  `The plan still runs: call plan_result with {"plan_id":"${plan_id}"} to wait for its answer, or plan_cancel to end it.`

const answerIt = (plan_id: PlanId): string =>
  `The plan waits for somebody: GET /waiting says for what, and POST /plans/${plan_id}/inbox takes the answer. ` +
  `Then call plan_result with {"plan_id":"${plan_id}"}.`

/** A plan that is over, that waits for an answer or for the result of a tool of its client, or that still runs. */
export const fromPlan = (
  { error, final, plan_id, session_id, state, usage }: PlanResult,
  isWaiting = false
): PlanAnswer => {
  const ids = { plan_id, session_id }
  if (final !== undefined) {
    const { output, stop_reason, text } = final
    return { ...ids, state: "completed", text, ...(output !== undefined && { output }), stop_reason, usage }
  }
  if (error === undefined) {
    return isWaiting
      ? { ...ids, state: "input-required", text: answerIt(plan_id), usage }
      : { ...ids, state: "running", text: goOn(plan_id), usage }
  }
  const { code, message, reason, retryable } = error
  const why = { code, retryable, ...(reason !== undefined && { reason }) }
  return { ...ids, state: state === "aborted" ? "aborted" : "failed", text: message, ...why, usage }
}

/** A plan that waits for a decision, which the client makes by the gateway's own route. */
export const fromApproval = (
  { expires_at, input, plan_id, session_id, task_id, tool }: PendingApproval,
  usage: Usage
): PlanAnswer => ({
  plan_id,
  session_id,
  state: "input-required",
  text:
    `The call of ${tool} waits for a person's decision: POST /plans/${plan_id}/approvals/${task_id} ` +
    `with {"decision":"approve"} or {"decision":"reject"}. Then call plan_result with {"plan_id":"${plan_id}"}.`,
  approval: { task_id, tool, input, expires_at },
  usage
})

/** A call that started nothing: the model reads what it can mend. */
export const fromRefused = ({ code, detail, issues, plan_id }: Refused): ToolResult => {
  const { retryable } = problems[code]
  const named = { ...(issues !== undefined && { issues }), ...(plan_id !== undefined && { plan_id }) }
  return { content: texts({ error: { code, retryable, message: detail, ...named } }), isError: true }
}
