import * as Host from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as Given from "@bowline/testing/unstable/store/Given"
import { pass } from "@bowline/testing/unstable/TestKit"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { type ClaimedTarget, PushStore } from "@bowline/runtime/unstable/store/PushStore"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer, Logger, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { Webhook } from "@bowline/domain/unstable/plan/Webhook"
import { makeNotify } from "../../src/push/WebhookDelivery.ts"

const secret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`

/** A delivery to a receiver that answers so each time, and when the receiver was asked: seconds from the start. */
const deliverTo = Effect.fnUntraced(function* (answer: (count: number) => Host.HostResponse) {
  const times: Array<number> = []
  const network = yield* Network
  const start = yield* Clock.currentTimeMillis
  const { url } = yield* network.serve(() =>
    Effect.gen(function* () {
      times.push(((yield* Clock.currentTimeMillis) - start) / 1_000)
      return answer(times.length)
    })
  )
  const settings = { secret_env_var: null, has_final: false, is_configured: true }
  const held = yield* Given.createHeld({
    webhooks: [{ url, events: ["plan.completed"], secrets: null, settings }]
  })
  yield* Given.settle(held)
  const { caller, plan_id, replica } = held.plan
  const store = yield* PushStore
  const configured = { url, secret: Redacted.make(secret) } as Webhook
  const notify = yield* makeNotify(() => configured)
  // What claims it when it is due, as `Targets` does.
  const claim = Effect.flatMap(
    store.claim(replica, [], 10),
    Effect.forEach((claimed: ClaimedTarget) => notify(claimed))
  )
  const lines: Array<unknown> = []
  const logger = Logger.make<unknown, void>(({ message }) => void lines.push(message))
  yield* claim.pipe(
    Effect.andThen(Effect.sleep("1 minute")),
    Effect.forever,
    Effect.provide(Logger.layer([logger])),
    Effect.forkChild({ startImmediately: true })
  )
  const delivery = Effect.map(store.deliveries(caller, plan_id), ([first]) => first)
  return { times, lines, delivery }
})

const layer = Layer.merge(MemoryNetwork.layer, MemoryStore.layer)

it.effect(
  "a delivery is tried again after 1 s, 2 s … an hour, each less some jitter, for a day, and then dropped with a line in the log",
  () =>
    Effect.gen(function* () {
      const { delivery, lines, times } = yield* deliverTo(() => Host.text(503, ""))
      yield* pass("20 seconds", "100 millis")
      yield* pass("2 hours", "10 seconds")
      yield* pass("24 hours", "1 minute")
      const waits = times.slice(1).map((time, at) => time - (times[at] ?? 0))
      for (const [at, wait] of waits.entries()) {
        const full = Math.min(2 ** at, 3_600)
        // Until it is claimed, and the step of the clock.
        assert.isAtLeast(wait, full * 0.8)
        assert.isAtMost(wait, full + (full < 5 ? 0.1 : 61))
      }
      assert.isAtLeast(times.at(-1) ?? 0, 82_800)
      assert.isAtMost(times.at(-1) ?? 0, 90_000)
      const tries = times.length
      assert.deepInclude(yield* delivery, { state: "dropped", tries, last_status: 503, next_try_at: null })
      assert.deepStrictEqual(lines, [["push_dropped"]])
      yield* TestClock.adjust("2 hours")
      assert.lengthOf(times, tries)
    }).pipe(Effect.scoped, Effect.provide(layer))
)

it.effect(
  "a delivery is tried again when its receiver wants it, but after an hour at most and not before its own wait is over",
  () =>
    Effect.gen(function* () {
      const asked = ["600", "86400", "0"]
      const { delivery, times } = yield* deliverTo((count) => {
        const after = asked[count - 1]
        return after === undefined ? Host.text(204, "") : Host.text(429, "", { "retry-after": after })
      })
      yield* pass("80 minutes", "1 second")
      const [first = 0, second = 0, third = 0, last = 0] = times
      for (const [wait, full] of [
        [second - first, 600],
        [third - second, 3_600]
      ] as const) {
        assert.isAtLeast(wait, full)
        assert.isAtMost(wait, full + 61)
      }
      assert.isAtLeast(last - third, 3)
      assert.isAtMost(last - third, 5)
      assert.deepInclude(yield* delivery, { state: "delivered", tries: 4, last_status: 204 })
    }).pipe(Effect.scoped, Effect.provide(layer))
)
