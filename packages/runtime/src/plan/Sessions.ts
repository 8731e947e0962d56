import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import { type NotFound, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { MessageId, NewMessage } from "@bowline/domain/session/Message"
import type { Session, SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, Effect, Layer, Scope } from "effect"
import * as LeftTasks from "./LeftTasks.ts"
import { cancel, openPlans } from "./Cancellation.ts"
import { Notices } from "../store/Notices.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { RunningPlans } from "./RunningPlans.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { TaskStore } from "../store/TaskStore.ts"

/** How long to wait for a session whose plans have been told to end. */
const freeTimeout = "30 seconds"

const busy = new SessionBusy({ message: "A plan of the session has not ended yet" })

const unheard = { onQueued: () => undefined, onLost: () => true }

/**
 * Reverts, extends and deletes sessions at a caller's request.
 *
 * @example
 * ```ts
 * import type { CallerName } from "@bowline/domain/caller/CallerName"
 * import { Sessions } from "@bowline/runtime/plan/Sessions"
 * import { Effect } from "effect"
 *
 * // Ends the plans of the session, and deletes it.
 * export const forget = (caller: CallerName, session: string) =>
 *   Effect.flatMap(Sessions, (sessions) => sessions.delete(caller, session))
 * ```
 */
export class Sessions extends Context.Service<
  Sessions,
  {
    /**
     * Drops the history after the message, and returns the session. First it aborts (`cancelled`) all plans of the session that are
     * not over, the queued ones too. Then it acquires the session as a plan does, so that no plan sees half of the change. While it
     * waits it aborts a plan that got the session before it, and leaves those that wait behind it. Peers are
     * asked to cancel the remote tasks that the dropped calls have left open: once, in the background, and only where that needs no
     * secret of a request, since those are not kept.
     */
    readonly revert: (
      caller: CallerName,
      id: string,
      to: MessageId
    ) => Effect.Effect<Session, NotFound | SessionBusy | StorageError>
    /**
     * Appends messages that no plan has said, in the order of the list. It acquires the session as a plan does, and fails with `SessionBusy` if the
     * session has a plan that is not over.
     */
    readonly append: (
      caller: CallerName,
      id: string,
      messages: ReadonlyArray<NewMessage>
    ) => Effect.Effect<void, NotFound | SessionBusy | StorageError>
    /**
     * Deletes the session and all it owns. First it aborts (`cancelled`) all plans of the session that are not over. It cancels the
     * session's open remote tasks as a revert does.
     */
    readonly delete: (caller: CallerName, id: string) => Effect.Effect<void, NotFound | SessionBusy | StorageError>
    /**
     * Cancels a task that waits for its caller and whose last plan this is, and wakes who waits for it. It cancels what peers have handed back to the task as a
     * revert does.
     */
    readonly cancelTask: (
      caller: CallerName,
      task: PlanId,
      last: Pick<Plan, "plan_id" | "session_id">
    ) => Effect.Effect<void, NotFound | StorageError>
  }
>()("@bowline/runtime/plan/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function* () {
      const sessions = yield* SessionStore
      const plans = yield* PlanStore
      const tasks = yield* TaskStore
      const running = yield* RunningPlans
      const remote = yield* RemotePlans
      const lock = yield* SessionLock
      const cancelLeft = yield* LeftTasks.makeCancelLeft
      const notices = yield* Notices

      /** Ends every plan of the session that there is now, or every one that runs or waits. */
      const abortPlans = Effect.fnUntraced(function* (
        caller: CallerName,
        session: SessionId,
        states?: ReadonlyArray<"running" | "waiting">
      ) {
        const open = yield* openPlans(plans, caller, { session }, states)
        const end = (plan_id: PlanId) =>
          // A plan that was deleted meanwhile is over.
          Effect.catchTag(cancel({ running, remote, store: plans }, caller, plan_id), "NotFound", () => Effect.void)
        yield* Effect.forEach(open, end, { concurrency: "unbounded", discard: true })
      })

      /** Why the session is not available. It reads the session by its id, since a new session may have the name by now. */
      const refusal = (caller: CallerName, session: SessionId) =>
        Effect.andThen(sessions.find(caller, session), Effect.fail(busy))

      /** Waits until the session is free, and refuses where that takes too long. */
      const inTime = <A, E>(freeing: Effect.Effect<A, E>, caller: CallerName, session: SessionId) =>
        Effect.timeoutOrElse(freeing, { duration: freeTimeout, orElse: () => refusal(caller, session) })

      const revert = Effect.fnUntraced(function* (caller: CallerName, id: string, to: MessageId) {
        const session = yield* sessions.find(caller, id)
        const { session_id } = session
        yield* sessions.message(session_id, to)
        const scope = yield* Effect.scope
        // Joins the line before it aborts the plans in front: a plan that comes meanwhile stands behind it. Only a plan that finds the
        // session free as it is created runs in front, and is aborted, too.
        const acquired = Effect.provideService(lock.acquire(session_id, unheard), Scope.Scope, scope)
        const overtaking = Effect.andThen(
          Effect.sleep("1 second"),
          abortPlans(caller, session_id, ["running", "waiting"])
        )
        const [fence] = yield* inTime(
          Effect.all([Effect.raceFirst(acquired, Effect.forever(overtaking)), abortPlans(caller, session_id)], {
            concurrency: "unbounded"
          }),
          caller,
          session_id
        )
        // Not interrupted when the caller disconnects: the dropped tasks must be cancelled.
        yield* sessions.revert(session_id, fence, to).pipe(
          Effect.flatMap((left) => cancelLeft(caller, session.agents, left)),
          Effect.uninterruptible,
          Effect.catchTag("LeaseLost", () => refusal(caller, session_id))
        )
        return yield* sessions.find(caller, session_id)
      }, Effect.scoped)

      const append = Effect.fnUntraced(function* (caller: CallerName, id: string, messages: ReadonlyArray<NewMessage>) {
        const { session_id } = yield* sessions.find(caller, id)
        const states = ["running", "queued", "waiting"] as const
        const { items: open } = yield* plans.list(caller, { session: session_id, states }, { limit: 1 })
        if (open.length > 0) return yield* busy
        const scope = yield* Effect.scope
        const acquired = Effect.provideService(lock.acquire(session_id, unheard), Scope.Scope, scope)
        const fence = yield* inTime(acquired, caller, session_id)
        yield* sessions
          .append(session_id, fence, messages, fromMillis(yield* Clock.currentTimeMillis))
          .pipe(Effect.catchTag("LeaseLost", () => refusal(caller, session_id)))
      }, Effect.scoped)

      return {
        revert,
        append,
        cancelTask: Effect.fnUntraced(function* (caller, task, { plan_id, session_id }) {
          const session = yield* sessions.find(caller, session_id)
          const now = fromMillis(yield* Clock.currentTimeMillis)
          // Not interrupted when the caller disconnects: afterwards nothing names the tasks that peers still have.
          yield* tasks.cancel(caller, plan_id, now).pipe(
            Effect.flatMap((left) => cancelLeft(caller, session.agents, left)),
            Effect.uninterruptible
          )
          yield* Effect.ignore(notices.publish([{ _tag: "Advanced", plan_id: task }]))
        }),
        delete: Effect.fnUntraced(function* (caller, id) {
          const session = yield* sessions.find(caller, id)
          const { session_id } = session
          const deletion = Effect.gen(function* () {
            yield* abortPlans(caller, session_id)
            const left = yield* sessions.handedBack(session_id)
            // Not interrupted when the caller disconnects: after the deletion nothing names the tasks that peers still have.
            return yield* sessions.delete(session_id).pipe(
              Effect.tap((isDeleted) => (isDeleted ? cancelLeft(caller, session.agents, left) : Effect.void)),
              Effect.uninterruptible
            )
          })
          // If a plan has come meanwhile, nothing was deleted: it tries again.
          yield* inTime(Effect.repeat(deletion, { until: (isDeleted) => isDeleted }), caller, session_id)
        })
      }
    })
  )
}
