import type { PlanId } from "@bowline/domain/plan/Plan"
import type { MessageId } from "@bowline/domain/session/Message"
import type { SessionId } from "@bowline/domain/session/Session"
import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { type PlanChange, type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Context, Effect } from "effect"
import type { Plant } from "../../src/simulation/Replica.ts"

type Plans = PlanStore["Service"]
type Leases = LeaseStore["Service"]

/** Every replica gets this in the place of its store of plans. */
const onPlans = (bug: (store: Plans, replica: string) => Partial<Plans>): Plant => ({
  stores: (stores, replica) => {
    const store = Context.get(stores, PlanStore)
    return Context.add(stores, PlanStore, { ...store, ...bug(store, replica) })
  }
})

const onLeases = (bug: (store: Leases) => Partial<Leases>): Plant => ({
  stores: (stores) => {
    const store = Context.get(stores, LeaseStore)
    return Context.add(stores, LeaseStore, { ...store, ...bug(store) })
  }
})

/** Writes whatever fence the writer has: the store is told that it is the newest one. */
const missingFence = (): Plant => {
  const newest = new Map<SessionId, number>()
  const know = (session: SessionId, fence: number) =>
    void newest.set(session, Math.max(fence, newest.get(session) ?? 0))
  const fenced = (commit: PlanCommit): PlanCommit => {
    const { guard, session_id } = commit
    if (guard._tag !== "Held") return commit
    know(session_id, guard.fence)
    return { ...commit, guard: { ...guard, fence: newest.get(session_id) ?? guard.fence } }
  }
  return onPlans((store) => ({
    commit: (batch) => Effect.suspend(() => store.commit(batch.map(fenced))),
    takeOver: (...given) =>
      Effect.tap(store.takeOver(...given), (taken) =>
        Effect.sync(() => {
          for (const { guard, plan } of taken) if (guard._tag === "Held") know(plan.session_id, guard.fence)
        })
      )
  }))
}

/** An answer that did not come is taken for a yes. */
const lostAnswerBelieved = (): Plant =>
  onPlans((store) => ({
    commit: (batch) => Effect.orElseSucceed(store.commit(batch), (): ReadonlySet<PlanId> => new Set())
  }))

/** The lease of a plan that is over stays. */
const skippedFinalizer = (): Plant => ({
  stores: (stores) => {
    const plans = Context.get(stores, PlanStore)
    const keep = (commit: PlanCommit) => ({
      ...commit,
      changes: commit.changes.filter(({ _tag }) => _tag !== "Released")
    })
    return stores.pipe(
      Context.add(PlanStore, { ...plans, commit: (batch) => plans.commit(batch.map(keep)) }),
      Context.add(LeaseStore, { ...Context.get(stores, LeaseStore), release: () => Effect.void })
    )
  }
})

/** Leases are renewed when they are over already. */
const lateRenewal = (): Plant =>
  onLeases((store) => {
    let count = 0
    return {
      renew: (replica, ttl) =>
        count++ % 8 === 0 ? store.renew(replica, ttl) : Effect.succeed(new Map<SessionId, number>())
    }
  })

/** A commit counts as stored before the store has it. */
const earlyFrames = (): Plant =>
  onPlans((store) => ({
    commit: (batch) =>
      batch.some(({ changes, events }) => changes.length > 0 || events.length === 0)
        ? store.commit(batch)
        : Effect.as(Effect.forkDetach(Effect.delay(Effect.ignore(store.commit(batch)), "20 millis")), new Set<PlanId>())
  }))

/** Whoever takes over a plan does not learn of its open calls. */
const secondDispatch = (): Plant =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((plan) => ({ ...plan, tasks: plan.tasks.filter(({ state }) => state !== "running") }))
      )
  }))

/** An abort is looked for when a notice says so, and never else. */
const noticeBelieved = (): Plant => ({
  stores: (stores) => {
    const plans = Context.get(stores, PlanStore)
    const notices = Context.get(stores, Notices)
    let isTold = false
    return stores.pipe(
      Context.add(Notices, {
        ...notices,
        subscribe: (hear) =>
          notices.subscribe((heard) => {
            if (heard._tag === "AbortRequested") isTold = true
            hear(heard)
          })
      }),
      Context.add(PlanStore, {
        ...plans,
        abortRequests: (replica) =>
          Effect.suspend(() => {
            const hasNews = isTold
            isTold = false
            return hasNews ? plans.abortRequests(replica) : Effect.succeed([])
          })
      })
    )
  }
})

/** A fault of the first key puts the second one aside. */
const wrongCredential = (): Plant => ({
  stores: (stores) => {
    const store = Context.get(stores, CredentialStore)
    const other = (credential: string | null) =>
      credential && credential.replace(/[12]$/, (end) => `${3 - Number(end)}`)
    return Context.add(stores, CredentialStore, {
      ...store,
      open: (scope, ...given) => store.open({ ...scope, credential: other(scope.credential) }, ...given)
    })
  }
})

/** A summary covers one message more than it should: the question of the turn behind it. */
const cutTurn = (): Plant => {
  const histories = new Map<SessionId, Array<MessageId>>()
  return onPlans((store) => ({
    commit: (batch) =>
      Effect.suspend(() => {
        const moved = batch.map((commit) => {
          const history = histories.get(commit.session_id) ?? []
          histories.set(commit.session_id, history)
          const changes = commit.changes.map((change): PlanChange => {
            if (change._tag === "MessageAppended" && !history.includes(change.message.message_id)) {
              history.push(change.message.message_id)
            }
            if (change._tag !== "Compacted") return change
            const through = history[history.indexOf(change.compaction.through) + 1] ?? change.compaction.through
            return { ...change, compaction: { ...change.compaction, through } }
          })
          return { ...commit, changes }
        })
        return store.commit(moved)
      })
  }))
}

/** Nobody learns who reads a plan at another replica. */
const readerUncounted = (): Plant => ({
  stores: (stores) => {
    const notices = Context.get(stores, Notices)
    return Context.add(stores, Notices, {
      ...notices,
      publish: (all) => notices.publish(all.filter(({ _tag }) => _tag !== "Reading"))
    })
  }
})

/** Bugs that systems like this one have had, each by what it is, with the rules of which one finds it. */
export const bugs: Readonly<
  Record<string, { readonly plant: () => Plant; readonly rules: ReadonlyArray<string>; readonly seed: number }>
> = {
  "a missing fence": { plant: missingFence, rules: ["oneEnd", "histories", "streams"], seed: 1 },
  "a retry of a commit taken for stored": {
    plant: lostAnswerBelieved,
    rules: ["streams", "calls", "oneEnd"],
    seed: 22
  },
  "a finalizer skipped": { plant: skippedFinalizer, rules: ["oneEnd"], seed: 1 },
  "a lease renewed too late": { plant: lateRenewal, rules: ["trueEnd", "oneEnd", "inTime"], seed: 5 },
  "a delta published before it is stored": { plant: earlyFrames, rules: ["streams"], seed: 1 },
  "a double dispatch after a take-over": { plant: secondDispatch, rules: ["calls"], seed: 20 },
  "a lost notice believed": { plant: noticeBelieved, rules: ["inTime"], seed: 1 },
  "a window put on the wrong credential": { plant: wrongCredential, rules: ["spending"], seed: 1 },
  "a compaction that cuts a turn": { plant: cutTurn, rules: ["histories"], seed: 1 },
  "a reader counted as gone": { plant: readerUncounted, rules: ["trueEnd"], seed: 1 }
}
