import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type Plan, PlanId } from "@bowline/domain/plan/Plan"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, Predicate, Schema } from "effect"
import { resultOf } from "../../http/JsonAnswer.ts"
import type { Refusal } from "../../http/Refusals.ts"
import * as Elicitation from "./Elicitation.ts"
import { code, type Params, RpcError } from "./RpcMessage.ts"
import * as PlanAnswer from "./PlanAnswer.ts"
import type * as PlanCalls from "./PlanCalls.ts"
import type { Spoken } from "./Revision.ts"

/** The extension that brings tasks to 2026-07-28. */
export const extension = "io.modelcontextprotocol/tasks"

/** How long a client is to wait before it asks for a task again, in milliseconds. */
const pollIntervalMs = 1_000

/** Whether the client of a request takes a task instead of a result. */
export const areWanted = ({ capabilities: { extensions } }: Spoken): boolean =>
  Predicate.isReadonlyObject(extensions) && extension in extensions

const undeclared = new RpcError({
  code: code.missingCapability,
  status: 400,
  message: `Expected a client that declares the extension ${extension}`,
  data: { requiredCapabilities: { extensions: { [extension]: {} } } }
})

const unknownTask = new RpcError({
  code: code.invalidParams,
  status: 200,
  message: "Wrong: params.taskId. There is no such task"
})

const isPlanId = Schema.is(PlanId)

const statusOf = ({ error, stage, ...plan }: Plan): string => {
  if (!isSettled(plan)) return stage === "approval" || stage === "client" ? "input_required" : "working"
  // `failed` is for calls that the protocol could not make.
  return error?.reason === "cancelled" ? "cancelled" : "completed"
}

/** A plan that was handed out as a task: the id of the one is that of the other. */
const describe = (plan: Plan) =>
  Effect.map(Clock.currentTimeMillis, (now) => ({
    taskId: plan.plan_id,
    status: statusOf(plan),
    createdAt: plan.created_at,
    lastUpdatedAt: plan.finished_at ?? fromMillis(now),
    ttlMs: null,
    pollIntervalMs
  }))

/** What a client of tasks is answered. Nothing of a task is kept but its plan. */
export const make = ({ approvalOf, filesOf, plans }: Effect.Success<typeof PlanCalls.make>) => {
  /** What the task waits for, where the client can ask its user. */
  const inputOf = (caller: CallerName, { plan_id }: Plan, { capabilities }: Spoken) =>
    Elicitation.canAsk(capabilities)
      ? Effect.map(approvalOf(caller, plan_id), (approval) =>
          approval === undefined ? {} : { inputRequests: { [approval.task_id]: Elicitation.requestOf(approval) } }
        )
      : Effect.succeed({})

  const get = Effect.fnUntraced(function* (caller: CallerName, id: PlanId, spoken: Spoken) {
    const plan = yield* plans.get(caller, id)
    const task = yield* describe(plan)
    if (task.status === "input_required") return { ...task, ...(yield* inputOf(caller, plan, spoken)) }
    if (task.status !== "completed") return task
    const result = PlanAnswer.toResult(PlanAnswer.fromPlan(resultOf(plan)), yield* filesOf(caller, id))
    return { ...task, result: { resultType: "complete", ...result } }
  })

  /** Takes what the client's user has said. What waits no longer, or is decided otherwise, stays as it is. */
  const update = Effect.fnUntraced(function* (caller: CallerName, id: PlanId, { inputResponses }: Params) {
    yield* plans.get(caller, id)
    const pending = yield* approvalOf(caller, id)
    if (pending === undefined) return {}
    const decision = Elicitation.decisionOf(inputResponses, pending.task_id)
    if (decision instanceof RpcError) return yield* decision
    if (decision !== undefined) {
      yield* Effect.catchTag(
        plans.decide({ caller, isAdmin: false }, pending, decision),
        "ApprovalConflict",
        () => Effect.void
      )
    }
    return {}
  })

  const answers: Readonly<
    Record<
      string,
      (caller: CallerName, id: PlanId, params: Params, spoken: Spoken) => Effect.Effect<object, Refusal | RpcError>
    >
  > = {
    "tasks/get": (caller, id, _, spoken) => get(caller, id, spoken),
    "tasks/update": (caller, id, params) => update(caller, id, params),
    "tasks/cancel": (caller, id) => Effect.as(plans.cancel(caller, id), {})
  }

  return {
    /** A plan that runs on, as the result of the call that has started it. */
    created: (caller: CallerName, id: PlanId) =>
      Effect.map(Effect.flatMap(plans.get(caller, id), describe), (task) => ({ resultType: "task", ...task })),

    /** Answers a method of tasks; undefined if it is none. */
    serve: (
      caller: CallerName,
      method: string,
      params: Params,
      spoken: Spoken
    ): Effect.Effect<object, Refusal | RpcError> | undefined => {
      const answer = Object.hasOwn(answers, method) ? answers[method] : undefined
      if (answer === undefined) return undefined
      if (!areWanted(spoken)) return Effect.fail(undeclared)
      const { taskId } = params
      if (!isPlanId(taskId)) return Effect.fail(unknownTask)
      return Effect.catchTag(answer(caller, taskId, params, spoken), "NotFound", () => Effect.fail(unknownTask))
    }
  }
}
