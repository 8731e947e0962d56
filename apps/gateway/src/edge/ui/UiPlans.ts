import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { ExternalSessionId } from "@bowline/domain/session/Session"
import type { Message } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect, Option, Schema } from "effect"
import { invalid, Refused } from "../../http/Refusals.ts"
import * as ToldHistory from "../../http/ToldHistory.ts"
import type { Decided, UiRequest } from "./UiRequest.ts"

/** What is kept of a question beside its plan: the id that the client has given it. */
const Echo = Schema.Struct({ type: Schema.tag("ui"), message_id: Schema.String })
type Echo = typeof Echo.Type

const isEcho = Schema.is(Echo)
const isTaskId = Schema.is(TaskId)

/** How many of a chat's plans are looked at, the newest first. */
const maxPlans = 50

const busy = new Refused({
  code: "session_busy",
  detail: "The chat has a plan that is not over: stop it, or wait for its end, and ask again then"
})

interface Asking extends Pick<UiRequest, "renamed"> {
  readonly caller: CallerName
  readonly request: PlanRequest
  readonly route: Route
  /** The client's id of the question. */
  readonly messageId?: string
}

/** Starts plans for UI libraries, finds those of a chat, and passes on what their users decide. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const sessions = yield* Sessions
  const store = { plans: yield* PlanStore, sessions: yield* SessionStore }

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

  /** The last message in front of those of the plan; null if there is none, undefined if the plan has no messages. */
  const before = Effect.fnUntraced(function* (caller: CallerName, session: string, plan: PlanId) {
    const { session_id } = yield* store.sessions.find(caller, session)
    let last: Message | null = null
    let cursor: number | null = 0
    while (cursor !== null) {
      const page: { readonly items: ReadonlyArray<Message>; readonly next: number | null } =
        yield* store.sessions.messages(session_id, { limit: 200, cursor })
      const first = page.items.findIndex(({ plan_id }) => plan_id === plan)
      if (first !== -1) return page.items[first - 1] ?? last
      last = page.items.at(-1) ?? last
      cursor = page.next
    }
    return undefined
  })

  /** The plan that was asked with the question of this id. */
  const askedAs = Effect.fnUntraced(function* (
    caller: CallerName,
    candidates: ReadonlyArray<PlanId>,
    messageId: string
  ) {
    for (const plan of candidates) {
      const echo = yield* Effect.option(store.plans.echo(caller, plan))
      if (Option.isSome(echo) && isEcho(echo.value) && echo.value.message_id === messageId) return plan
    }
    return undefined
  })

  return {
    runningIn,
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
    /** Drops the question that was asked under this id, and all that came after it, unless it cannot be asked again as it is now. */
    drop: Effect.fnUntraced(function* (
      session: ExternalSessionId,
      { caller, messageId, renamed, request, route }: Required<Asking>
    ) {
      // What is wrong with the history alone is no reason to refuse: the session keeps its own.
      yield* streams
        .check({ caller, request: { ...request, history: [] }, route })
        .pipe(Effect.catchTag("InvalidRequest", ToldHistory.refuse(renamed)))
      const all = yield* plansOf(caller, session)
      if (all.some((plan) => !isSettled(plan))) return yield* busy
      const asked = yield* askedAs(
        caller,
        all.map(({ plan_id }) => plan_id),
        messageId
      )
      if (asked === undefined) return
      const last = yield* before(caller, session, asked)
      if (last === undefined) return
      yield* last === null
        ? sessions.delete(caller, session)
        : Effect.asVoid(sessions.revert(caller, session, last.message_id))
    }),
    start: ({ caller, messageId, renamed, request, route }: Asking) => {
      const echo: Echo | undefined = messageId === undefined ? undefined : { type: "ui", message_id: messageId }
      return ToldHistory.start(request, (request) => streams.start({ caller, request, route, echo }), renamed)
    },
    /** The plan from its first frame on. */
    read: (caller: CallerName, plan: PlanId) => streams.read(caller, plan, 0),
    cancel: (caller: CallerName, plan: PlanId) => plans.cancel(caller, plan)
  }
})
