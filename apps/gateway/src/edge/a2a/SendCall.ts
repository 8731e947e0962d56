import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import { decodeMessage, type SentMessage } from "@bowline/a2a/unstable/server/SentMessage"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Decision } from "@bowline/domain/plan/Approval"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import { isOver } from "@bowline/runtime/unstable/store/TaskStore"
import { isEnded } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Option, Result, Schema, Stream, Struct } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Refused } from "../../http/Refusals.ts"
import { answer, type Senders } from "./AnswerCall.ts"
import type { Binding } from "./Binding.ts"
import type { PushCalls } from "./PushCalls.ts"
import { decodeParams, taskId, withHistory } from "./TaskCalls.ts"
import * as TaskEvents from "./TaskEvents.ts"
import { follow } from "./TaskFollower.ts"
import { notFound, open, type OpenTask, placeBehind, type Services } from "./TaskReader.ts"
import { check, hasFiles, textsOf, toPlan, unsupported } from "./TaskRequest.ts"

/** A message, and who sent it how. */
export interface Sending {
  readonly caller: CallerName
  readonly preset: string | undefined
  readonly route: Route
  readonly params: unknown
  readonly request: HttpServerRequest.HttpServerRequest
}

const decodeDecision = Schema.decodeUnknownResult(Decision, { errors: "all" })
const isTaskId = Schema.is(TaskId)

/** The decision of a message about a call that waits. Only data can approve: whatever is said in text is a rejection. */
const decisionOf = (message: SentMessage): Result.Result<Decision, A2aError> => {
  const said = textsOf(message)
  if (said.length > 0)
    return Result.succeed({ decision: "reject", note: said.join("\n\n").slice(0, 4_096).toWellFormed() })
  const [part, ...others] = message.parts
  if (part?._tag !== "Data" || others.length > 0) {
    return Result.fail(
      invalidParams([{ path: "message.parts", message: "Expected one part, with the decision as its data" }])
    )
  }
  return Result.mapError(decodeDecision(part.data), (error) =>
    invalidParams(
      fromSchema(error).map(({ message, path }) => ({
        path: `message.parts[0].data${path === "" ? "" : `.${path}`}`,
        message
      }))
    )
  )
}

/** Decides about the call that has waited for the longest time, and gives the task as it is behind that. */
const decide = Effect.fnUntraced(function* (
  services: Services,
  { caller, fold, plan, task }: OpenTask,
  message: SentMessage
) {
  const decision = yield* Effect.fromResult(decisionOf(message))
  const [call] = fold.approvals
  if (!isTaskId(call)) return yield* open(services, caller, task, {})
  const decider = { caller, isAdmin: false }
  yield* services.plans
    .decide(decider, { plan_id: plan.plan.plan_id, task_id: call }, decision)
    .pipe(
      Effect.catchTag("ApprovalConflict", ({ message }) =>
        Effect.fail(new A2aError({ error: "UnsupportedOperation", message }))
      )
    )
  return yield* open(services, caller, task, { decided: [call] })
})

/** The task that the message continues, if it names one that takes it. */
const find = Effect.fnUntraced(function* (
  services: Services,
  caller: CallerName,
  { contextId, taskId: id }: SentMessage
) {
  if (id === undefined) return undefined
  const opened = yield* open(services, caller, yield* taskId(id), {})
  const { external_session_id, session_id } = opened.plan.plan
  if (contextId !== undefined && contextId !== external_session_id && contextId !== session_id) {
    return yield* invalidParams([{ path: "message.contextId", message: "Expected the context of the task" }])
  }
  if (isOver(opened.fold.standing)) {
    const message = `The task is over: it is ${opened.fold.standing}. A message without a taskId begins another one`
    return yield* new A2aError({ error: "UnsupportedOperation", message })
  }
  return opened
})

/** Whether the task waits for a decision or an answer of its client: the message is that, and no question. */
const takesNoFiles = ({ fold: { approvals, asks } }: OpenTask): boolean =>
  approvals.length > 0 || asks.some(({ kind }) => kind === "answer")

/** What is the same of a message that comes again. */
const contentOf = Struct.pick<SentMessage, ["parts", "metadata", "taskId", "contextId"]>([
  "parts",
  "metadata",
  "taskId",
  "contextId"
])

/** Starts the plan that answers the message, and gives its task. */
const start = Effect.fnUntraced(function* (
  services: Senders,
  { caller, preset, route }: Sending,
  message: SentMessage,
  continued: OpenTask | undefined
) {
  const session = continued?.plan.plan.session_id ?? message.contextId
  const { isIdempotent, refusalOf, sentOf, ...asked } = yield* Effect.fromResult(
    toPlan(message, { preset, session, task: continued?.task })
  )
  const key = isIdempotent ? idempotency(`A2A ${message.messageId}`, contentOf(message)) : undefined
  const started = yield* services.takeRequest(caller, asked.request).pipe(
    Effect.flatMap((request) => {
      const sent = sentOf(request)
      const said = { caller, request, route, idempotency: key }
      return services.streams.start({ ...said, ...(sent !== undefined && { sent }) })
    }),
    Effect.catchTags({
      InvalidRequest: (refusal) => Effect.fail(refusalOf(refusal)),
      // A repeated message, whose plan ended long ago: its task is read from rows, which outlive the events.
      EventsExpired: (expired) => Effect.succeed(expired),
      IdempotencyConflict: () =>
        Effect.fail(
          invalidParams([
            { path: "message.messageId", message: "Expected the content that it came with before, or another id" }
          ])
        )
    })
  )
  const task: PlanId = continued?.task ?? started.plan_id
  return yield* open(services, caller, task, {})
})

/** Sends a message: into a plan, or as the decision that the task waits for. The plan runs on when its client leaves. */
export const send = Effect.fnUntraced(function* (
  services: Senders,
  push: PushCalls,
  binding: Binding,
  sending: Sending,
  isStreamed: boolean
) {
  const message = yield* decodeParams(decodeMessage[binding.wire](sending.params))
  if (message.push !== undefined) yield* push.check
  yield* Effect.fromResult(check(message))
  const continued = yield* find(services, sending.caller, message)
  if (hasFiles(message) && continued !== undefined && takesNoFiles(continued)) {
    return yield* unsupported("Expected text or data: the call that waits takes no files")
  }
  // Of a task that exists, whether it takes another place is known before anything is started.
  if (continued !== undefined)
    yield* push.addOf(sending.caller, binding, message, continued.task, placeBehind(continued))
  const answered = continued === undefined ? undefined : yield* answer(services, continued, message)
  const opened =
    answered ??
    (continued !== undefined && continued.fold.approvals.length > 0
      ? yield* decide(services, continued, message)
      : yield* start(services, sending, message, continued))
  if (continued === undefined) {
    yield* push.addOf(sending.caller, binding, message, opened.task, { plan: 0, seq: 0 })
  }
  if (isStreamed)
    return {
      _tag: "Stream" as const,
      response: yield* TaskEvents.respond(services, binding, opened, sending.request, {
        comesBack: false,
        isPatient: false
      })
    }
  if (message.waits) {
    const ended = yield* Stream.runLast(Stream.filter(follow(services, opened), isEnded))
    if (Option.contains(ended, "Gone")) return yield* notFound(opened.task)
    if (Option.contains(ended, "Draining")) {
      const detail = "The gateway shuts down before the task is over: get it by its id"
      return yield* new Refused({ code: "draining", detail, plan_id: opened.task })
    }
  }
  return { _tag: "Task" as const, task: binding.json.sent(withHistory(opened.fold.task, message.historyLength)) }
})
