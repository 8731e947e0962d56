import { type Decision, type PendingApproval } from "@bowline/domain/plan/Approval"
import { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { WaitId } from "@bowline/runtime/unstable/store/InboxStore"
import { Option, Predicate, Schema } from "effect"
import { code, type Params, RpcError } from "./RpcMessage.ts"

/** What a person has said about a call of a plan that waits for it. Without a decision it still waits. */
export interface Answered {
  readonly approval: WaitId
  readonly decision: Decision | undefined
}

/** The client brings it back unread, so nothing is kept meanwhile. Whoever changes it still sees the own plans only. */
const State = Schema.fromJsonString(Schema.Struct({ plan_id: PlanId, task_id: TaskId }))
const decodeState = Schema.decodeUnknownOption(State)
const encodeState = Schema.encodeSync(State)

const Reply = Schema.Union([
  Schema.Struct({
    action: Schema.Literal("accept"),
    content: Schema.Struct({
      decision: Schema.Literals(["approve", "reject"]),
      note: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(4_096)))
    })
  }),
  Schema.Struct({ action: Schema.Literals(["decline", "cancel"]) })
])
const decodeReply = Schema.decodeUnknownOption(Reply)

/** Whether the client can ask its user to fill in a form. One that does not say which kind it can means forms. */
export const canAsk = ({ elicitation }: Params): boolean =>
  Predicate.isReadonlyObject(elicitation) && ("form" in elicitation || Object.keys(elicitation).length === 0)

const requestedSchema = {
  type: "object",
  properties: {
    decision: { type: "string", title: "Decision", enum: ["approve", "reject"] },
    note: { type: "string", title: "Note for the planner", maxLength: 4_096 }
  },
  required: ["decision"]
}

/** A question to the client's user: what to do with a call that waits. */
export const requestOf = ({ expires_at, input, tool }: PendingApproval) => ({
  method: "elicitation/create",
  params: {
    mode: "form",
    message: `${tool} is to be called with ${JSON.stringify(input)}. It waits for your decision until ${expires_at}.`,
    requestedSchema
  }
})

/** Asks the client's user about a call. The client makes the same request again, with the answer. */
export const inputRequired = (approval: PendingApproval) => ({
  resultType: "input_required",
  inputRequests: { [approval.task_id]: requestOf(approval) },
  requestState: encodeState({ plan_id: approval.plan_id, task_id: approval.task_id })
})

const wrong = (message: string) => new RpcError({ code: code.invalidParams, status: 200, message })

/** What the client's user has decided about a call. A form that is dismissed decides nothing. */
export const decisionOf = (inputResponses: unknown, task: TaskId): Decision | RpcError | undefined => {
  const given = Predicate.hasProperty(inputResponses, task) ? inputResponses[task] : undefined
  const reply = Option.getOrUndefined(decodeReply(given))
  if (reply === undefined) {
    return wrong(
      `Wrong: params.inputResponses.${task}. Expected {action, content: {decision: "approve" or "reject", note?}}`
    )
  }
  if (reply.action === "accept") return reply.content
  return reply.action === "decline" ? { decision: "reject" } : undefined
}

/** The answer that a repeated request brings; undefined if the request is the first one. */
export const answered = ({ inputResponses, requestState }: Params): Answered | RpcError | undefined => {
  if (requestState === undefined) return undefined
  const approval = Option.getOrUndefined(decodeState(requestState))
  if (approval === undefined) return wrong("Wrong: params.requestState. Expected the one of the gateway's answer")
  const decision = decisionOf(inputResponses, approval.task_id)
  return decision instanceof RpcError ? decision : { approval, decision }
}
