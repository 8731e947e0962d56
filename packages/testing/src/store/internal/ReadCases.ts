import type { Message } from "@bowline/domain/session/Message"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { Page } from "@bowline/runtime/unstable/store/Page"
import { noPlan, type RecentCursor, SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** The pages of a list, each read behind the one before. */
const pagesOf = <A, E, R>(read: (cursor: number | undefined) => Effect.Effect<Page<A>, E, R>) =>
  Effect.gen(function* () {
    const pages: Array<ReadonlyArray<A>> = []
    for (let cursor: number | null | undefined; cursor !== null;) {
      const page: Page<A> = yield* read(cursor)
      pages.push(page.items)
      cursor = page.next
    }
    return pages
  })

const pageRequest = (limit: number, cursor: number | undefined) =>
  cursor === undefined ? { limit } : { limit, cursor }

const texts = (messages: ReadonlyArray<Message>) =>
  messages.flatMap(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : part.type)))

export const readCases: ReadonlyArray<StoreCase> = [
  {
    title: "shows plans and sessions to nobody but their owner",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const sessions = yield* SessionStore
      const external_session_id = yield* Given.newName
      const { plan, session_id } = yield* Given.create({ external_session_id })
      const stranger = yield* Given.newOwner
      const missing = yield* Given.failureOf(plans.get(stranger, plan.plan_id))
      assert.equal(missing?._tag, "NotFound")
      for (const id of [session_id, external_session_id]) {
        assert.equal((yield* sessions.find(plan.caller, id)).session_id, session_id)
        assert.equal((yield* Given.failureOf(sessions.find(stranger, id)))?._tag, "NotFound")
      }
      const nothing = { items: [], next: null }
      assert.deepEqual(yield* plans.list(stranger, {}, { limit: 10 }), nothing)
      assert.deepEqual(yield* plans.list(stranger, { session: session_id }, { limit: 10 }), nothing)
      assert.deepEqual(yield* sessions.list(stranger, { limit: 10 }), nothing)
    })
  },
  {
    title: "gives the echo of a plan to its owner, and finds the plan by it, until it gets another one or none",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const echo = { type: "response", instructions: "Say \u0000.", input: [null, 1.5, { a: [] }] }
      const { plan } = yield* Given.create({ echo, owner: yield* Given.newOwner })
      const { plan: silent } = yield* Given.create()
      assert.deepEqual(yield* store.echo(plan.caller, plan.plan_id), echo)
      const missing = (owner: typeof plan.caller, id: typeof plan.plan_id) =>
        Effect.map(Given.failureOf(store.echo(owner, id)), (error) => assert.equal(error?._tag, "NotFound"))
      yield* missing(yield* Given.newOwner, plan.plan_id)
      yield* missing(silent.caller, silent.plan_id)
      const found = (type: string) =>
        Effect.map(store.list(plan.caller, { echo: { type } }, { limit: 10 }), ({ items }) =>
          items.map(({ plan_id }) => plan_id)
        )
      assert.deepEqual(yield* Effect.all(["response", "respons", 'response","'].map(found)), [[plan.plan_id], [], []])
      yield* store.setEcho(plan.plan_id, { type: "other", said: "\u0000" })
      assert.deepEqual(yield* store.echo(plan.caller, plan.plan_id), { type: "other", said: "\u0000" })
      assert.deepEqual(yield* Effect.all(["response", "other"].map(found)), [[], [plan.plan_id]])
      yield* store.setEcho(plan.plan_id, null)
      yield* missing(plan.caller, plan.plan_id)
      yield* store.setEcho(plan.plan_id, { type: "other" })
      yield* missing(plan.caller, plan.plan_id)
      assert.deepEqual(yield* found("other"), [])
      assert.equal((yield* store.get(plan.caller, plan.plan_id)).plan_id, plan.plan_id)
    })
  },
  {
    title:
      "keeps a session that no plan has made: its messages in order, more of them behind a fence, and other metadata",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const owner = yield* Given.newOwner
      const external_session_id = yield* Given.newName
      const { new_session_id: session_id } = yield* Given.newPlan()
      const messageOf = Effect.fnUntraced(function* (role: "user" | "assistant", text: string) {
        const change = yield* Given.message(role, { type: "text", text })
        return change._tag === "MessageAppended" ? change.message : assert.fail()
      })
      const [first, second] = [yield* messageOf("user", "a\u0000"), yield* messageOf("assistant", "b")]
      yield* sessions.open(owner, {
        session_id,
        external_session_id,
        metadata: { desk: "\u0000" },
        messages: [first, second],
        prior_summary: "before",
        at: Given.at,
        expires_at: Given.farOff
      })
      const found = yield* sessions.find(owner, external_session_id)
      assert.deepEqual([found.session_id, found.message_count, found.created_at], [session_id, 2, Given.at])
      assert.equal((yield* Given.failureOf(sessions.find(yield* Given.newOwner, session_id)))?._tag, "NotFound")
      const [listed] = (yield* sessions.list(owner, { limit: 10 })).items
      assert.deepEqual([listed?.session_id, listed?.first_question, listed?.last_plan], [session_id, null, null])
      assert.deepEqual(yield* sessions.metadata(session_id), { desk: "\u0000" })
      const summary = { text: null, covered_seq: 0, priors: ["before"], prior_seq: 1 }
      assert.deepEqual(yield* sessions.summary(session_id), summary)
      yield* sessions.describe(session_id, {})
      assert.deepEqual(yield* sessions.metadata(session_id), {})

      const third = yield* messageOf("user", "c")
      const stale = yield* Given.failureOf(sessions.append(session_id, 7, [third], Given.later))
      assert.equal(stale?._tag, "LeaseLost")
      const expiry = Effect.map(sessions.find(owner, session_id), ({ expires_at }) => Date.parse(expires_at))
      const before = yield* expiry
      yield* sessions.append(session_id, 0, [third], Given.later)
      assert.equal((yield* expiry) - before, Date.parse(Given.later) - Date.parse(Given.at))
      const { items } = yield* sessions.messages(session_id, { limit: 10 })
      assert.deepEqual(
        items.map(({ compacted, created_at, message_id, parts, plan_id, role, seq }) => [
          { message_id, parts, role },
          [seq, plan_id, created_at, compacted]
        ]),
        [first, second, third].map((message, index) => [
          message,
          [index + 1, noPlan, index === 2 ? Given.later : Given.at, false]
        ])
      )
      // A plan goes on behind them.
      const { session_id: same } = yield* Given.create({ owner, external_session_id })
      assert.equal(same, session_id)
      const { plan: silent } = yield* Given.create()
      assert.deepEqual(yield* sessions.metadata(silent.new_session_id), {})
    })
  },
  {
    title: "knows no session by a name that no caller can give",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      for (const name of ["\0", "s\0", ""]) {
        assert.equal((yield* Given.failureOf(sessions.find(yield* Given.newOwner, name)))?._tag, "NotFound")
      }
    })
  },
  {
    title: "lists plans newest first, of one session, in one state and before one plan, page by page",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const [a, b, c] = [yield* Given.create({ owner }), yield* Given.create({ owner }), yield* Given.create({ owner })]
      const d = yield* Given.create({ owner, external_session_id: yield* Given.newName })
      yield* Effect.flatMap(Given.hold(b), Given.finish)
      const ids = (filter: Parameters<typeof store.list>[1], limit: number) =>
        Effect.map(
          pagesOf((cursor) => store.list(owner, filter, pageRequest(limit, cursor))),
          (pages) => pages.map((page) => page.map(({ plan_id }) => plan_id))
        )
      const [idA, idB, idC, idD] = [a, b, c, d].map(({ plan }) => plan.plan_id)
      assert.deepEqual(yield* ids({}, 3), [[idD, idC, idB], [idA]])
      assert.deepEqual(yield* ids({}, 2), [
        [idD, idC],
        [idB, idA]
      ])
      assert.deepEqual(yield* ids({ states: ["queued"] }, 2), [[idD, idC], [idA]])
      assert.deepEqual(yield* ids({ states: ["completed"] }, 2), [[idB]])
      assert.deepEqual(yield* ids({ session: d.session_id }, 2), [[idD]])
      assert.deepEqual(yield* ids({ session: d.session_id, states: ["failed"] }, 2), [[]])
      const [beforeC, beforeNone] = [c.plan.plan_id, (yield* Given.newPlan()).plan_id]
      assert.deepEqual(yield* ids({ behind: beforeC }, 1), [[idB], [idA]])
      assert.deepEqual(yield* ids({ behind: beforeC, states: ["queued"] }, 2), [[idA]])
      assert.deepEqual(yield* ids({ behind: beforeNone }, 2), [[]])
    })
  },
  {
    title: "shows the whole question of a plan, and its first 200 characters in a list",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const [short, long] = ["Why?", `${"\u{1F600}".repeat(250)} ${"why ".repeat(10_000)}?`]
      const owner = yield* Given.newOwner
      yield* Given.create({ owner, question: short })
      const stored = yield* Given.create({ owner, question: long })
      assert.equal((yield* Given.get(stored)).question, long)
      const { items } = yield* store.list(owner, {}, { limit: 10 })
      assert.deepEqual(
        items.map(({ question_preview }) => question_preview),
        ["\u{1F600}".repeat(200), short]
      )
      assert(items.every((plan) => !("question" in plan)))
    })
  },
  {
    title: "shows the trace of a plan, and none of a plan without one",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const traced = yield* Given.create({ owner })
      const alone = yield* Given.create({ owner, route: { hops: 0, via: [] } })
      assert.equal((yield* Given.get(traced)).trace_id, "trace")
      assert.equal((yield* Given.get(alone)).trace_id, null)
      const { items } = yield* store.list(owner, {}, { limit: 10 })
      assert.deepEqual(
        items.map(({ trace_id }) => trace_id),
        [null, "trace"]
      )
    })
  },
  {
    title: "shows how a plan ended in a list, without its answer",
    test: Effect.gen(function* () {
      const store = yield* PlanStore
      const owner = yield* Given.newOwner
      const held = yield* Given.createHeld({ owner })
      yield* Given.settle(held)
      const { final } = yield* Given.get(held)
      assert(final !== null && final.text !== "")
      const { text: _, output: __, ...shown } = final
      const { items } = yield* store.list(owner, {}, { limit: 10 })
      assert.deepEqual(items[0]?.final, shown)
    })
  },
  {
    title: "lists sessions newest first, page by page",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const owner = yield* Given.newOwner
      const external_session_id = yield* Given.newName
      const first = yield* Given.create({ owner, external_session_id, agents: [Given.agent("a")] })
      const second = yield* Given.create({ owner, agents: [Given.agent("b")] })
      const third = yield* Given.create({ owner })
      yield* Given.create({ owner, external_session_id })
      const pages = yield* pagesOf((cursor) => sessions.list(owner, pageRequest(2, cursor)))
      assert.deepEqual(
        pages.map((page) => page.map(({ session_id }) => session_id)),
        [[third.session_id, second.session_id], [first.session_id]]
      )
      const [listed] = pages.at(-1) ?? []
      assert(listed !== undefined)
      const { first_question: _, last_plan: __, ...session } = listed
      assert.deepEqual(session, yield* sessions.find(owner, external_session_id))
    })
  },
  {
    title: "lists sessions by their last activity, page by page, with their first question and their newest plan",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const owner = yield* Given.newOwner
      const external_session_id = yield* Given.newName
      const question = "\u{1f600}".repeat(250)
      const first = yield* Given.createHeld({
        owner,
        external_session_id,
        question,
        created_at: "2026-01-01T00:00:00.000Z"
      })
      yield* Given.settle(first)
      const others = yield* Effect.forEach(["2026-01-03", "2026-01-03", "2026-01-02"], (day) =>
        Given.create({ owner, created_at: `${day}T00:00:00.000Z` })
      )
      const again = yield* Given.create({
        owner,
        external_session_id,
        question: "And now?",
        created_at: "2026-01-04T00:00:00.000Z"
      })
      yield* Given.create()
      const page = (cursor?: RecentCursor) =>
        sessions.recent(owner, cursor === undefined ? { limit: 2 } : { limit: 2, cursor })
      const newest = yield* page()
      assert(newest.next !== null)
      const older = yield* page(newest.next)
      assert.equal(older.next, null)
      const [one, two, three] = others.map(({ session_id }) => session_id)
      const all = [...newest.items, ...older.items]
      assert.deepEqual(
        all.map(({ session_id }) => session_id),
        [first.session_id, two, one, three]
      )
      assert.equal(all[0]?.first_question, "\u{1f600}".repeat(200))
      assert.deepEqual(all[0].last_plan, { plan_id: again.plan.plan_id, state: "queued", stage: "queue" })
      assert.deepEqual(yield* sessions.recent(yield* Given.newOwner, { limit: 2 }), { items: [], next: null })
    })
  },
  {
    title: "numbers the messages of a session in the order of the commits, across its plans",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const first = yield* Given.createHeld(session)
      yield* Given.write(first, [yield* Given.appended("one"), yield* Given.appended("two \u0000 \ud800 é")])
      yield* Given.write(first, [yield* Given.appended("three")])
      yield* Given.finish(first)
      const second = yield* Given.createHeld(session)
      yield* Given.write(second, [yield* Given.appended("four")])

      const { session_id } = first
      const pages = yield* pagesOf((cursor) => sessions.messages(session_id, pageRequest(3, cursor)))
      assert.deepEqual(pages.map(texts), [["one", "two \u0000 \ud800 é", "three"], ["four"]])
      const backwards = yield* pagesOf((cursor) =>
        sessions.messages(session_id, { ...pageRequest(3, cursor), newestFirst: true })
      )
      assert.deepEqual(backwards.map(texts), [["four", "three", "two \u0000 \ud800 é"], ["one"]])
      const history = yield* sessions.history(session_id)
      assert.deepEqual(history, pages.flat())
      assert.deepEqual(
        history.map(({ seq, plan_id, created_at, compacted }) => ({ seq, plan_id, created_at, compacted })),
        [1, 2, 3, 4].map((seq) => ({
          seq,
          plan_id: (seq < 4 ? first : second).plan.plan_id,
          created_at: Given.at,
          compacted: false
        }))
      )
      assert.equal((yield* sessions.find(session.owner, session_id)).message_count, 4)
    })
  },
  {
    title: "replays the very bytes of the events, from the row that holds what comes behind any cursor",
    test: Effect.gen(function* () {
      const stored = yield* Given.create()
      const rows = [
        Given.row(2, "plan", '{"b":1,  "a":"\\u0000\\ud800 é 🪢","a":2}'),
        Given.row(3, "text.delta", '{"step":1,"attempt":1,"deltas":["a","","\\n"]}', 3),
        Given.row(6, "done")
      ]
      yield* Given.write(stored, [], rows.slice(0, 1))
      yield* Given.write(stored, [], rows.slice(1))
      assert.deepEqual((yield* Given.eventsOf(stored)).slice(1), rows)
      const seqsBehind = (after: number) =>
        Effect.map(Given.eventsOf(stored, after), (found) => found.map(({ seq }) => seq))
      assert.deepEqual(yield* seqsBehind(1), [2, 3, 6])
      assert.deepEqual(yield* seqsBehind(2), [3, 6])
      assert.deepEqual(yield* seqsBehind(3), [3, 6])
      assert.deepEqual(yield* seqsBehind(4), [3, 6])
      assert.deepEqual(yield* seqsBehind(5), [6])
      assert.deepEqual(yield* seqsBehind(6), [])
      assert.deepEqual(yield* Given.eventsOf(stored, 2, 1), [rows[1]])
    })
  },
  {
    title: "ends a page of events behind 1 MiB, and counts each frame of a run: whoever reads on holds no more at once",
    test: Effect.gen(function* () {
      const stored = yield* Given.create()
      const large = JSON.stringify({ content: "é".repeat(400_000) })
      const run = JSON.stringify({ step: 1, attempt: 1, deltas: Array.from({ length: 20_000 }, () => "") })
      yield* Given.write(
        stored,
        [],
        [
          Given.row(2, "task.artifact", large),
          Given.row(3, "task.artifact", large),
          Given.row(4, "task.artifact", large),
          Given.row(5, "text.delta", run, 20_000),
          Given.row(20_005, "done")
        ]
      )
      const pages: Array<ReadonlyArray<number>> = []
      for (let after = 1; after < 20_005;) {
        const page = yield* Given.eventsOf(stored, after)
        pages.push(page.map(({ seq }) => seq))
        after = page.reduce((last, { count, seq }) => Math.max(last, seq + count - 1), after + 1)
      }
      assert.deepEqual(pages, [[2, 3], [4, 5], [20_005]])
    })
  }
]
