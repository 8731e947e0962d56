import {
  Auth,
  EgressDenied,
  Http,
  PeerError,
  type PeerErrorReason,
  Rpc,
  Unreachable,
  Untrusted
} from "@bowline/domain/peer/PeerError"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { completes, fails, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { answers } from "@bowline/testing/unstable/peer/Trouble"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Logger, References } from "effect"
import { TestClock } from "effect/testing"
import * as Breakers from "../../src/peer/Breakers.ts"
import { memory, question, reasonOf, start } from "./call.ts"

const endpoint = "http://peer.test/"
const untold = () => Effect.void
const progress = { _tag: "Progress", state: "working" } as const

const down = new PeerError({ reason: new Unreachable({ message: "Down" }) })

/** One breaker, and what happens when an endpoint of it is called. */
const circuit = Effect.map(Breakers.make, (breakers) => {
  const call = (outcome: Effect.Effect<string, PeerError>, to = endpoint) =>
    breakers
      .guard(to, untold, () => outcome)
      .pipe(Effect.match({ onSuccess: (result) => result, onFailure: ({ reason }) => reason._tag }))
  return {
    breakers,
    call,
    up: call(Effect.succeed("up")),
    down: call(Effect.fail(down)),
    state: Effect.map(breakers.all, ([known]) => known?.breaker)
  }
})

const times = (count: number) => ({ times: count - 1 })

describe("Breakers", () => {
  it.effect("open for 30 s after 5 failures in a row, and send nothing meanwhile", () =>
    Effect.gen(function* () {
      const { breakers, call, down, state } = yield* circuit
      yield* Effect.repeat(down, times(4))
      assert.deepStrictEqual(yield* state, { state: "closed", openUntil: null })
      yield* down
      assert.deepStrictEqual(yield* state, { state: "open", openUntil: 30_000 })
      yield* TestClock.adjust("29 seconds")
      const refused = yield* Effect.flip(breakers.guard(endpoint, untold, () => Effect.die("It was called")))
      assert.deepInclude(refused.reason, {
        _tag: "circuit_open",
        retryAfterMs: 1_000,
        message: "Too many calls of the peer have failed in a row: none is made until 1970-01-01T00:00:30.000Z"
      })
      assert.strictEqual(yield* call(Effect.succeed("up"), "http://other.test/"), "up")
    })
  )

  it.effect("count only what comes in a row, within 60 s", () =>
    Effect.gen(function* () {
      const { down, state, up } = yield* circuit
      yield* Effect.repeat(down, times(4))
      yield* up
      yield* Effect.repeat(down, times(4))
      yield* TestClock.adjust("61 seconds")
      yield* down
      assert.deepInclude(yield* state, { state: "closed" })
      yield* TestClock.adjust("30 seconds")
      yield* Effect.repeat(down, times(3))
      assert.deepInclude(yield* state, { state: "closed" })
      yield* TestClock.adjust("30 seconds")
      yield* down
      assert.deepInclude(yield* state, { state: "open" })
    })
  )

  it.effect("count a peer that is unreachable or answers 5xx, and nothing else", () =>
    Effect.gen(function* () {
      const message = "?"
      const cases: ReadonlyArray<readonly [PeerErrorReason, next: string, state: "open" | "closed"]> = [
        [new Unreachable({ message }), "circuit_open", "open"],
        [new Http({ message, status: 503 }), "circuit_open", "open"],
        // The peer has answered.
        [new Http({ message, status: 429 }), "unreachable", "closed"],
        [new Auth({ message, status: 403 }), "unreachable", "closed"],
        [new Rpc({ message, code: -32_603 }), "unreachable", "closed"],
        [new Untrusted({ message }), "unreachable", "closed"],
        // Nothing was sent: the row goes on.
        [new EgressDenied({ message }), "unreachable", "open"],
        [new Auth({ message }), "unreachable", "open"]
      ]
      for (const [reason, next, expected] of cases) {
        const { call, down, state } = yield* circuit
        yield* Effect.repeat(down, times(4))
        yield* call(Effect.fail(new PeerError({ reason })))
        assert.strictEqual(yield* down, next, JSON.stringify(reason))
        assert.deepInclude(yield* state, { state: expected }, JSON.stringify(reason))
      }
    })
  )

  it.effect("let one probe through, which closes it, or opens it for twice as long, 5 minutes at most", () =>
    Effect.gen(function* () {
      const { call, down, state, up } = yield* circuit
      yield* Effect.repeat(down, times(5))
      for (const seconds of [30, 60, 120, 240, 300, 300]) {
        yield* TestClock.adjust(`${seconds - 1} seconds`)
        assert.strictEqual(yield* down, "circuit_open", `${seconds} s`)
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* state, { state: "half-open", openUntil: null })
        assert.strictEqual(yield* down, "unreachable", `${seconds} s`)
      }
      yield* TestClock.adjust("300 seconds")
      const answer = Deferred.makeUnsafe<string>()
      const probe = yield* Effect.forkChild(call(Deferred.await(answer)), { startImmediately: true })
      assert.strictEqual(yield* up, "circuit_open")
      yield* Deferred.succeed(answer, "up")
      assert.strictEqual(yield* Fiber.join(probe), "up")
      assert.strictEqual(yield* up, "up")
      yield* Effect.repeat(down, times(4))
      assert.deepStrictEqual(yield* state, { state: "closed", openUntil: null })
    })
  )

  it.effect("give the turn of an interrupted probe to the next call", () =>
    Effect.gen(function* () {
      const { call, down, state, up } = yield* circuit
      yield* Effect.repeat(down, times(5))
      yield* TestClock.adjust("30 seconds")
      const probe = yield* Effect.forkChild(call(Effect.never), { startImmediately: true })
      assert.strictEqual(yield* up, "circuit_open")
      yield* Fiber.interrupt(probe)
      assert.deepInclude(yield* state, { state: "half-open" })
      assert.strictEqual(yield* up, "up")
      assert.deepInclude(yield* state, { state: "closed" })
    })
  )

  it.effect("close as soon as the peer answers the probe, however long its task takes", () =>
    Effect.gen(function* () {
      const { breakers, down, up } = yield* circuit
      yield* Effect.repeat(down, times(5))
      yield* TestClock.adjust("30 seconds")
      const accepted = { _tag: "Accepted", remoteTaskId: "made here", remoteContextId: null } as const
      const answered = Deferred.makeUnsafe<void>()
      yield* Effect.forkChild(
        breakers.guard(endpoint, untold, (onEvent) =>
          onEvent(accepted).pipe(
            Effect.andThen(Deferred.await(answered)),
            Effect.andThen(onEvent(progress)),
            Effect.andThen(Effect.never)
          )
        ),
        { startImmediately: true }
      )
      assert.strictEqual(yield* up, "circuit_open")
      yield* Deferred.succeed(answered, undefined)
      yield* Effect.yieldNow
      assert.strictEqual(yield* up, "up")
    })
  )

  it.effect("refuse no call that resumes a task, but count it", () =>
    Effect.gen(function* () {
      const { breakers, state, up } = yield* circuit
      const goesOn = breakers.guard(endpoint, untold, () => Effect.fail(down), true)
      for (let failures = 0; failures < 7; failures++) {
        assert.deepStrictEqual((yield* Effect.flip(goesOn)).reason, down.reason)
      }
      assert.deepStrictEqual(yield* state, { state: "open", openUntil: 30_000 })
      assert.strictEqual(yield* up, "circuit_open")
    })
  )

  it.effect("say in the log when they open and close", () => {
    const lines: Array<unknown> = []
    const log = Logger.make<unknown, void>(({ message, fiber }) => {
      lines.push(message, fiber.getRef(References.CurrentLogAnnotations))
    })
    return Effect.gen(function* () {
      const { down, up } = yield* circuit
      yield* Effect.repeat(down, times(5))
      yield* TestClock.adjust("30 seconds")
      yield* up
      assert.deepStrictEqual(lines, [
        ["peer_circuit_open"],
        { endpoint, open_ms: 30_000 },
        ["peer_circuit_half_open"],
        { endpoint },
        ["peer_circuit_closed"],
        { endpoint }
      ])
    }).pipe(Effect.provide(Logger.layer([log])))
  })
})

describe("a call", () => {
  it.effect("of a peer that has answered 5xx five times is not made, and the client says so", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("Here")] })
      yield* peer.disturb("message/send", ...Array.from({ length: 5 }, () => answers(503)))
      const ask = Effect.flatMap(start(question(peer.url)), reasonOf)
      for (let asked = 0; asked < 5; asked++) assert.strictEqual((yield* ask)._tag, "http")
      assert.strictEqual((yield* ask)._tag, "circuit_open")
      assert.strictEqual((yield* peer.requests.all).length, 5)
      const client = yield* PeerClient
      assert.deepStrictEqual(yield* client.peers, [
        { endpoint: `${peer.url}/`, dialect: "a2a-0.3", card: null, breaker: { state: "open", openUntil: 30_000 } }
      ])
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* Fiber.join((yield* start(question(peer.url))).fiber)).content, "Here")
    }).pipe(Effect.provide(memory))
  )

  it.effect("that is not made asks for no card either, and uses the card that is known", () =>
    Effect.gen(function* () {
      const { discover } = yield* PeerClient
      const asked = Effect.fnUntraced(function* (known: boolean) {
        const peer = yield* ScriptedPeer.serve({ acts: [completes("Here")] })
        const { agent } = question(peer.url)
        if (known) yield* discover(agent)
        yield* peer.disturb("message/send", ...Array.from({ length: 5 }, () => answers(503)))
        for (let calls = 0; calls < 5; calls++) yield* Effect.flatMap(start(question(peer.url)), reasonOf)
        const before = (yield* peer.requests.all).length
        yield* TestClock.adjust("29 seconds")
        const found = yield* Effect.match(discover(agent), {
          onSuccess: () => "card",
          onFailure: ({ reason }) => reason._tag
        })
        assert.strictEqual((yield* peer.requests.all).length, before)
        yield* TestClock.adjust("1 second")
        yield* discover(agent)
        return found
      })
      assert.strictEqual(yield* asked(false), "circuit_open")
      assert.strictEqual(yield* asked(true), "card")
    }).pipe(Effect.provide(memory))
  )

  it.effect("of a peer that fails its tasks is made again and again", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [fails("No")] })
      for (let asked = 0; asked < 6; asked++) {
        const { state } = yield* Fiber.join((yield* start(question(peer.url))).fiber)
        assert.strictEqual(state, "failed")
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect("tells the peer how many gateways it came through, and which, in every request", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [works("1 second"), completes("Here")] })
      const call = question(peer.url, {}, { route: { hops: 2, via: ["first", "second"] } })
      const { fiber } = yield* start(call)
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(fiber)
      for (const { headers } of yield* peer.requests.all) {
        assert.deepInclude(headers, { "x-bowline-hops": "2", "x-bowline-via": "first,second" })
      }
      const [send] = (yield* peer.seen).sends
      assert.deepInclude(send?.message.metadata, { bowline_hops: 2, bowline_via: ["first", "second"] })
    }).pipe(Effect.provide(memory))
  )
})
