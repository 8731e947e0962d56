import { anonymous } from "@bowline/domain/caller/CallerName"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Config, Duration, Effect, Fiber, Random, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import { bob } from "../plan/Bob.ts"
import { CredentialLedger } from "./CredentialLedger.ts"
import * as FaultyCredential from "./FaultyCredential.ts"
import { millis, pick } from "./FaultyCredential.ts"

const ids = ["scripted-1", "scripted-2", "scripted-3", "scripted-4", "scripted-5"]
const users = 20

/** An agent that answers, fails, or never comes back. */
const call: PeerClient["Service"]["call"] = () =>
  Effect.gen(function* () {
    yield* Effect.sleep(yield* millis(2_000))
    const kind = yield* pick("answers", "answers", "fails", "hangs")
    if (kind === "fails") return yield* new PeerError({ reason: new Unreachable({ message: "nobody there" }) })
    if (kind === "hangs") return yield* Effect.never
    return { state: "completed" as const, content: "hi", verified: "unknown" as const }
  })

/** A world of plans that fail, time out and are left in every stage. */
const world = (seed: string, plansOfEach: number) => {
  const ledger = new CredentialLedger(ids)
  const deadlines = new Map<string, number>()
  const ends = new Map<string, number>()
  let asked = 0

  const plan = Effect.fnUntraced(function* (session: string, preferences: object, patience?: number) {
    const plans = yield* Plans
    const question = `plan ${++asked}`
    const drawn = yield* Effect.flatMap(pick(2_000, 10_000, 100_000, 100_000), millis)
    const timeout_ms = patience ?? drawn + 100
    deadlines.set(question, (yield* Clock.currentTimeMillis) + timeout_ms)
    const body = {
      question,
      session_id: session,
      agents: [bob],
      preferences: { timeout_ms, tool_timeout_ms: 3_000, max_steps: 4, ...preferences }
    }
    yield* Effect.gen(function* () {
      const { plan_id, frames } = yield* TestKit.post(body)
      const stays = yield* Effect.flatMap(pick(3_000, 30_000, 1e6, 1e6, 1e6), millis)
      if (yield* Random.nextBoolean) return yield* Effect.timeoutOption(Stream.runDrain(frames), stays)
      yield* Effect.forkChild(Effect.delay(plans.cancel(anonymous, plan_id), stays))
      return yield* Stream.runDrain(frames)
    }).pipe(Effect.scoped)
    const { items } = yield* plans.list(anonymous, {}, { limit: 1 })
    const error = items[0]?.error
    const end = error === null || error === undefined ? "final" : `${error.reason ?? error.code} in ${error.stage}`
    ends.set(end, (ends.get(end) ?? 0) + 1)
  })

  const user = Effect.fnUntraced(function* (name: number) {
    for (let done = 0; done < plansOfEach; done++) {
      yield* Effect.sleep(yield* Effect.flatMap(pick(2_000, 100_000, 500_000), millis))
      // Behind a back-off the time is any; deadlines are to be told from timers.
      yield* Effect.sleep(10 - ((yield* Clock.currentTimeMillis) % 10))
      const session = `${name}.${Math.floor(done / 10)}`
      if (done % 10 > 0 || (yield* Random.next) < 0.8) yield* plan(session, {})
      else {
        done++
        const on_busy = yield* pick("queue", "interrupt")
        // Some of those that queue do so to their deadline.
        const patience = on_busy === "queue" ? 150 : undefined
        const both = [plan(session, {}), Effect.delay(plan(session, { on_busy }, patience), yield* millis(1_000))]
        yield* Effect.all(both, { concurrency: "unbounded" })
      }
    }
  })

  const operator = Effect.gen(function* () {
    const pool = yield* CredentialPool
    for (;;) {
      yield* Effect.sleep(yield* millis(60_000))
      const id = yield* Random.choice(ids)
      yield* pool.clear(id)
      ledger.cleared(id)
    }
  })

  const run = Effect.gen(function* () {
    const pool = yield* CredentialPool
    const operating = yield* Effect.forkChild(operator)
    const busy = yield* Effect.forkChild(
      Effect.forEach(
        Array.from({ length: users }, (_, name) => name),
        user,
        { concurrency: "unbounded", discard: true }
      )
    )
    for (let seconds = 0; busy.pollUnsafe() === undefined; seconds += 5) {
      yield* TestClock.adjust("5 seconds")
      ledger.check(yield* pool.list, seconds * 1_000 + 5_000)
      assert.deepStrictEqual(ledger.violations, [], `with the seed "${seed}"`)
    }
    yield* Fiber.join(busy)
    yield* Fiber.interrupt(operating)
    return { asked, ends }
  })

  const adapters = ids.map((id) => FaultyCredential.layer(id, ledger, deadlines))
  const config = {
    firstTokenTimeout: FaultyCredential.timers.firstToken,
    idleTimeout: FaultyCredential.timers.idle,
    attemptTimeout: FaultyCredential.timers.total,
    fallbackModels: ["scripted/other"],
    leaseTtl: Duration.hours(1)
  }
  return run.pipe(
    Effect.provide(TestKit.layerOfCredentials(adapters, { peers: { call }, config })),
    Random.withSeed(seed)
  )
}

describe("CredentialPool", () => {
  it.effect(
    "uses no credential in its window, and puts none aside for a fault that was not its own, in hundreds of plans",
    () =>
      Effect.gen(function* () {
        const plans = yield* Config.Int("BOWLINE_CREDENTIAL_PLANS").pipe(Config.withDefault(500))
        const { asked, ends } = yield* world("other keys", plans / users)
        assert.strictEqual(asked, plans)
        for (const stage of ["queue", "provider", "tool"])
          assert.isAbove(ends.get(`deadline in ${stage}`) ?? 0, 0, stage)
        for (const stage of ["provider", "backoff", "tool"]) {
          assert.isAbove(ends.get(`cancelled in ${stage}`) ?? 0, 0, stage)
        }
        assert.isAbove(ends.get("final") ?? 0, plans / 2)
        assert.isUndefined(ends.get("internal in null"))
      }),
    240_000
  )
})
