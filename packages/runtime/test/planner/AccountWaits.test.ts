import { anonymous } from "@bowline/domain/caller/CallerName"
import { AccountRequired, PeerError } from "@bowline/domain/peer/PeerError"
import { type Asked, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, pass, post, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as CallerTokens from "../../src/auth/CallerTokens.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { McpClient, type McpConnection } from "../../src/remote/McpClient.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { InboxStore } from "../../src/store/InboxStore.ts"
import type { PlanCommit } from "../../src/store/PlanStore.ts"
import { SecretKey } from "../../src/store/SecretKey.ts"
import { askBob, bob, names } from "../plan/Bob.ts"
import { type Mortal, mortal, replayed, stays } from "../plan/Mortal.ts"
import * as Weather from "./Weather.ts"

const me = { caller: anonymous, isAdmin: false }
const missing = new PeerError({ reason: new AccountRequired({ account: null, message: "Come again" }) })
const script = [askBob, [say("ok")]]
const body = { question: "?", agents: [bob], ...stays }

const key = Layer.succeed(SecretKey, Option.some(Redacted.make(new Uint8Array(32))))
const stores = CallerTokens.layer.pipe(Layer.provideMerge(MemoryStore.layer), Layer.provide(key))
/** A process that dies when it has stored what a caller has come with. */
const dying = Layer.fresh(CallerTokens.layer).pipe(
  Layer.provide(
    Layer.effect(
      InboxStore,
      Effect.map(InboxStore, (inboxes) => ({ ...inboxes, accountWaits: () => Effect.interrupt }))
    )
  ),
  Layer.provide(key)
)

/** The caller comes with a token that is good for so many minutes. */
const come = Effect.fnUntraced(function* (minutes = 15) {
  const { keep } = yield* CallerTokens.CallerTokens
  const until = (yield* Clock.currentTimeMillis) + minutes * 60_000
  assert.isTrue(yield* keep({ caller: anonymous, value: Redacted.make("a.b.c"), until }, true))
})

const isThere = Effect.gen(function* () {
  const { newest } = yield* CallerTokens.CallerTokens
  return Option.isSome(yield* newest(anonymous))
}).pipe(Effect.orDie)

/** A peer that is called as the caller. `late`: it takes the call, and the token is missing while it is asked for the task. */
const acting = (late = false) => {
  const seen = { sent: 0, resumed: 0, cancelled: 0, looks: 0 }
  const call: PeerClient["Service"]["call"] = ({ isHandedOver, resumes }, onEvent) =>
    Effect.gen(function* () {
      if (!late || resumes !== undefined) {
        seen.looks++
        if (!(yield* isThere)) return yield* missing
      }
      if (resumes === undefined) seen.sent++
      else seen.resumed++
      yield* onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: null })
      yield* Effect.sleep("1 second")
      if (!(yield* isThere)) return yield* missing
      return { state: "completed", content: "Paid", verified: "unknown" } as const
    }).pipe(Effect.onInterrupt(() => Effect.sync(() => isHandedOver?.() !== true && seen.cancelled++)))
  const cancel = () => Effect.sync(() => void seen.cancelled++)
  return { seen, peers: { call, cancel } }
}

const waitsOf = ({ inbox }: Mortal) =>
  Effect.map(inbox.waiting(anonymous, { kind: "account" }, { limit: 10 }), ({ items }) => items)

const entriesOf = ({ inbox }: Mortal, plan: Parameters<Mortal["inbox"]["list"]>[1]) =>
  Effect.map(inbox.list(me, plan, { limit: 10 }), ({ items }) =>
    items.map(({ state, task_id, type }) => [type, state, task_id])
  )

const onStores = <A, E, R>(test: Effect.Effect<A, E, R>) => test.pipe(Effect.scoped, Effect.provide(stores))

describe("a call that is made as its caller", () => {
  it.effect.each([false, true])(
    "waits until the caller comes again, parked, and is made once, also where its peer has taken it: %s",
    (late) =>
      Effect.gen(function* () {
        const { peers, seen } = acting(late)
        const process = yield* mortal({ script, peers })
        const { plan_id } = yield* process.on(post(body))
        yield* pass("20 seconds", "1 second")
        const [wait] = yield* waitsOf(process)
        const { agent, message, task_id, tool } = wait ?? assert.fail()
        assert.deepStrictEqual([tool, agent, message], ["bob_ask", "bob", "Come again"])
        assert.strictEqual((yield* process.plans.get(anonymous, plan_id)).state, "waiting")
        yield* TestClock.adjust("5 hours")
        yield* come()
        const events = yield* replayed(process, plan_id)
        const { input } = single(events, "task.started")
        const { expires_at, ...told } = single(events, "waiting")
        assert.strictEqual(expires_at, wait?.expires_at)
        const expected = { task_id, kind: "account", round: 1, tool: "bob_ask", agent: "bob", input }
        assert.deepEqual<unknown>(told, { ...expected, message: "Come again" })
        assert.deepInclude(single(events, "woken"), { because: "account" })
        assert.deepInclude(single(events, "task.finished"), { task_id, state: "completed" })
        assert.deepStrictEqual(names(events).slice(-2), ["final", "done"])
        assert.deepStrictEqual(yield* entriesOf(process, plan_id), [["account", "taken", task_id]])
        assert.deepInclude(seen, { sent: 1, resumed: late ? 1 : 0, cancelled: 0 })
        assert.deepStrictEqual(yield* waitsOf(process), [])
      }).pipe(onStores)
  )

  it.effect("waits again each time that the token is over, in the same call", () =>
    Effect.gen(function* () {
      const { peers, seen } = acting(true)
      const isAgain: PeerClient["Service"]["call"] = (call, onEvent) =>
        Effect.flatMap(peers.call(call, onEvent), (result) =>
          seen.resumed < 3 ? Effect.fail(missing) : Effect.succeed(result)
        )
      const process = yield* mortal({ script, peers: { call: isAgain } })
      const { plan_id } = yield* process.on(post(body))
      for (let n = 0; n < 4; n++) {
        yield* pass("3 seconds")
        yield* TestClock.adjust("1 hour")
        yield* come()
      }
      const events = yield* replayed(process, plan_id)
      assert.isAtLeast(all(events, "waiting").length, 3)
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      assert.deepInclude(seen, { sent: 1, cancelled: 0 })
    }).pipe(onStores)
  )

  it.effect("does not wait for a caller who has come while that was being stored", () =>
    Effect.gen(function* () {
      const { peers } = acting()
      const context = yield* Effect.context()
      const holds = (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes('"kind":"account"')
      const dies = (batch: ReadonlyArray<PlanCommit>) => {
        // Behind the look for a token, in front of the store's wait.
        if (holds(batch)) Effect.runSyncWith(context)(Effect.orDie(come()))
        return undefined
      }
      const process = yield* mortal({ script, peers, dies })
      const { plan_id } = yield* process.on(post(body))
      const events = yield* replayed(process, plan_id, "4 seconds")
      assert.lengthOf(all(events, "waiting"), 1)
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
    }).pipe(onStores)
  )

  it.effect("goes on within a minute where the process that has stored the token has died before it could say so", () =>
    Effect.gen(function* () {
      const { peers, seen } = acting()
      const process = yield* mortal({ script, peers })
      const { plan_id } = yield* process.on(post(body))
      yield* pass("20 seconds", "1 second")
      assert.isTrue(Exit.hasInterrupts(yield* Effect.exit(Effect.provide(come(), dying))))
      assert.lengthOf(yield* waitsOf(process), 1)
      const events = yield* replayed(process, plan_id, "65 seconds")
      assert.deepInclude(single(events, "woken"), { because: "account" })
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      assert.strictEqual(seen.sent, 1)
    }).pipe(onStores)
  )

  it.effect("ends where nobody comes in time, has done nothing, and may be made again", () =>
    Effect.gen(function* () {
      const { peers, seen } = acting()
      const requests: Array<Asked> = []
      const heard = (asked: Asked) => {
        requests.push(asked)
        return results(asked).length < 2 ? askBob : [say("ok")]
      }
      const process = yield* mortal({ script: heard, peers })
      const preferences = { ...stays.preferences, wait_timeout_ms: 60_000 }
      const pays = { ...bob, skills: [{ id: "ask", effect: { key: "arguments", scope: "caller" } }] }
      const { plan_id } = yield* process.on(post({ ...body, agents: [pays], preferences }))
      yield* pass("90 seconds", "1 second")
      yield* come()
      const events = yield* replayed(process, plan_id)
      assert.deepStrictEqual(
        all(events, "task.finished").map(({ error, state }) => [state, error?.code]),
        [
          ["timed-out", "wait_expired"],
          ["completed", undefined]
        ]
      )
      assert.include(results(requests[1] ?? assert.fail())[0], "Nobody answered in time")
      assert.strictEqual(seen.sent, 1)
    }).pipe(onStores)
  )

  it.effect("can be cancelled meanwhile, parked or not", () =>
    Effect.gen(function* () {
      for (const after of ["2 seconds", "20 seconds"] as const) {
        const { peers, seen } = acting(after === "2 seconds")
        const process = yield* mortal({ script, peers })
        const { plan_id } = yield* process.on(post(body))
        yield* pass(after, "1 second")
        yield* process.plans.cancel(anonymous, plan_id)
        const events = yield* replayed(process, plan_id, "10 seconds")
        assert.deepInclude(single(events, "error"), { reason: "cancelled" })
        yield* come()
        const sent = after === "2 seconds" ? 1 : 0
        assert.deepStrictEqual([seen.sent, seen.cancelled, yield* entriesOf(process, plan_id)], [sent, sent, []])
        yield* TestClock.adjust("1 hour")
      }
    }).pipe(onStores)
  )
})

const writes = ['"kind":"account"', '"state":"taken"', '"TaskFinished"']
/** Behind these nobody knows whether the call was made. */
const doubtful = ['"kind":"account" before', '"state":"taken" behind']
const deaths = writes.flatMap((write) => [[write, "before"] as const, [write, "behind"] as const])

describe.each(deaths)(
  "a call that waits for its caller, and whose process dies of the write of %s, %s it",
  (write, when) => {
    it.effect("is told of once, and made at most once", () =>
      Effect.gen(function* () {
        const { peers, seen } = acting()
        const holds = (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes(write)
        const first = yield* mortal({ script, peers, dies: (batch) => (holds(batch) ? when : undefined) })
        const second = yield* mortal({ script: () => [say("ok")], peers })
        const { plan_id } = yield* first.on(post(body))
        yield* pass("2 seconds")
        yield* come(60)
        yield* pass("40 seconds", "1 second")
        const events = yield* replayed(second, plan_id)
        const isStored = write !== '"kind":"account"' || when === "behind"
        const isDoubtful = doubtful.includes(`${write} ${when}`)
        assert.lengthOf(all(events, "waiting"), isStored ? 1 : 0)
        assert.deepInclude(single(events, "task.finished"), { state: isDoubtful ? "interrupted" : "completed" })
        assert.strictEqual(seen.sent, isDoubtful ? 0 : 1)
      }).pipe(onStores)
    )
  }
)

describe("a server that wants to be asked as the caller before it lists its tools", () => {
  const connecting = () => {
    const seen = { called: 0 }
    const connection: McpConnection = {
      tools: Effect.succeed([Weather.toolNamed("sky")]),
      hasChanged: Effect.succeed(false),
      call: () => Effect.sync(() => ({ state: "completed", text: `${++seen.called}`, structured: undefined }))
    }
    const connect = () => Effect.flatMap(isThere, (is) => (is ? Effect.succeed(connection) : Effect.fail(missing)))
    return { seen, mcp: Layer.succeed(McpClient, { connect, servers: Effect.succeed([]) }) }
  }
  const asks = { question: "?", ...Weather.weather(), ...stays }
  const calls = [[callTool("weather_sky", { input: "Oslo" })], [say("ok")]]

  it.effect("has the plan wait in front of its first step, through a kill, until the caller comes", () =>
    Effect.gen(function* () {
      const { mcp, seen } = connecting()
      const first = yield* mortal({ script: calls, mcp })
      const second = yield* mortal({ script: calls, mcp })
      const { plan_id } = yield* first.on(post(asks))
      yield* pass("2 seconds")
      const [wait] = yield* waitsOf(first)
      assert.deepStrictEqual([wait?.tool, wait?.agent, wait?.input], ["weather", "weather", null])
      first.kill()
      yield* pass("60 seconds", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).state, "waiting")
      yield* come()
      const events = yield* replayed(second, plan_id)
      const { agent, input, kind, round, task_id, tool } = single(events, "waiting")
      assert.deepStrictEqual([task_id, kind, round, tool, agent, input], [null, "account", 1, null, "weather", null])
      assert.isBelow(names(events).indexOf("waiting"), names(events).indexOf("step"))
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      assert.deepStrictEqual([seen.called, yield* entriesOf(second, plan_id)], [1, [["account", "taken", null]]])
    }).pipe(onStores)
  )

  it.effect("costs its tools where nobody comes in time", () =>
    Effect.gen(function* () {
      const { mcp } = connecting()
      const process = yield* mortal({ script: [[say("ok")]], mcp })
      const preferences = { ...stays.preferences, wait_timeout_ms: 3_000 }
      const { plan_id } = yield* process.on(post({ ...asks, preferences }))
      const events = yield* replayed(process, plan_id)
      assert.deepInclude(single(events, "notice"), { code: "mcp_unreachable" })
      assert.deepStrictEqual(names(events).slice(-2), ["final", "done"])
    }).pipe(onStores)
  )
})
