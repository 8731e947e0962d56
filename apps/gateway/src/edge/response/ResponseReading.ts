import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import type { ClientResults } from "../leg/ClientResults.ts"
import { comesAgain, type OpenAiPlans } from "../openai/OpenAiPlans.ts"
import * as ApprovalResponses from "./ApprovalResponses.ts"
import * as ItemReferences from "./ItemReferences.ts"
import * as PreviousResponse from "./PreviousResponse.ts"
import type { ResponseRequest } from "./ResponseRequest.ts"
import * as ResponseStart from "./ResponseStart.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** Finds the plan that a request brings something to, or starts one, and reads it. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans, results: ClientResults) {
  const plans = yield* Plans
  const sessions = yield* SessionStore
  const streams = yield* PlanStreams
  const start = yield* ResponseStart.make(stored, openAi)
  const decide = ApprovalResponses.make(plans)

  const previousOf = yield* PreviousResponse.make(stored)

  /** A conversation that a client has begun, and deleted, does not begin anew. */
  const expectConversation = (caller: CallerName, name = "") =>
    /^conv_[0-9a-f-]{36}$/.test(name)
      ? Effect.catchTag(sessions.find(caller, name), "NotFound", () =>
          Effect.fail(ItemReferences.missing("conversation", "conversation"))
        )
      : Effect.void

  /** The plan to which the caller has brought something: what follows is a response of its own. */
  const join = Effect.fnUntraced(function* (caller: CallerName, plan_id: PlanId, calls: ReadonlySet<TaskId>) {
    const { echo, events } = yield* stored.told(caller, { plan_id, leg: 1 })
    const leg = events.legBehind(calls)
    const reading = yield* streams.read(caller, plan_id, 0)
    const headers = {
      "x-bowline-plan-id": plan_id,
      "x-bowline-session": reading.session_id
    }
    return { ...reading, leg, echo, headers }
  })

  /** Gives results to the plan that waits for them. Undefined if none does. */
  const resume = Effect.fnUntraced(function* (
    caller: CallerName,
    asked: ResponseRequest,
    previous: PlanId | undefined,
    isAgain: boolean
  ) {
    const { brought, request } = asked
    if (brought === undefined) return undefined
    const [first] = brought.results
    // Results alone are no question: what follows the response that made the calls is the one that they have made before.
    const comesAgain = isAgain || (previous !== undefined && request === undefined)
    const plan = yield* results.resume(caller, brought, { isAgain: comesAgain, of: previous, renamed: asked.renamed })
    if (plan === undefined) {
      if (request !== undefined) return undefined
      return yield* ItemReferences.missing(first?.path ?? brought.path, "call that waits")
    }
    const { calls } = yield* decide(caller, asked, plan.plan_id)
    const tasks = new Set([...calls, ...brought.results.map(({ task_id }) => task_id)])
    return { ...(yield* join(caller, plan.plan_id, tasks)), calls: tasks }
  })

  /** How the plan of a request is read, and the calls that were decided about with it. */
  return Effect.fnUntraced(function* (caller: CallerName, asked: ResponseRequest, sent: ResponseStart.Sent) {
    const { request } = asked
    const previous =
      asked.previous === undefined
        ? undefined
        : yield* previousOf(caller, asked.previous, request !== undefined && asked.brought === undefined)
    const resumed = yield* resume(caller, asked, previous?.plan_id, comesAgain(sent.headers))
    if (resumed !== undefined) return resumed
    const { calls, ignored, plan_id } = yield* decide(caller, asked, previous?.plan_id)
    if (request !== undefined) {
      yield* expectConversation(caller, request.session_id)
      const question = { ...request, ...PreviousResponse.sessionOf(previous) }
      // One that is not over has its history still before it: the response waits for it in its session.
      const follows = previous !== undefined && isSettled(previous) ? previous : undefined
      if (previous !== undefined && follows === undefined) yield* results.expect(caller, previous.plan_id, "input")
      const following = { ...asked, follows, ignored: [...asked.ignored, ...ignored] }
      const reading = yield* start(caller, following, question, sent)
      return { ...reading, calls }
    }
    if (plan_id === undefined) return yield* Effect.die("The request neither asks nor decides")
    return { ...(yield* join(caller, plan_id, calls)), calls }
  })
})
