import { isSettled, type PlanFacts, type PlanId, summarize } from "@bowline/domain/plan/Plan"
import { InvalidRequest, NotFound, SessionBusy } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, Duration, Effect, Layer, Option } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { GatewayId } from "../config/GatewayId.ts"
import { PlanExists, planOf } from "../store/Idempotency.ts"
import { type Guard, type PlanChange, type PlanCommit, type PlanFilter, PlanStore } from "../store/PlanStore.ts"
import type { CredentialStore } from "../store/CredentialStore.ts"
import type { LoginStore } from "../store/LoginStore.ts"
import * as MemoryCredentialStore from "./MemoryCredentialStore.ts"
import * as MemoryLoginStore from "./MemoryLoginStore.ts"
import { ApprovalStore } from "../store/ApprovalStore.ts"
import { fromEvents } from "../store/EventRow.ts"
import { type Notice, Notices } from "../store/Notices.ts"
import { append, apply, coverage, makePlan, makeSession, Memory } from "./internal/Memory.ts"
import { abandoned } from "./internal/MemoryTakeOvers.ts"
import type { PlanRecord, SessionRecord } from "./internal/MemoryRecords.ts"
import { makeApprovalStore } from "./internal/MemoryApprovals.ts"
import { makeLeaseStore } from "./internal/MemoryLeases.ts"
import { dropReplaced, makeSessionStore } from "./internal/MemorySessions.ts"
import { makeTaskStore } from "./internal/MemoryTasks.ts"
import { makePushStore } from "./internal/MemoryPushes.ts"
import { newestFirst } from "./internal/NewestFirst.ts"
import { LeaseStore } from "../store/LeaseStore.ts"
import { newPrior } from "../store/PriorSummaries.ts"
import { PushStore } from "../store/PushStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { shown } from "../store/StoredRequest.ts"
import { summary } from "../store/StoredAgent.ts"
import { TaskStore } from "../store/TaskStore.ts"

/** How long a replica counts as alive before its first renewal. */
const firstBreath = Duration.seconds(10)

const notNew = new InvalidRequest({
  issues: [{ path: ["history"], message: "Expected no history: the session is there already, and has its own" }]
})

/** Whether the history that the compactions summarise is still the session's. */
const isCurrent = (session: SessionRecord, changes: ReadonlyArray<PlanChange>): boolean =>
  changes.every((change) => change._tag !== "Compacted" || coverage(session, change.compaction) !== undefined)

/** The first 200 characters, none of them cut in half. */
const preview = (question: string): string => Array.from(question.slice(0, 400)).slice(0, 200).join("")

const passes = (plan: PlanFacts, { error_code, model, q, session, since, states, until }: PlanFilter): boolean =>
  (session === undefined || plan.session_id === session) &&
  (states === undefined || states.includes(plan.state)) &&
  (model === undefined || plan.model === model) &&
  (error_code === undefined || plan.error?.code === error_code) &&
  (since === undefined || plan.created_at >= since) &&
  (until === undefined || plan.created_at < until) &&
  (q === undefined || plan.question.toLowerCase().includes(q.toLowerCase()))

/** Whether an earlier try of the same commit has ended the plan. Another replica may have ended it at the same time: behind other events. */
const isSettledBy = ({ events: stored, plan }: PlanRecord, { changes, events }: PlanCommit): boolean =>
  (events.length === 0 || events.at(-1)?.seq === stored.at(-1)?.seq) &&
  changes.some(
    (change) => change._tag === "Settled" && change.at === plan.finished_at && change.outcome.state === plan.state
  )

/** Whether an earlier try of the same commit has been stored: its answer was lost. */
const isStoredBy = ({ events }: PlanRecord, { messages }: SessionRecord, commit: PlanCommit): boolean => {
  const lastEvent = commit.events.at(-1)?.seq
  const lastMessage = commit.changes.findLast((change) => change._tag === "MessageAppended")?.message.message_id
  return (
    (lastEvent !== undefined && events.some(({ seq }) => seq === lastEvent)) ||
    (lastMessage !== undefined && messages.some(({ message_id }) => message_id === lastMessage))
  )
}

const guardOf = ({ fence, plan, replica }: PlanRecord): Guard =>
  plan.state === "queued" ? { _tag: "Queued", replica, fence } : { _tag: "Held", fence }

const makePlanStore = (memory: Memory, notices: Notices["Service"]): PlanStore["Service"] => ({
  create: Effect.fnUntraced(function* (plan, maxQueue) {
    const { idempotency, caller, request, plan_id } = plan
    const createdAt = fromMillis(plan.createdAt)
    const taken = idempotency === null ? undefined : memory.findKey(caller, idempotency.key, createdAt)
    if (idempotency !== null && taken !== undefined) {
      return yield* new PlanExists({ plan_id: yield* planOf(taken, idempotency) })
    }
    const known = request.session_id === undefined ? undefined : memory.findSession(caller, request.session_id)
    if (known !== undefined && plan.messages.length > 0) return yield* notNew
    const session = known ?? makeSession(memory, plan)
    if (request.preferences.on_busy === "reject" && session.open.size > 0) {
      return yield* new SessionBusy({ message: "The session has a plan that is not over" })
    }
    // One of them has the session, or is about to.
    if (session.open.size > maxQueue) {
      return yield* new SessionBusy({ message: `${maxQueue} plans wait for the session` })
    }
    const prior = yield* Effect.fromResult(newPrior(session, request.prior_summary ?? ""))
    memory.add(session)
    const now = yield* Clock.currentTimeMillis
    if (!memory.replicas.has(plan.replica)) {
      memory.replicas.set(plan.replica, now + Duration.toMillis(firstBreath))
    }
    session.last_active_at = createdAt
    const dropped = plan.replaces ? dropReplaced(memory, session, plan.echo) : []
    for (const agent of request.agents) session.agents.set(agent.name, summary(agent))
    for (const message of plan.messages) append(session, plan_id, message, createdAt)
    if (prior !== "") session.priors.push(prior)
    const record = makePlan(memory, plan, session, now)
    const created = known === undefined
    record.events.push(
      ...fromEvents(1, createdAt, [
        { event: "session", data: { external_session_id: session.external_session_id, created } }
      ])
    )
    memory.plans.set(plan_id, record)
    memory.takeKey(plan)
    const fence =
      plan.leaseTtl !== undefined && session.open.size === 0 && !memory.hasLease(session, now)
        ? memory.lease(session, plan.replica, now + Duration.toMillis(plan.leaseTtl))
        : undefined
    if (fence !== undefined) apply(memory, record, session, { _tag: "Held", fence })
    session.plans.add(plan_id)
    session.open.add(record)
    memory.open.set(plan_id, record)
    memory.grow(session, { ...request, history: plan.messages, echo: plan.echo })
    memory.touch(session)
    return { session_id: session.session_id, external_session_id: session.external_session_id, created, fence, dropped }
  }),
  guardOf: (id, replica) =>
    Effect.sync(() => {
      const record = memory.open.get(id)
      return record?.replica === replica ? Option.some(guardOf(record)) : Option.none()
    }),
  findByKey: (owner, idempotency, now) =>
    Effect.suspend(() => {
      const taken = memory.findKey(owner, idempotency.key, now)
      return taken === undefined ? Effect.succeedNone : Effect.asSome(planOf(taken, idempotency))
    }),
  commit: (batch) =>
    Effect.suspend(() => {
      const refused = new Set<PlanId>()
      const told: Array<Notice> = []
      const write = (commit: PlanCommit) => {
        const { plan_id, session_id, guard, changes, events } = commit
        const record = memory.plans.get(plan_id)
        const session = memory.sessions.get(session_id)
        if (record !== undefined && isSettledBy(record, commit)) return
        if (record === undefined || session === undefined || !memory.holds(record, guard)) {
          refused.add(plan_id)
          return
        }
        if (isStoredBy(record, session, commit)) return
        if (!isCurrent(session, changes)) {
          refused.add(plan_id)
          return
        }
        for (const change of changes) {
          apply(memory, record, session, change)
          if (change._tag === "Released") told.push({ _tag: "LeaseReleased", session_id })
          if (change._tag === "HandedOver" && guard._tag === "Queued") told.push({ _tag: "PlansLeft" })
        }
        if (isSettled(record.plan)) {
          memory.open.delete(plan_id)
          session.open.delete(record)
        }
        record.events.push(...events)
        memory.grow(session, [changes, events])
        memory.touch(session)
      }
      for (const commit of batch) write(commit)
      return told.length === 0 ? Effect.succeed(refused) : Effect.as(Effect.ignore(notices.publish(told)), refused)
    }),
  get: (owner, id) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      if (record?.owner !== owner) return Effect.fail(new NotFound({ what: "plan" }))
      const session = memory.sessions.get(record.plan.session_id)
      if (session !== undefined) memory.touch(session)
      return Effect.succeed({ ...record.plan, request: shown(record.request.request) })
    }),
  echo: (owner, id) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      return record?.owner !== owner || record.echo === null
        ? Effect.fail(new NotFound({ what: "plan" }))
        : Effect.succeed(record.echo)
    }),
  dropEcho: (id) =>
    Effect.sync(() => {
      const record = memory.plans.get(id)
      if (record !== undefined) record.echo = null
    }),
  list: (owner, filter, page) =>
    Effect.sync(() => {
      const { before } = filter
      const end = before === undefined ? Infinity : (memory.plans.get(before)?.ordinal ?? 0)
      const found = Array.from(memory.plans.values()).filter(
        (record) => record.owner === owner && record.ordinal < end && passes(record.plan, filter)
      )
      return newestFirst(found, page, ({ plan: { question, ...plan } }) => summarize(plan, preview(question)))
    }),
  events: (id, after, limit) =>
    Effect.sync(() => {
      const rows = memory.plans.get(id)?.events ?? []
      return rows.filter((row) => row.seq + row.count - 1 > after).slice(0, limit)
    }),
  reading: (id) => {
    const count = (difference: number) =>
      Effect.sync(() => {
        const record = memory.plans.get(id)
        const session = record && memory.sessions.get(record.plan.session_id)
        if (session === undefined) return
        session.readers += difference
        memory.touch(session)
      })
    return Effect.acquireRelease(count(1), () => count(-1))
  },
  queued: (replica) =>
    Effect.sync(() =>
      Array.from(memory.open.values()).flatMap((record) =>
        record.replica === replica && record.plan.state === "queued" ? [record.plan.plan_id] : []
      )
    ),
  takeOver: (replica, leaseTtl, limit, forgotten = []) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      memory.replicas.set(replica, now + Duration.toMillis(leaseTtl))
      let taken = 0
      return Array.from(memory.open.values()).flatMap((record) => {
        const session = memory.sessions.get(record.plan.session_id)
        if (taken === limit || session === undefined) return []
        const isForgotten = record.plan.state === "queued" && forgotten.includes(record.plan.plan_id)
        if (!isForgotten && !memory.isLeft(record, session, replica, now)) return []
        taken++
        const isQueued = record.plan.state === "queued"
        const isDead = !record.isHandedOver && record.replica !== replica
        record.replica = replica
        record.fence = isQueued ? record.fence + 1 : memory.lease(session, replica, now + Duration.toMillis(leaseTtl))
        if (!isQueued && isDead) record.deaths++
        record.isHandedOver = false
        return abandoned(record, session, guardOf(record), now)
      })
    }),
  requestAbort: (id, reason) =>
    Effect.suspend(() => {
      const record = memory.open.get(id)
      if (record === undefined) return Effect.void
      record.abort ??= reason
      return notices.publish([{ _tag: "AbortRequested", plan_id: id }])
    }),
  abortRequests: (replica) =>
    Effect.sync(() =>
      Array.from(memory.open.values()).flatMap(({ plan, replica: owner, abort }) =>
        owner === replica && abort !== undefined ? [{ plan_id: plan.plan_id, reason: abort }] : []
      )
    ),
  spent: (owner, day) => Effect.sync(() => memory.spentOn(owner, day)),
  isDurable: false,
  isWritable: Effect.succeed(true)
})

interface Options {
  /** How long a session is kept after its last plan. */
  readonly sessionTtl: Duration.Duration
  /** How much the store keeps, in bytes that it estimates. Above, the sessions go that nobody has used for the longest time. */
  readonly maxBytes?: number
}

/** Some 20,000 short plans. */
const defaultBytes = 134_217_728

/** All stores in this process, without a database: what they hold is lost with the process, the id of the gateway too. */
export const layerWith = ({
  sessionTtl,
  maxBytes = defaultBytes
}: Options): Layer.Layer<
  | PlanStore
  | TaskStore
  | PushStore
  | ApprovalStore
  | SessionStore
  | LeaseStore
  | GatewayId
  | CredentialStore
  | LoginStore
  | Notices
> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const uuid = yield* UuidGenerator
      const notices = yield* Notices
      const memory = new Memory(maxBytes)
      return Context.make(PlanStore, makePlanStore(memory, notices)).pipe(
        Context.add(TaskStore, makeTaskStore(memory)),
        Context.add(PushStore, makePushStore(memory)),
        Context.add(ApprovalStore, makeApprovalStore(memory)),
        Context.add(SessionStore, makeSessionStore(memory, sessionTtl)),
        Context.add(LeaseStore, makeLeaseStore(memory, notices)),
        Context.add(GatewayId, uuid())
      )
    })
  ).pipe(
    Layer.provideMerge(Notices.layerMemory),
    Layer.merge(MemoryCredentialStore.layer),
    Layer.merge(MemoryLoginStore.layer)
  )

/**
 * The same; sessions are kept for 30 days.
 *
 * @example
 * ```ts
 * import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
 * import { Duration } from "effect"
 *
 * export const Stores =
 *   process.env["SHORT"] === undefined ? MemoryStore.layer : MemoryStore.layerWith({ sessionTtl: Duration.hours(1) })
 * ```
 */
export const layer = layerWith({ sessionTtl: Duration.days(30) })
