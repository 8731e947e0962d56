import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { layerOnStore, pass, post, seen } from "@bowline/testing/unstable/TestKit"
import { assert } from "@effect/vitest"
import { Context, type Duration, Effect, Fiber, Layer, Scope, Stream } from "effect"
import type { PeerCall, PeerClient } from "../../src/remote/PeerClient.ts"
import { Inbox } from "../../src/plan/Inbox.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { type PlanCommit, PlanStore } from "../../src/store/PlanStore.ts"
import { InboxStore } from "../../src/store/InboxStore.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"

type Options = Parameters<typeof layerOnStore>[0] & {
  /** Says of each commit whether the process dies of it, before or behind it. */
  readonly dies?: (commit: ReadonlyArray<PlanCommit>) => "before" | "behind" | undefined
}

const noAnswer = new StorageError({ reason: new Unavailable({ cause: "no answer" }) })

/** A process on the stores that are there, which can die: from then on nothing of it reaches them any more. */
export const mortal = Effect.fnUntraced(function* ({ dies = () => undefined, ...options }: Options) {
  let isDead = false
  const kill = () => void (isDead = true)
  const alive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => (isDead ? Effect.never : effect))

  /** As every store bounds it: a shutdown waits for these. */
  const inTime = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.timeoutOrElse(effect, { duration: "5 seconds", orElse: () => Effect.fail(noAnswer) })

  const stores = Layer.effectContext(
    Effect.gen(function* () {
      const plans = yield* PlanStore
      const leases = yield* LeaseStore
      const sessions = yield* SessionStore
      const inboxes = yield* InboxStore
      return Context.make(PlanStore, {
        ...plans,
        isDurable: true,
        create: (...given) => alive(plans.create(...given)),
        takeOver: (...given) => alive(plans.takeOver(...given)),
        requestAbort: (...given) => alive(plans.requestAbort(...given)),
        abortRequests: (...given) => alive(plans.abortRequests(...given)),
        commit: (batch) =>
          Effect.suspend(() => {
            const when = isDead ? "before" : dies(batch)
            if (when !== undefined) kill()
            if (when === "before") return Effect.never
            return Effect.flatMap(plans.commit(batch), (refused) => alive(Effect.succeed(refused)))
          })
      }).pipe(
        Context.add(LeaseStore, {
          acquire: (...given) => inTime(alive(leases.acquire(...given))),
          stopWaiting: (...given) => inTime(alive(leases.stopWaiting(...given))),
          renew: (...given) => inTime(alive(leases.renew(...given))),
          release: (...given) => inTime(alive(leases.release(...given))),
          leave: (...given) => inTime(alive(leases.leave(...given)))
        }),
        Context.add(InboxStore, { ...inboxes, expire: alive(inboxes.expire) }),
        Context.add(SessionStore, sessions)
      )
    })
  )
  const scope = yield* Scope.make()
  // Nobody cleans up after the dead.
  yield* Effect.addFinalizer((exit) => (isDead ? Effect.void : Scope.close(scope, exit)))
  const context = yield* Layer.buildWithScope(Layer.provide(Layer.fresh(layerOnStore(options)), stores), scope)
  const plans = Context.get(context, Plans)
  const streams = Context.get(context, PlanStreams)
  return {
    kill,
    plans,
    streams,
    inbox: Context.get(context, Inbox),
    on: <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      effect.pipe(Effect.provideService(Plans, plans), Effect.provideService(PlanStreams, streams))
  }
})

export type Mortal = Effect.Success<ReturnType<typeof mortal>>

export const hi = { state: "completed", content: "hi", verified: "unknown" } as const
export const stays = { preferences: { on_disconnect: "continue" } }

/** A peer that remembers its calls, its cancels, and of each call that was interrupted whether it is another process's now. */
export const peer = (end: Effect.Effect<typeof hi> = Effect.succeed(hi), remoteTaskId: string | null = "remote-1") => {
  const calls: Array<PeerCall> = []
  const cancelled: Array<string> = []
  const left: Array<boolean | undefined> = []
  const peers: Partial<PeerClient["Service"]> = {
    call: (call, onEvent) => {
      calls.push(call)
      const accepted = { _tag: "Accepted", remoteTaskId, remoteContextId: null } as const
      return (remoteTaskId === null ? Effect.void : onEvent(accepted)).pipe(
        Effect.andThen(onEvent({ _tag: "Progress", state: "working", message: "on it" })),
        Effect.andThen(end),
        Effect.onInterrupt(() => Effect.sync(() => left.push(call.isHandedOver?.())))
      )
    },
    cancel: ({ taskId }) => Effect.sync(() => void cancelled.push(taskId))
  }
  return { calls, cancelled, left, peers }
}

/** Asks a process that dies a second later. */
export const askAndKill = Effect.fnUntraced(function* (process: Mortal, body: object = {}) {
  const { plan_id, session_id } = yield* process.on(post({ question: "?", session_id: "s", ...stays, ...body }))
  yield* pass("1 second")
  process.kill()
  return { plan_id, session_id }
})

const follow = (process: Mortal, plan_id: PlanId) =>
  Effect.flatMap(process.streams.read(anonymous, plan_id, 0), ({ frames }) =>
    Effect.forkChild(Effect.map(Stream.runCollect(frames), seen))
  )

/** All that is stored of a plan, once it is over. */
export const replayed = Effect.fnUntraced(function* (
  process: Mortal,
  plan_id: PlanId,
  within: Duration.Input = "30 seconds"
) {
  const reader = yield* follow(process, plan_id)
  yield* pass(within, "1 second")
  assert.isDefined(reader.pollUnsafe(), "The plan is not over")
  return (yield* Fiber.join(reader)).filter((event) => event !== "ping")
})

/** Takes down the events of each commit, as one text. */
export const watched = () => {
  const told: Array<string> = []
  const dies = (batch: ReadonlyArray<PlanCommit>) => {
    told.push(...batch.map(({ events }) => events.map(({ event }) => event).join()))
    return undefined
  }
  return { dies, told }
}
