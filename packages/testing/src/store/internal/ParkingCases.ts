import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { NewEntry } from "@bowline/domain/plan/Inbox"
import { SessionBusy } from "@bowline/domain/plan/Refusal"
import * as CallerTokens from "@bowline/runtime/unstable/auth/CallerTokens"
import { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import { toMark } from "@bowline/runtime/unstable/store/AccountWait"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import { OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Clock, Context, Effect, Exit, Layer, Option, Redacted } from "effect"
import assert from "node:assert/strict"
import { LeaseTime, type StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

type Held = Given.Stored & { readonly fence: number }

const parking = (held: Held, seen: number, ...given: Parameters<typeof Given.parked>): PlanCommit => ({
  ...Given.commitOf(held, Given.parked(...given), [Given.row(3, "parked")]),
  inbox: { seen, closes: true }
})

/** A plan of which a call waits for a decision, or for what is given. */
const waiting = Effect.fnUntraced(function* (
  wait?: Parameters<typeof Given.waitOpened>[1],
  given?: Parameters<typeof Given.createHeld>[0]
) {
  const held = yield* Given.createHeld(given)
  const task_id = yield* Given.newTask
  yield* Given.write(held, [Given.waitOpened(task_id, wait)], [Given.row(2, "approval.requested")])
  const approve: NewEntry = { type: "decision", task_id, decision: "approve" }
  return { held, plan_id: held.plan.plan_id, task_id, approve }
})

/** The same, parked. */
const park = Effect.fnUntraced(function* (...given: Parameters<typeof waiting>) {
  const waits = yield* waiting(...given)
  assert.deepEqual(yield* (yield* PlanStore).commit([parking(waits.held, 0)]), new Map())
  return waits
})

const say = Effect.fnUntraced(function* (...given: Parameters<typeof Given.accepting>) {
  const accepting = yield* Given.accepting(...given)
  const accepted = yield* (yield* InboxStore).accept(accepting)
  return { entry_id: accepting.entry_id, parked: accepted._tag === "Accepted" ? accepted.parked : accepted._tag }
})

const text = (said: string): NewEntry => ({ type: "text", text: said, when: "boundary", else: "ask" })

/** Whether the replica gets this plan, with so many places. */
const isTaken = Effect.fnUntraced(function* (held: Held, replica: string, places: number) {
  const taken = yield* (yield* PlanStore).takeOver(replica, Given.ttl, 10_000, [], places)
  return taken.some(({ plan }) => plan.plan_id === held.plan.plan_id)
})

const names = Effect.fnUntraced(function* (held: Held) {
  return (yield* Given.eventsOf(held)).map(({ event, seq }) => [seq, event])
})

export const parkingCases: ReadonlyArray<StoreCase> = [
  {
    title: "wakes a plan for an account, of its owner alone, and shows the call that waits",
    test: Effect.gen(function* () {
      const inboxes = yield* InboxStore
      const call = yield* Given.newTask
      const mark = toMark({ account: null, task_id: call })
      const { held, plan_id, task_id } = yield* park({ kind: "account", round: 2, mark, tool: "rigger_ask" })
      const { caller } = held.plan
      assert.deepEqual(yield* inboxes.accountWaits(caller), [{ plan_id, task_id, round: 2, mark }])
      assert.deepEqual(yield* inboxes.accountWaits(yield* Given.newOwner), [])
      const shown = yield* inboxes.waiting(caller, { kind: "account" }, { limit: 10 })
      assert.deepEqual(
        shown.items.map(({ kind, task_id, tool }) => [kind, task_id, tool]),
        [["account", call, "rigger_ask"]]
      )
      const all = yield* inboxes.waiting(undefined, { kind: "account" }, { limit: 1_000 })
      assert.ok(all.items.some((wait) => wait.plan_id === plan_id))
      const entry = { type: "account", task_id, call } as const
      assert.equal((yield* say(plan_id, entry, caller)).parked, "woken")
      assert.deepEqual(yield* inboxes.accountWaits(caller), [])
      const { items } = yield* inboxes.list(plan_id, caller, { limit: 10 })
      assert.deepEqual(
        items.map(({ task_id, type }) => [type, task_id]),
        [["account", call]]
      )
      const [content] = yield* inboxes.read([{ plan_id, seen: 0 }])
      assert.deepEqual(content?.settlements[0]?.given?.entry, entry)
      assert.equal((yield* Given.takeOver(held, yield* Given.newReplica)).abandoned.wokenBy, "account")
    })
  },
  {
    title: "wakes a plan whose account is there, where the process that has stored it has died before it could",
    test: Effect.scoped(
      Effect.gen(function* () {
        const accounts = yield* AccountStore
        const inboxes = yield* InboxStore
        const process = (wakes: boolean) =>
          Layer.build(
            Layer.fresh(CallerTokens.layer).pipe(
              Layer.provide([
                Notices.layerMemory,
                Layer.succeed(SecretKey, Option.some(Redacted.make(new Uint8Array(32)))),
                Layer.succeed(AccountStore, accounts),
                Layer.succeed(InboxStore, {
                  ...inboxes,
                  accountWaits: (owner) => (wakes ? inboxes.accountWaits(owner) : Effect.interrupt)
                })
              ])
            )
          ).pipe(Effect.map((built) => Context.get(built, CallerTokens.CallerTokens)))
        const [dying, next] = [yield* process(false), yield* process(true)]
        const now = yield* Clock.currentTimeMillis
        const open = (owner: CallerName) => Effect.map(inboxes.accountWaits(owner), (waits) => waits.length)
        for (const account of [null, "books"]) {
          const task_id = yield* Given.newTask
          const { held } = yield* park({ kind: "account", mark: toMark({ account, task_id }) })
          const { caller } = held.plan
          const lent = { owner: caller, account, sealed: `of ${caller}` }
          if (account === null) {
            const token = { caller, value: Redacted.make("a.b.c"), until: now + 60_000 }
            assert.ok(Exit.hasInterrupts(yield* Effect.exit(dying.keep(token, true))))
          } else {
            yield* accounts.connect({ owner: caller, account }, { ...lent, scopes: [], expires_at: null, now })
            assert.ok(Exit.hasInterrupts(yield* Effect.exit(dying.tell(lent))))
          }
          const isNews = Effect.map(accounts.news, (news) => news.some(({ owner }) => owner === caller))
          assert.deepEqual([yield* open(caller), yield* isNews], [1, true])
          yield* next.tellLeft
          assert.deepEqual([yield* open(caller), yield* isNews], [0, false])
          assert.equal((yield* Given.takeOver(held, yield* Given.newReplica)).abandoned.wokenBy, "account")
        }
      })
    )
  },
  {
    title: "parks a plan once: nobody has it, and its session stays its own",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const leases = yield* LeaseStore
      const [owner, external_session_id] = [yield* Given.newOwner, yield* Given.newName]
      const session = { owner, external_session_id }
      const { held } = yield* park({}, session)
      const { deadline_at, stage, state } = yield* Given.get(held)
      assert.deepEqual([state, stage, deadline_at], ["waiting", "approval", null])
      // Its answer was lost.
      assert.deepEqual(yield* plans.commit([parking(held, 0)]), new Map())
      assert.equal((yield* Given.eventsOf(held)).length, 3)
      const late = Given.commitOf(held, [], [Given.row(4, "step")])
      assert.deepEqual(yield* plans.commit([late]), Given.refused(held.plan.plan_id))
      const other = yield* Given.newReplica
      assert.deepEqual(yield* leases.acquire(held.session_id, other, Given.ttl), Option.none())
      assert.equal(yield* isTaken(held, other, 10), false)
      yield* Given.abandon
      assert.equal(yield* isTaken(held, other, 10), false)
      const reject = { ...Given.preferences, on_busy: "reject" as const }
      assert((yield* Given.failureOf(Given.create({ ...session, preferences: reject }))) instanceof SessionBusy)
      const next = yield* Given.newPlan({ ...session, leaseTtl: Given.ttl })
      assert.equal((yield* plans.create(next, 32)).fence, undefined)
      assert.equal(yield* (yield* SessionStore).delete(held.session_id), false)
      const { items } = yield* plans.list(owner, { states: ["waiting"] }, { limit: 10 })
      assert.deepEqual(
        items.map(({ plan_id }) => plan_id),
        [held.plan.plan_id]
      )
      const query = { owner, since: Given.at, until: Given.later, stepMs: 60_000 }
      const { open, plans: counts } = yield* (yield* OverviewStore).read(query)
      assert.equal(counts.waiting, 1)
      assert.deepEqual(
        open
          .map(({ plans, stage, state }) => [state, stage, plans])
          .toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
        [
          ["queued", "queue", 1],
          ["waiting", "approval", 1]
        ]
      )
    })
  },
  {
    title: "parks no plan to which something was said that it has not read",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const { approve, held, plan_id } = yield* waiting()
      yield* say(plan_id, approve)
      assert.deepEqual(yield* plans.commit([parking(held, 0)]), new Map([[plan_id, "unread"]]))
      assert.equal((yield* Given.get(held)).state, "running")
      assert.equal((yield* Given.eventsOf(held)).length, 2)
      assert.deepEqual(yield* plans.commit([parking(held, 1)]), new Map())
    })
  },
  {
    title: "parks no plan that somebody has asked to abort",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const { held, plan_id } = yield* waiting()
      yield* plans.requestAbort(plan_id, "cancelled")
      assert.deepEqual(yield* plans.commit([parking(held, 0)]), new Map([[plan_id, "unread"]]))
      assert.equal((yield* Given.get(held)).state, "running")
      yield* Given.finish(held)
    })
  },
  {
    title: "wakes a parked plan by what settles its wait, and gives it the rest of its time when it has a place",
    test: Effect.gen(function* () {
      const { advance } = yield* LeaseTime
      const { approve, held, plan_id } = yield* park()
      assert.equal((yield* say(plan_id, approve)).parked, "woken")
      const woken = yield* Given.get(held)
      assert.deepEqual([woken.state, woken.stage, woken.deadline_at], ["running", "queue", null])
      const replica = yield* Given.newReplica
      assert.equal(yield* isTaken(held, replica, 0), false)
      yield* advance(Given.ttl)
      assert.equal((yield* say(plan_id, approve)).parked, "Known")
      const { abandoned, fence } = yield* Given.takeOver(held, replica)
      assert(fence > held.fence)
      assert.deepEqual([abandoned.wokenBy, abandoned.deaths], ["entry", 0])
      const left = Given.parkedLeft
      assert(abandoned.leftMs <= left && abandoned.leftMs > left - 5_000, String(abandoned.leftMs))
      assert.deepEqual(
        abandoned.inbox.settlements.map(({ given }) => given?.entry),
        [approve]
      )
      const { deadline_at } = yield* Given.get(held)
      assert.notEqual(deadline_at, null)
      // Until its readers are told, the next process knows it, too.
      const next = yield* Given.newReplica
      yield* Given.abandon
      const again = yield* Given.takeOver(held, next)
      assert.deepEqual([again.abandoned.wokenBy, again.abandoned.plan.deadline_at], ["entry", deadline_at])
      yield* Given.write(again, [{ _tag: "Woken" }], [Given.row(4, "woken")])
      yield* Given.abandon
      assert.equal((yield* Given.takeOver(held, yield* Given.newReplica)).abandoned.wokenBy, null)
    })
  },
  {
    title: "wakes a parked plan when its wait ends, and goes on with the preferences that it was parked with",
    test: Effect.gen(function* () {
      const { expire } = yield* InboxStore
      const due = "1969-12-31T23:59:59.000Z"
      const [late, timer] = [yield* waiting({ expires_at: due }), yield* waiting({ expires_at: due, kind: "timer" })]
      const preferences = { ...Given.preferences, on_disconnect: "continue" as const }
      const commits = [late, timer].map(({ held }) => parking(held, 0, Given.farOff, preferences))
      // Both rows are free: somebody else may have ended the waits in the meantime.
      const how = yield* (yield* PlanStore).commit(commits)
      if (how.size > 0) return
      const woken = new Set<string>()
      for (let isMore = true; isMore;) {
        const expired = yield* expire
        if (expired.plans.includes(late.plan_id)) assert.equal(expired.isWaking, true)
        for (const id of expired.plans) woken.add(id)
        isMore = expired.isMore
      }
      const replica = yield* Given.newReplica
      const taken = yield* (yield* PlanStore).takeOver(replica, Given.ttl, 10_000)
      const found = ({ plan_id }: typeof late) => taken.find(({ plan }) => plan.plan_id === plan_id)
      assert.deepEqual([found(late)?.wokenBy, found(timer)?.wokenBy], ["expired", "timer"])
      assert.deepEqual(found(late)?.preferences, preferences)
    })
  },
  {
    title: "writes the frame of a text for a parked plan itself, which does not wake for it",
    test: Effect.gen(function* () {
      const inboxes = yield* InboxStore
      const { approve, held, plan_id } = yield* park()
      const first = yield* say(plan_id, text("Hurry \u0000"))
      assert.equal(first.parked, "told")
      const second = yield* say(plan_id, text("No."))
      assert.equal((yield* Given.get(held)).state, "waiting")
      yield* inboxes.withdraw(plan_id, second.entry_id, undefined)
      assert.deepEqual((yield* names(held)).slice(2), [
        [3, "parked"],
        [4, "inbox.accepted"],
        [5, "inbox.accepted"],
        [6, "inbox.moved"]
      ])
      yield* say(plan_id, approve)
      const { abandoned } = yield* Given.takeOver(held, yield* Given.newReplica)
      assert.deepEqual(
        abandoned.inbox.texts.map(({ isTold, text }) => [text, isTold]),
        [["Hurry \u0000", true]]
      )
      assert.equal(abandoned.tail.at(-1)?.seq, 6)
    })
  },
  {
    title: "wakes a plan that waits for a time by a text",
    test: Effect.gen(function* () {
      const { held, plan_id } = yield* park({ kind: "timer" })
      assert.equal((yield* say(plan_id, text("Go on."))).parked, "woken")
      assert.equal((yield* Given.takeOver(held, yield* Given.newReplica)).abandoned.wokenBy, "entry")
    })
  },
  {
    title: "ends a wait for a time that a text has ended: its time wakes nobody",
    test: Effect.gen(function* () {
      const { held, plan_id, task_id } = yield* waiting({ kind: "timer", expires_at: "1969-12-31T23:59:59.000Z" })
      yield* Given.write(held, [{ _tag: "WaitEnded", task_id }])
      const { count } = (yield* (yield* InboxStore).read([{ plan_id, seen: -1 }]))[0] ?? assert.fail("No inbox")
      yield* (yield* InboxStore).expire
      const [after] = yield* (yield* InboxStore).read([{ plan_id, seen: -1 }])
      assert.equal(after?.count, count)
    })
  },
  {
    title: "wakes a parked plan that is to be aborted, which needs no place",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const [running, { held, plan_id }] = [yield* Given.createHeld(), yield* park()]
      yield* plans.requestAbort(running.plan.plan_id, "disconnect", true)
      assert.deepEqual(yield* plans.abortRequests(running.plan.replica), [])
      const preferences = { ...Given.preferences, on_disconnect: "continue" as const }
      for (const [kept, needsReader] of [
        [preferences, false],
        [Given.preferences, false]
      ] as const) {
        const stays = yield* waiting()
        yield* plans.commit([parking(stays.held, 0, Given.farOff, kept, needsReader)])
        yield* plans.requestAbort(stays.plan_id, "disconnect", true)
        assert.equal((yield* Given.get(stays.held)).state, "waiting")
        assert.equal((yield* plans.needingReaders).includes(stays.plan_id), false)
      }
      assert.equal((yield* plans.needingReaders).includes(plan_id), true)
      const count = yield* plans.parked
      yield* plans.requestAbort(plan_id, "disconnect", true)
      assert.equal(yield* plans.parked, count - 1)
      assert.equal((yield* plans.needingReaders).includes(plan_id), false)
      const replica = yield* Given.newReplica
      const taken = yield* plans.takeOver(replica, Given.ttl, 10_000, [], 0)
      assert.equal(taken.find(({ plan }) => plan.plan_id === plan_id)?.wokenBy, "abort")
      assert.deepEqual(yield* plans.abortRequests(replica), [{ plan_id, reason: "disconnect" }])
      assert.equal((yield* Given.get(held)).state, "running")
      for (const { guard, plan } of taken) {
        if (plan.plan_id === plan_id) yield* Given.settle({ ...held, guard })
      }
    })
  },
  {
    title: "shows that a session stays until the last wait of its plans, parked or not",
    test: Effect.gen(function* () {
      const sessions = yield* SessionStore
      const until = "2998-01-02T03:04:05.678Z"
      const { held } = yield* waiting({ expires_at: until }, { session_ttl_ms: 0 })
      const shown = Effect.map(sessions.find(held.plan.caller, held.session_id), ({ expires_at }) => expires_at)
      assert.equal(yield* shown, until)
      yield* (yield* PlanStore).commit([parking(held, 0, until)])
      assert.equal(yield* shown, until)
    })
  }
]
