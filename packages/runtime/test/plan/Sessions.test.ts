import { anonymous } from "@bowline/domain/caller/CallerName"
import type { Agent } from "@bowline/domain/peer/Agent"
import type { MessageId } from "@bowline/domain/session/Message"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import * as Given from "@bowline/testing/unstable/store/Given"
import { layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Redacted } from "effect"
import { everything, Permissions } from "../../src/config/Permissions.ts"
import { noPreset, Presets } from "../../src/config/Presets.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import type { LeftTask, PeerClient } from "../../src/remote/PeerClient.ts"
import { Sessions } from "../../src/plan/Sessions.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { askBob, bob, stuckPeers } from "./Bob.ts"

const ask = (fields: object = {}) => post({ question: "?", session_id: "s", ...fields })

const messages = Effect.gen(function* () {
  const sessions = yield* SessionStore
  const { session_id } = yield* sessions.find(anonymous, "s")
  return (yield* sessions.messages(session_id, { limit: 100 })).items
})

const first = Effect.flatMap(messages, ([message]) => Effect.fromNullishOr(message))

const revert = Effect.fnUntraced(function* (to: MessageId) {
  return yield* (yield* Sessions).revert(anonymous, "s", to)
})

/** Peers that hand every task back, and remember what they were told to end. */
const askingPeers = () => {
  const cancelled: Array<LeftTask> = []
  const peers: Partial<PeerClient["Service"]> = {
    call: (_, onEvent) =>
      onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: null }).pipe(
        Effect.as({ state: "input-required", content: "Which one?", verified: "unknown" })
      ),
    cancel: (left) => Effect.sync(() => void cancelled.push(left))
  }
  return { cancelled, peers }
}

const plain = askingPeers()
const secret = askingPeers()
const deleted = askingPeers()
const stuck = stuckPeers()

describe("a revert", () => {
  it.effect("waits until the plan that it aborts has released the session", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const { frames } = yield* ask({ agents: [bob] })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("1 second")
      const { message_id } = yield* first
      const reverting = yield* Effect.forkChild(revert(message_id))
      yield* pass("1 second")
      assert.deepInclude(yield* Fiber.join(reverting), { message_count: 1 })
      assert.deepInclude(single(yield* Fiber.join(reading), "error"), { reason: "cancelled", stage: "tool" })
      assert.lengthOf(stuck.interruptedAt, 1)
      assert.deepStrictEqual(
        (yield* messages).map(({ seq }) => seq),
        [1]
      )
    }).pipe(Effect.provide(layer({ script: [[say("ok")], askBob], peers: stuck.peers })), Effect.scoped)
  )

  it.effect("makes what comes meanwhile wait behind it", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const { message_id } = yield* first
      const reverting = yield* Effect.forkChild(revert(message_id), { startImmediately: true })
      const { frames } = yield* ask()
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("1 second")
      yield* Fiber.join(reverting)
      single(yield* Fiber.join(reading), "final")
      assert.deepStrictEqual(
        (yield* messages).map(({ seq }) => seq),
        [1, 3, 4]
      )
    }).pipe(Effect.provide(layer({ script: () => [say("ok")] })), Effect.scoped)
  )

  it.effect("aborts a plan that got the session while it waited for it, and none that waits behind it", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const { session_id } = yield* (yield* SessionStore).find(anonymous, "s")
      // Nobody hears that a lease has expired.
      yield* (yield* LeaseStore).acquire(session_id, "replica_other", Duration.millis(1_500))
      const { message_id } = yield* first
      const reverting = yield* Effect.forkChild(revert(message_id))
      yield* pass("2 seconds", "1 second")
      const overtaking = yield* Effect.forkChild(readAll((yield* ask()).frames), { startImmediately: true })
      const behind = yield* Effect.forkChild(readAll((yield* ask()).frames), { startImmediately: true })
      yield* pass("31 seconds", "1 second")
      assert.deepInclude(yield* Fiber.join(reverting), { message_count: 1 })
      assert.deepInclude(single(yield* Fiber.join(overtaking), "error"), { reason: "cancelled", stage: "provider" })
      single(yield* Fiber.join(behind), "final")
    }).pipe(Effect.provide(layer({ script: [[say("ok")], [stall], [say("ok")]] })), Effect.scoped)
  )

  it.effect("cancels the tasks that the dropped calls have left at peers", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask({ agents: [bob] })).frames)
      yield* revert((yield* first).message_id)
      assert.deepInclude(plain.cancelled[0], { taskId: "remote-1", contextId: null })
      assert.deepInclude(plain.cancelled[0]?.agent, { name: "bob", endpoint: bob.endpoint, auth: { type: "none" } })
      assert.strictEqual(plain.cancelled[0]?.route.hops, 1)
      assert.lengthOf(plain.cancelled, 1)
    }).pipe(Effect.provide(layer({ script: [askBob, [say("which?")]], peers: plain.peers })), Effect.scoped)
  )

  it.effect("uses the agent of the preset that the call had, and none that its caller may not use any more", () => {
    const { cancelled, peers } = askingPeers()
    const bobOf = (token: string): Agent => ({
      ...bob,
      auth: { type: "bearer", token: Redacted.make(token) },
      dialect: "auto"
    })
    const named = (name: string) => [name, { ...noPreset, name, agents: [bobOf(name)] }] as const
    let isAllowed = true
    const forCaller = () => ({ ...everything, preset: (name: string) => name !== "desk" || isAllowed })
    return Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const { message_id } = yield* first
      const askAndRevert = Effect.fnUntraced(function* (fields: object, isAllowedAfter: boolean) {
        yield* readAll((yield* ask(fields)).frames)
        isAllowed = isAllowedAfter
        yield* revert(message_id)
      })
      yield* askAndRevert({ preset: "desk" }, true)
      yield* askAndRevert({ preset: "door" }, true)
      yield* askAndRevert({ preset: "desk" }, false)
      yield* askAndRevert({ agents: [bob] }, false)
      assert.deepStrictEqual(
        cancelled.map(({ agent: { auth } }) => (auth.type === "bearer" ? Redacted.value(auth.token) : auth.type)),
        ["desk", "door", "none"]
      )
    }).pipe(
      Effect.provide(
        layer({ script: [[say("ok")], ...Array.from({ length: 4 }, () => [askBob, [say("which?")]]).flat()], peers })
      ),
      Effect.provideService(Presets, new Map([named("door"), named("desk")])),
      Effect.provideService(Permissions, { forCaller }),
      Effect.scoped
    )
  })

  it.effect("leaves a peer alone whose secret is not kept", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask({ agents: [{ ...bob, auth: { type: "bearer", token: "t" } }] })).frames)
      assert.deepInclude(yield* revert((yield* first).message_id), { message_count: 1 })
      assert.deepStrictEqual(secret.cancelled, [])
    }).pipe(Effect.provide(layer({ script: [askBob, [say("which?")]], peers: secret.peers })), Effect.scoped)
  )

  it.effect("gives up on a session that another replica holds, and changes nothing", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const { session_id } = yield* (yield* SessionStore).find(anonymous, "s")
      const leases = yield* LeaseStore
      yield* leases.acquire(session_id, "replica_other", Duration.hours(1))
      const reverting = yield* Effect.forkChild(Effect.flip(revert((yield* first).message_id)))
      yield* pass("31 seconds", "1 second")
      assert.strictEqual((yield* Fiber.join(reverting))._tag, "SessionBusy")
      assert.lengthOf(yield* messages, 2)
    }).pipe(Effect.provide(layer({ script: [[say("ok")]] })), Effect.scoped)
  )

  it.effect("finds no session any more once a deletion was faster, though there is a new one of its name", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const sessions = yield* SessionStore
      const { session_id } = yield* sessions.find(anonymous, "s")
      yield* (yield* LeaseStore).acquire(session_id, "replica_other", Duration.hours(1))
      const refusal = Effect.flip(revert((yield* first).message_id))
      const before = yield* Clock.currentTimeMillis
      const reverting = yield* Effect.forkChild(Effect.zip(refusal, Clock.currentTimeMillis))
      yield* pass("1 second")
      assert.isTrue(yield* sessions.delete(session_id))
      yield* readAll((yield* ask()).frames)
      yield* pass("31 seconds", "1 second")
      const [refused, at] = yield* Fiber.join(reverting)
      assert.deepInclude(refused, { _tag: "NotFound", what: "session" })
      assert.isAtMost(at - before, 6_000)
    }).pipe(Effect.provide(layer({ script: () => [say("ok")] })), Effect.scoped)
  )

  it.effect("finds no session any more that was deleted while it had it", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask()).frames)
      const sessions = yield* SessionStore
      const { session_id } = yield* sessions.find(anonymous, "s")
      const { message_id } = yield* first
      const reverting = yield* Effect.forkChild(Effect.flip(revert(message_id)))
      yield* pass("1 second")
      assert.isTrue(yield* sessions.delete(session_id))
      yield* pass("5 seconds")
      assert.deepInclude(yield* Fiber.join(reverting), { _tag: "NotFound", what: "session" })
    }).pipe(
      Effect.provide(
        layer({
          script: [[say("ok")]],
          disturb: ({ list }) => ({ list: (...given) => Effect.delay(list(...given), "2 seconds") })
        })
      ),
      Effect.scoped
    )
  )
})

describe("a deletion", () => {
  it.effect("cancels the tasks at peers that wait for the session, once it is deleted", () =>
    Effect.gen(function* () {
      yield* readAll((yield* ask({ agents: [bob] })).frames)
      yield* (yield* Sessions).delete(anonymous, "s")
      assert.deepInclude(deleted.cancelled[0], { taskId: "remote-1", contextId: null })
      assert.lengthOf(deleted.cancelled, 1)
    }).pipe(Effect.provide(layer({ script: [askBob, [say("which?")]], peers: deleted.peers })), Effect.scoped)
  )

  it.effect("asks whichever replica has a plan of the session to end it, and gives up when it does not", () =>
    Effect.gen(function* () {
      const plans = yield* PlanStore
      const left = yield* Given.create({ owner: anonymous, external_session_id: ExternalSessionId.make("s") })
      const { replica } = left.plan
      yield* (yield* LeaseStore).renew(replica, Duration.hours(1))
      const deletion = Effect.flatMap(Sessions, (sessions) => sessions.delete(anonymous, "s"))
      const deleting = yield* Effect.forkChild(Effect.flip(deletion))
      yield* pass("31 seconds", "1 second")
      assert.strictEqual((yield* Fiber.join(deleting))._tag, "SessionBusy")
      assert.deepStrictEqual(yield* plans.abortRequests(replica), [{ plan_id: left.plan.plan_id, reason: "cancelled" }])
      const again = yield* Effect.forkChild(deletion)
      yield* pass("1 second")
      yield* Given.settle(left)
      yield* pass("1 second")
      yield* Fiber.join(again)
      assert.strictEqual((yield* Given.failureOf(Given.get(left)))?._tag, "NotFound")
    }).pipe(Effect.provide(layer({ script: [] })), Effect.scoped)
  )
})
