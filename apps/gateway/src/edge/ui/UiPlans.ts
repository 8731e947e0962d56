import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Schema } from "effect"
import { invalid } from "../../http/Refusals.ts"
import * as ToldHistory from "../question/ToldHistory.ts"
import * as UiLegs from "./UiLegs.ts"
import type { Decided, UiRequest } from "./UiRequest.ts"

/** What is kept of a question beside its plan: the id that the client has given it. */
type Echo = { readonly type: "ui"; readonly message_id: string }

const isTaskId = Schema.is(TaskId)

/** How many of a chat's plans are looked at, the newest first. */
const maxPlans = 50

/** How often a question is said to a plan that hears others at the same time. */
const maxTries = 10

interface Asking extends Pick<UiRequest, "named" | "renamed" | "tools"> {
  readonly caller: CallerName
  readonly request: AskRequest
  readonly route: Route
  /** The client's id of the question. */
  readonly messageId?: string
  /** The question takes the place of what was asked under its id before, as it is accepted. */
  readonly isAgain?: boolean
}

/** Starts plans for UI libraries, finds those of a chat, and passes on what their users decide. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const follower = yield* PlanFollower
  const legs = yield* UiLegs.make
  const startTold = yield* ToldHistory.make

  /** The plans of a chat, the newest first. A chat in which nobody has asked yet has none. */
  const plansOf = (caller: CallerName, session: string) =>
    plans.list(caller, { session }, { limit: maxPlans }).pipe(
      Effect.map(({ items }) => items),
      Effect.catchTag("NotFound", () => Effect.succeed([]))
    )

  const runningIn = (caller: CallerName, session: string) =>
    Effect.map(plansOf(caller, session), (all) => all.filter((plan) => !isSettled(plan)))

  /** The plan whose call the decision is about. */
  const decideOne = Effect.fnUntraced(function* (
    caller: CallerName,
    candidates: ReadonlyArray<PlanId>,
    { decision, isCancelled, path, task_id }: Decided
  ) {
    for (const plan_id of candidates) {
      if (!isTaskId(task_id)) break
      const isDecided = yield* plans.decide({ caller, isAdmin: false }, { plan_id, task_id }, decision).pipe(
        Effect.as(true),
        Effect.catchTags({
          NotFound: () => Effect.succeed(false),
          ApprovalConflict: (conflict) => (isCancelled ? Effect.succeed(false) : Effect.fail(conflict))
        })
      )
      if (isDecided) return plan_id
    }
    if (isCancelled) return undefined
    return yield* invalid([{ path, message: "There is no such approval in this session" }])
  })

  return {
    runningIn,
    /** The key of what a person says to the plan beside the results that it waits for: it begins a leg. */
    keyIn: (caller: CallerName) => (plan: PlanId) =>
      Effect.map(legs.nextKey(caller, plan), (key) => ({ ofCaller: key })),
    /** Passes the decisions on. Returns the plan that they are about, and its calls. */
    decide: Effect.fnUntraced(function* (caller: CallerName, { decided, session }: UiRequest) {
      const all = decided.length === 0 ? [] : yield* plansOf(caller, session)
      const candidates = all.map(({ plan_id }) => plan_id)
      const calls = new Set<string>()
      let plan: PlanId | undefined
      for (const one of decided) {
        const about = yield* decideOne(caller, candidates, one)
        if (about === undefined) continue
        plan = about
        calls.add(one.task_id)
      }
      return { plan, calls }
    }),
    /** The plan of the question: a new one, or the one that somebody reads in its session. */
    start: ({ caller, isAgain = false, messageId, named, renamed, request, route, tools }: Asking) => {
      const echo: Echo | undefined = messageId === undefined ? undefined : { type: "ui", message_id: messageId }
      // A question that is asked again takes the place of what is there: it does not wait behind it.
      const preferences = { ...request.preferences, ...(isAgain && { on_busy: "reject" as const }) }
      const chat = { replaces: isAgain, named, tools, keyIn: (plan: PlanId) => legs.nextKey(caller, plan) }
      const start = (request: PlanRequest) =>
        streams
          .start({ caller, request, route, echo, chat })
          // Somebody else has begun the leg just now.
          .pipe(Effect.retry({ while: ({ _tag }) => _tag === "IdempotencyConflict", times: maxTries }))
      const reading = startTold(caller, { ...request, preferences }, start, renamed)
      // What was before says in what state the plan is where the leg begins.
      return Effect.map(reading, ({ from, ...whole }) => ({
        plan: follower.follow(caller, { ...whole, ...(from && { frames: from.frames }) }),
        leg: legs.behind(caller, whole.plan_id, from?.entry)
      }))
    },
    /** The plan from its first frame on, and its newest leg. */
    read: (caller: CallerName, plan: PlanId) =>
      Effect.all({ leg: legs.newest(caller, plan), plan: follower.read(caller, plan, 0) }),
    /** A plan that the one before has given its text, from its first frame on, up to its second leg. */
    follow: (caller: CallerName, plan: PlanId) =>
      Effect.map(Effect.orDie(follower.read(caller, plan, 0)), (read) => ({
        plan: read,
        until: legs.behind(caller, plan, undefined).until
      })),
    cancel: (caller: CallerName, plan: PlanId) => plans.cancel(caller, plan)
  }
})
