import { anonymous } from "@bowline/domain/caller/CallerName"
import { EntryId } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { PlanInbox, type Wait } from "../../src/planner/PlanInbox.ts"
import { emptyInbox, type Settlement, type StoredText } from "../../src/store/InboxStore.ts"
import { Journal } from "../../src/stream/Journal.ts"
import { LivePlan } from "../../src/stream/LivePlan.ts"

const plan_id = PlanId.make(`plan_${"1".repeat(36)}`)
const session_id = SessionId.make(`session_${"0".repeat(36)}`)
const task_id = TaskId.make("2".repeat(36))

const idOf = (name: string) => EntryId.make(`entry_${name.padEnd(36, "0")}`)

const textOf = (text: string, isTold: boolean): StoredText => ({
  entry_id: idOf(text),
  by: anonymous,
  text,
  when: "boundary",
  else: "ask",
  isWithdrawn: false,
  isTold
})

const answerOf = (text: string, round: number): Settlement => ({
  task_id,
  round,
  given: { entry_id: idOf(text), by: anonymous, entry: { type: "answer", task_id, round, text } },
  tool_digest: null
})

const wait = (round: number): Wait => ({ task_id, kind: "answer", round, expires_at: "2027-01-01T00:00:00.000Z" })

const make = Effect.map(Effect.scope, (scope) => {
  const ignore = () => undefined
  const live = new LivePlan(scope, ignore)
  const journal = new Journal({
    plan: { plan_id, session_id },
    guard: { _tag: "Held", fence: 1 },
    head: { seq: 0, at: "2026-01-02T03:04:05.678Z" },
    gist: undefined,
    live,
    notify: ignore,
    onStopped: ignore,
    seen: 0,
    onBehind: ignore
  })
  const inbox = new PlanInbox(plan_id, journal, 0, { read: () => Effect.void, onWait: ignore })
  return { inbox, journal }
})

const next = (journal: Journal) => journal.take("1970-01-01T00:00:00.000Z") ?? assert.fail("Nothing is written")

describe("what a plan has heard", () => {
  it.effect("is taken in its order, though more was read while the database was asked about the first of it", () =>
    Effect.gen(function* () {
      const { inbox, journal } = yield* make
      inbox.receive({ ...emptyInbox(plan_id), count: 1, texts: [textOf("a", false)] })
      const taking = yield* Effect.forkChild(
        inbox.take(1, () => []),
        { startImmediately: true }
      )
      const proposed = next(journal)
      inbox.receive({ ...emptyInbox(plan_id), count: 2, texts: [textOf("a", true), textOf("b", false)] })
      proposed.unread()
      yield* Effect.yieldNow
      next(journal).stored(false)
      const taken = yield* Fiber.join(taking)
      assert.deepStrictEqual(
        taken.map(({ text }) => text),
        ["a", "b"]
      )
      assert.deepStrictEqual(inbox.texts, [])
    }).pipe(Effect.scoped)
  )

  it.effect("answers the question that it is about, and no later one: then it is untaken", () =>
    Effect.gen(function* () {
      const { inbox } = yield* make
      inbox.receive({ ...emptyInbox(plan_id), count: 1, settlements: [answerOf("a", 1)] })
      const second = yield* Effect.forkChild(inbox.wait(wait(2)), { startImmediately: true })
      assert.isUndefined(second.pollUnsafe())
      inbox.receive({ ...emptyInbox(plan_id), count: 2, settlements: [answerOf("a", 1), answerOf("b", 2)] })
      const settlement = yield* Fiber.join(second)
      assert.strictEqual(settlement.round, 2)
      assert.deepStrictEqual(inbox.use(settlement), [
        { _tag: "EntryChanged", entry_id: idOf("b"), state: "taken", step: null, moved_to: null }
      ])
      assert.deepStrictEqual(inbox.left(true), { asking: [], untaken: [idOf("a")] })
    }).pipe(Effect.scoped)
  )

  it.effect("is left untaken by a plan that ends before it has used it", () =>
    Effect.gen(function* () {
      const { inbox } = yield* make
      const texts = [textOf("a", true), { ...textOf("b", true), else: "reject" as const }]
      inbox.receive({ ...emptyInbox(plan_id), count: 3, texts, settlements: [answerOf("c", 1)] })
      assert.deepStrictEqual(
        inbox.left(true).asking.map(({ text }) => text),
        ["a"]
      )
      assert.deepStrictEqual(inbox.left(true).untaken, [idOf("b"), idOf("c")])
      assert.deepStrictEqual(inbox.left(false), { asking: [], untaken: [idOf("a"), idOf("b"), idOf("c")] })
    }).pipe(Effect.scoped)
  )
})
