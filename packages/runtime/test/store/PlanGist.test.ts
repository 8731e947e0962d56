import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { wait } from "@bowline/testing/http/Move"
import { callTool, say, think, type Turn } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Stream } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import * as PlanGist from "../../src/store/PlanGist.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"

const at = "2026-01-02T03:04:05.678Z"

const delta = (delta: string, step = 1, attempt = 1): PlanEvent => ({
  event: "text.delta",
  data: { step, attempt, delta }
})

const agents = [{ name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask", approval: "always" }] }]

/** What is on the row of a plan, and what its events tell. */
const found = Effect.fnUntraced(function* ({ plan_id }: { readonly plan_id: PlanId }) {
  const store = yield* PlanStore
  const told = yield* store.told(anonymous, plan_id)
  return {
    stored: Option.getOrUndefined(PlanGist.decode(told.gist, told.plan.final?.text)),
    row: JSON.stringify(told.gist),
    events: yield* PlanGist.complete(store, told.plan, PlanGist.upTo(0)),
    read: yield* PlanGist.read(store, told)
  }
})

const start = Effect.fnUntraced(function* (question: object) {
  const reading = yield* TestKit.post({ question: "?", ...question })
  yield* Effect.forkScoped(Stream.runDrain(reading.frames))
  yield* TestKit.pass("1 second")
  return reading
})

const kit = (...script: ReadonlyArray<Turn>) => Effect.provide(TestKit.layer({ script }))

describe("the gist of a plan", () => {
  it("joins the pieces of one text, however they come, and has the number of the last event", () => {
    const events = [delta("a"), delta("b"), delta("c", 1, 2), delta("d", 2), delta("e", 2)]
    const whole = PlanGist.add(PlanGist.upTo(3), events, at)
    assert.deepStrictEqual(whole, {
      seq: 8,
      isEnded: false,
      firstTokenAt: at,
      events: [
        { ...delta("ab"), seq: 4 },
        { ...delta("c", 1, 2), seq: 6 },
        { ...delta("de", 2), seq: 7 }
      ]
    })
    const times = [at, ...events.slice(1).map(() => "2026-01-02T03:04:06.000Z")]
    const piecewise = events.reduce(
      (gist, event, index) => PlanGist.add(gist, [event], times[index] ?? ""),
      PlanGist.upTo(3)
    )
    assert.deepStrictEqual(piecewise, whole)
  })

  it("is left to the events where this version cannot read it", () => {
    const gist = { seq: 1, isEnded: false, events: [{ seq: 1, event: "of.the.future", data: {} }] }
    for (const stored of [null, "?", {}, gist]) assert.isTrue(Option.isNone(PlanGist.decode(stored)))
  })

  it.effect("is on the row of a plan that is over, and its end follows from the row", () =>
    Effect.gen(function* () {
      const plan = yield* start({})
      const { events, read, row, stored } = yield* found(plan)
      assert.deepStrictEqual(stored, events)
      // The answer is on the row already; what was thought is not.
      assert.notInclude(row, "It holds.")
      assert.include(row, "A knot")
      assert.isTrue(stored?.isEnded)
      assert.include(JSON.stringify(read.events), '"delta":"It holds."')
      assert.deepInclude(read.events.at(-1), { event: "final", seq: events.seq })
    }).pipe(Effect.scoped, kit([think("A "), think("knot"), say("It "), say("holds.")]))
  )

  it.effect("is on the row of a plan that waits for a decision, and again when that has come", () =>
    Effect.gen(function* () {
      const plan = yield* start({ agents })
      const waiting = yield* found(plan)
      assert.deepStrictEqual(waiting.stored, waiting.events)
      assert.isTrue(PlanGist.isWaiting(waiting.events))
      const plans = yield* Plans
      const [approval] = yield* plans.approvalsOf(anonymous, plan.plan_id)
      if (approval === undefined) return assert.fail("Nothing waits")
      yield* plans.decide({ caller: anonymous, isAdmin: false }, approval, { decision: "reject" })
      yield* TestKit.pass("1 second")
      const { stored } = yield* found(plan)
      assert.isFalse(stored === undefined || PlanGist.isWaiting(stored))
    }).pipe(Effect.scoped, kit([say("I ask."), callTool("bob_ask", { input: "7" })], [wait("1 minute")]))
  )

  it.effect("of a plan that runs is what it was when the plan waited last", () =>
    Effect.gen(function* () {
      const { read, stored } = yield* found(yield* start({}))
      assert.deepStrictEqual([stored, read], [PlanGist.upTo(1), { seq: 1, events: [] }])
    }).pipe(Effect.scoped, kit([say("text"), wait("1 minute")]))
  )

  it.effect("is not stored where it is too long, and is read from the events", () =>
    Effect.gen(function* () {
      const { events, read, stored } = yield* found(yield* start({}))
      assert.isUndefined(stored)
      assert.deepStrictEqual(read.events.slice(0, -1), events.events)
    }).pipe(Effect.scoped, kit(Array.from({ length: 50 }, (_, index) => think(`${index}`.padEnd(100_000)))))
  )
})
