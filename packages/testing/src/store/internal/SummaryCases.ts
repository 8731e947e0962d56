import { type NewMessage, MessageId } from "@bowline/domain/session/Message"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { type Compaction, SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const said = Effect.fnUntraced(function* (role: "user" | "assistant", text: string) {
  const uuid = yield* UuidGenerator
  const message: NewMessage = { message_id: MessageId.make(`msg_${uuid()}`), role, parts: [{ type: "text", text }] }
  return message
})

const aSession = Effect.all({ owner: Given.newOwner, external_session_id: Given.newName })

const compactionOf = Effect.fnUntraced(function* (
  { session_id }: Given.Stored,
  through: MessageId,
  summary: string,
  given: Partial<Compaction> = {}
) {
  const { covered_seq, prior_seq } = yield* (yield* SessionStore).summary(session_id)
  const compaction: Compaction = { id: `by ${summary}`, summary, through, covered_seq, prior_seq, ...given }
  return compaction
})

/** What there is to see of a session's summary, and which messages are in prompts, and compacted. */
const snapshot = Effect.fnUntraced(function* ({ plan, session_id }: Given.Stored) {
  const sessions = yield* SessionStore
  const { items } = yield* sessions.messages(session_id, { limit: 100 })
  return {
    shown: (yield* sessions.find(plan.caller, session_id)).summary,
    summary: yield* sessions.summary(session_id),
    inPrompt: (yield* sessions.history(session_id)).map(({ seq }) => seq),
    compacted: items.filter(({ compacted }) => compacted).map(({ seq }) => seq)
  }
})

/** A plan that holds a session of three messages. */
const heldWithThree = Effect.fnUntraced(function* (given: Parameters<typeof Given.createHeld>[0] = {}) {
  const held = yield* Given.createHeld(given)
  for (const text of ["one", "two", "three"]) yield* Given.write(held, [yield* Given.appended(text)])
  const messages = yield* (yield* SessionStore).history(held.session_id)
  const [one, two, three] = messages.map(({ message_id }) => message_id)
  assert(one !== undefined && two !== undefined && three !== undefined)
  return { held, ids: { one, two, three } }
})

const asChange = (compaction: Compaction): PlanChange => ({ _tag: "Compacted", compaction })

export const summaryCases: ReadonlyArray<StoreCase> = [
  {
    title: "begins a new session with the history that its caller gives, of the plan that made it",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const messages = [yield* said("user", "one \u0000 \ud800"), yield* said("assistant", "two")]
      const stored = yield* Given.create({ messages })
      const { items } = yield* sessions.messages(stored.session_id, { limit: 10 })
      const { plan_id } = stored.plan
      assert.deepEqual(
        items,
        messages.map((message, index) => ({
          ...message,
          seq: index + 1,
          plan_id,
          created_at: Given.at,
          compacted: false
        }))
      )
      assert.deepEqual(yield* sessions.history(stored.session_id), items)
      assert.equal((yield* sessions.find(stored.plan.caller, stored.session_id)).message_count, 2)
      const held = yield* Given.hold(stored)
      yield* Given.write(held, [yield* Given.appended("three")])
      assert.deepEqual(
        (yield* sessions.history(stored.session_id)).map(({ seq }) => seq),
        [1, 2, 3]
      )
    })
  },
  {
    title: "refuses a history for a session that there is, and writes nothing; of two at once one has begun it",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const session = yield* aSession
      const plans = yield* Effect.forEach(["a", "b"], (text) =>
        Effect.flatMap(said("user", text), (message) => Given.newPlan({ ...session, messages: [message] }))
      )
      const results = yield* Effect.forEach(plans, (plan) => Given.failureOf(store.create(plan, 32)), {
        concurrency: "unbounded"
      })
      const [refused] = results.filter((failure) => failure !== undefined)
      assert.equal(results.filter((failure) => failure === undefined).length, 1)
      assert.equal(refused?._tag, "InvalidRequest")
      assert.deepEqual(refused?._tag === "InvalidRequest" && refused.issues.map(({ path }) => path), [["history"]])
      const { session_id, message_count } = yield* (yield* SessionStore).find(
        session.owner,
        session.external_session_id
      )
      assert.equal(message_count, 1)
      assert.equal((yield* store.list(session.owner, { session: session_id }, { limit: 10 })).items.length, 1)
    })
  },
  {
    title: "keeps each thing that callers say of earlier history once, and shows it until a summary says it",
    test: Effect.gen(function* () {
      const session = yield* aSession
      const { held, ids } = yield* heldWithThree({ ...session, prior_summary: "was \u0000" })
      const seen = "was " + ((yield* snapshot(held)).shown?.at(4) ?? "")
      assert.deepEqual((yield* snapshot(held)).summary, { text: null, covered_seq: 0, priors: [seen], prior_seq: 1 })
      yield* Given.create({ ...session, prior_summary: "was \u0000" })
      yield* Given.create({ ...session, prior_summary: "also" })
      assert.equal((yield* snapshot(held)).shown, `${seen}\n\nalso`)

      const compaction = yield* compactionOf(held, ids.two, "all of it")
      yield* Given.create({ ...session, prior_summary: "late" })
      yield* Given.write(held, [asChange(compaction)], [Given.row(2, "usage")])
      assert.deepEqual((yield* snapshot(held)).summary, {
        text: "all of it",
        covered_seq: 2,
        priors: ["late"],
        prior_seq: 3
      })
      for (const prior_summary of ["all of it", "also", "late"]) yield* Given.create({ ...session, prior_summary })
      assert.equal((yield* snapshot(held)).shown, "late\n\nall of it")
    })
  },
  {
    title: "keeps nothing of what a caller was shown and sends back, and what is new behind it",
    test: Effect.gen(function* () {
      const session = yield* aSession
      const { held, ids } = yield* heldWithThree({ ...session, prior_summary: " ## Goal\n\n17 crates\n" })
      const shown = Effect.map(snapshot(held), ({ shown }) => shown ?? "")
      const sendBack = Effect.flatMap(shown, (prior_summary) => Given.create({ ...session, prior_summary }))
      yield* Given.create({ ...session, prior_summary: "also" })
      const first = yield* shown
      assert.equal(first, "## Goal\n\n17 crates\n\nalso")
      for (let sent = 0; sent < 3; sent++) yield* sendBack
      assert.equal(yield* shown, first)

      yield* Given.write(held, [asChange(yield* compactionOf(held, ids.two, "all"))], [Given.row(2, "usage")])
      yield* Given.create({ ...session, prior_summary: `${first}\n\nlate` })
      assert.equal(yield* shown, "late\n\nall")
      for (let sent = 0; sent < 3; sent++) yield* sendBack
      yield* Given.create({ ...session, prior_summary: `${first}\n\nlate` })
      yield* Given.create({ ...session, prior_summary: " \n" })
      assert.equal(yield* shown, "late\n\nall")
      yield* Given.write(held, [asChange(yield* compactionOf(held, ids.three, "late"))], [Given.row(3, "usage")])
      yield* Given.create({ ...session, prior_summary: "late" })
      assert.equal(yield* shown, "late")
    })
  },
  {
    title: "refuses more of earlier history than a session keeps, and writes nothing of that plan",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const refused = Effect.fnUntraced(function* (priors: ReadonlyArray<string>, tooMuch: string) {
        const session = yield* aSession
        for (const prior_summary of priors) yield* Given.create({ ...session, prior_summary }, 64)
        const before = yield* (yield* SessionStore).find(session.owner, session.external_session_id)
        const failure = yield* Given.failureOf(
          store.create(yield* Given.newPlan({ ...session, prior_summary: tooMuch, created_at: Given.later }), 64)
        )
        assert(failure?._tag === "InvalidRequest")
        assert.deepEqual(
          failure.issues.map(({ path }) => path),
          [["prior_summary"]]
        )
        assert.deepEqual(yield* (yield* SessionStore).find(session.owner, session.external_session_id), before)
        yield* Given.create({ ...session, prior_summary: priors.at(-1) ?? "" }, 64)
      })
      yield* refused(
        Array.from({ length: 32 }, (_, index) => `number ${index}`),
        "one more"
      )
      yield* refused(
        ["a", "b", "c", "d"].map((letter) => letter.repeat(100_000)),
        "e"
      )
    })
  },
  {
    title: "writes a compaction of a plan with its events, once, and keeps every message",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const { held, ids } = yield* heldWithThree()
      const first = yield* compactionOf(held, ids.two, "first")
      const commit = Given.commitOf(held, [asChange(first)], [Given.row(2, "usage")])
      assert.deepEqual(yield* store.commit([commit]), new Map())
      const after = {
        shown: "first",
        summary: { text: "first", covered_seq: 2, priors: [], prior_seq: 0 },
        inPrompt: [3],
        compacted: [1, 2]
      }
      assert.deepEqual(yield* snapshot(held), after)
      assert.equal((yield* Given.eventsOf(held)).length, 2)
      assert.equal((yield* (yield* SessionStore).find(held.plan.caller, held.session_id)).message_count, 3)

      const second = yield* compactionOf(held, ids.three, "second")
      yield* Given.write(
        held,
        [asChange(second), yield* Given.appended("four"), Given.settled()],
        [Given.row(3, "usage")]
      )
      assert.deepEqual(yield* snapshot(held), {
        shown: "second",
        summary: { text: "second", covered_seq: 3, priors: [], prior_seq: 0 },
        inPrompt: [4],
        compacted: [1, 2, 3]
      })
    })
  },
  {
    title: "writes nothing of a plan whose compaction follows another summary than there is, or covers nothing new",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const { held, ids } = yield* heldWithThree()
      const stale = yield* compactionOf(held, ids.three, "stale")
      yield* Given.write(held, [asChange(yield* compactionOf(held, ids.two, "first"))], [Given.row(2, "usage")])
      const before = yield* snapshot(held)
      const elsewhere = (yield* heldWithThree()).ids.three
      const refused = [
        stale,
        yield* compactionOf(held, ids.two, "nothing new"),
        yield* compactionOf(held, ids.one, "less"),
        yield* compactionOf(held, elsewhere, "another session's")
      ]
      for (const compaction of refused) {
        const commit = Given.commitOf(held, [asChange(compaction), yield* Given.appended("x")], [Given.row(3, "step")])
        assert.deepEqual(yield* store.commit([commit]), Given.refused(held.plan.plan_id), compaction.summary)
      }
      assert.deepEqual(yield* snapshot(held), before)
      assert.equal((yield* Given.eventsOf(held)).length, 2)
    })
  },
  {
    title: "writes a compaction without a plan for whoever has the session's fence, if it follows what is there",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const { held, ids } = yield* heldWithThree({ prior_summary: "before" })
      yield* Given.finish(held)
      const { session_id } = held
      const fence = yield* Given.acquire(session_id, yield* Given.newReplica)
      const compaction = yield* compactionOf(held, ids.two, "now")
      const lost = (fence: number, compaction: Compaction) =>
        Effect.map(Given.failureOf(sessions.compact(session_id, fence, compaction)), (error) => error?._tag)
      assert.equal(yield* lost(held.fence, compaction), "LeaseLost")
      assert.equal(yield* lost(fence, { ...compaction, covered_seq: 1 }), "LeaseLost")
      assert.deepEqual((yield* snapshot(held)).inPrompt, [1, 2, 3])
      yield* sessions.compact(session_id, fence, compaction)
      yield* sessions.compact(session_id, fence, compaction)
      assert.equal(yield* lost(fence, { ...compaction, summary: "another" }), "LeaseLost")
      assert.deepEqual(yield* snapshot(held), {
        shown: "now",
        summary: { text: "now", covered_seq: 2, priors: [], prior_seq: 1 },
        inPrompt: [3],
        compacted: [1, 2]
      })
    })
  },
  {
    title: "knows no summary of a session that there is not",
    test: Effect.gen(function* () {
      const { new_session_id } = yield* Given.newPlan()
      assert.deepEqual(yield* (yield* SessionStore).summary(new_session_id), {
        text: null,
        covered_seq: 0,
        priors: [],
        prior_seq: 0
      })
    })
  }
]
