import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Journal } from "../../src/stream/Journal.ts"
import { LivePlan } from "../../src/stream/LivePlan.ts"

const plan = {
  plan_id: PlanId.make("plan_00000000-0000-0000-0000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-0000-0000-000000000000")
}

const text = (delta: string) => ({ event: "text.delta", data: { step: 1, attempt: 1, delta } }) as const

const makeWith = (storesEach: boolean) =>
  Effect.map(Effect.scope, (scope) => {
    const live = new LivePlan(scope, () => {})
    const ignore = () => undefined
    return new Journal({
      plan,
      guard: { _tag: "Held", fence: 1 },
      head: { seq: 0, at: "2026-01-02T03:04:05.678Z" },
      gist: undefined,
      live,
      notify: ignore,
      onStopped: ignore,
      seen: 0,
      onBehind: ignore,
      storesEach
    })
  })
const make = makeWith(false)

/** What the journal writes next: the numbers and payloads of its events, and whether it closes the inbox. */
const next = (journal: Journal) => {
  const taken = journal.take("1970-01-01T00:00:00.000Z") ?? assert.fail("Nothing is written")
  const { events, inbox } = taken.commit
  return { ...taken, closes: inbox?.closes, events: events.map(({ payload, seq }) => [seq, payload]) }
}

const payload = (delta: string) => JSON.stringify(text(delta).data)

describe("a proposal whose plan has not read its whole inbox", () => {
  it.effect("leaves what was appended before it, which gets the same numbers again", () =>
    Effect.gen(function* () {
      const journal = yield* make
      const dropped: Array<string> = []
      journal.emit(text("before"))
      journal.propose([], [text("proposed")], () => dropped.push("proposed"))
      const first = next(journal)
      assert.isTrue(first.closes)
      first.unread()
      assert.deepStrictEqual(dropped, ["proposed"])
      const { closes, events } = next(journal)
      assert.deepStrictEqual([closes, events], [false, [[1, payload("before")]]])
    })
  )

  it.effect("takes the end of the plan along that was proposed meanwhile: it does not know what comes back", () =>
    Effect.gen(function* () {
      const journal = yield* make
      const dropped: Array<string> = []
      journal.emit(text("before"))
      journal.propose([], [text("pause")], () => dropped.push("pause"))
      const first = next(journal)
      journal.seal()
      journal.propose([], [text("end")], () => dropped.push("end"))
      first.unread()
      assert.deepStrictEqual(dropped, ["pause", "end"])
      assert.strictEqual(yield* journal.settled(() => true), "unread")
      const { closes, events } = next(journal)
      assert.deepStrictEqual([closes, events], [false, [[1, payload("before")]]])
    })
  )
})

describe("a journal that stores each append by itself", () => {
  it.effect(
    "gives them one after the other, what was deferred with the next one, and closes the inbox with what was proposed",
    () =>
      Effect.gen(function* () {
        const journal = yield* makeWith(true)
        const isStored = [() => false, () => false]
        journal.emit(text("a"))
        isStored[0] = journal.mark()
        journal.defer([], [text("b")])
        journal.append([{ _tag: "HandedOver" }], [text("c")])
        isStored[1] = journal.mark()
        journal.propose([{ _tag: "Released" }], [text("d")], () => undefined)
        const known = () => isStored.map((isIt) => isIt())

        const first = next(journal)
        first.stored(false)
        assert.deepStrictEqual([first.closes, first.events, known()], [false, [[1, payload("a")]], [true, false]])
        const second = next(journal)
        second.stored(false)
        assert.strictEqual(second.commit.changes[0]?._tag, "HandedOver")
        assert.deepStrictEqual([second.closes, second.events.length, known()], [false, 1, [true, true]])
        const third = next(journal)
        assert.deepStrictEqual([third.closes, third.events], [true, [[4, payload("d")]]])
        third.unread()
        journal.emit(text("e"))
        const { closes, events } = next(journal)
        assert.deepStrictEqual([closes, events], [false, [[4, payload("e")]]])
      })
  )
})
