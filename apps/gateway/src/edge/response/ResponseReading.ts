import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { Effect } from "effect"
import type { ClientResults } from "../leg/ClientResults.ts"
import { comesAgain, type OpenAiPlans } from "../openai/OpenAiPlans.ts"
import * as ApprovalResponses from "./ApprovalResponses.ts"
import * as ItemReferences from "./ItemReferences.ts"
import { refOf } from "./ResponseItems.ts"
import type { ResponseRequest } from "./ResponseRequest.ts"
import * as ResponseStart from "./ResponseStart.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** The session of the response that a request follows. */
const sessionOf = (previous: Pick<Plan, "session_id" | "external_session_id"> | undefined) =>
  previous === undefined
    ? {}
    : { session_id: previous.external_session_id ?? ExternalSessionId.make(previous.session_id) }

/** Finds the plan that a request brings something to, or starts one, and reads it. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans, results: ClientResults) {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const start = yield* ResponseStart.make(stored, openAi)
  const decide = ApprovalResponses.make(plans)

  /** The plan of the response that a request follows. One that is not stored can be decided about; its session is about to go. */
  const previousOf = Effect.fnUntraced(
    function* (caller: CallerName, id: string, asks: boolean) {
      const { plan_id } = yield* Effect.fromOption(refOf(id), () => new NotFound({ what: "response" }))
      const { store } = yield* stored.echo(caller, plan_id)
      if (asks && !store) return yield* new NotFound({ what: "response" })
      return yield* plans.get(caller, plan_id)
    },
    Effect.catchTag("NotFound", () => Effect.fail(ItemReferences.missing("previous_response_id", "response")))
  )

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
      const question = { ...request, ...sessionOf(previous) }
      const reading = yield* start(caller, { ...asked, ignored: [...asked.ignored, ...ignored] }, question, sent)
      return { ...reading, calls }
    }
    if (plan_id === undefined) return yield* Effect.die("The request neither asks nor decides")
    return { ...(yield* join(caller, plan_id, calls)), calls }
  })
})
