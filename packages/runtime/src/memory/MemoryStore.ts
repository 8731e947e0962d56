import { summarize } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { Clock, Context, Duration, Effect, Layer, Option, Predicate, Struct } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { GatewayId } from "../config/GatewayId.ts"
import { pageOf } from "../store/EventRow.ts"
import { planOf } from "../store/Idempotency.ts"
import { type PlanFilter, PlanStore } from "../store/PlanStore.ts"
import type { CredentialStore } from "../store/CredentialStore.ts"
import type { AccountStore } from "../store/AccountStore.ts"
import * as MemoryAccountStore from "./MemoryAccountStore.ts"
import type { KeyStore } from "../store/KeyStore.ts"
import type { LoginStore } from "../store/LoginStore.ts"
import * as MemoryCredentialStore from "./MemoryCredentialStore.ts"
import * as MemoryKeyStore from "./MemoryKeyStore.ts"
import * as MemoryLoginStore from "./MemoryLoginStore.ts"
import { InboxStore } from "../store/InboxStore.ts"
import { type Notice, Notices } from "../store/Notices.ts"
import { gistOf, Memory, wake } from "./internal/Memory.ts"
import type { PlanRecord } from "./internal/MemoryRecords.ts"
import { makeCommit } from "./internal/MemoryCommits.ts"
import { makeCreate } from "./internal/MemoryCreations.ts"
import { guardOf, makeTakeOver } from "./internal/MemoryTakeOvers.ts"
import { makeInboxStore } from "./internal/MemoryInboxes.ts"
import { makeLeaseStore } from "./internal/MemoryLeases.ts"
import { makeSessionStore, previewOf } from "./internal/MemorySessions.ts"
import { makeTaskStore } from "./internal/MemoryTasks.ts"
import { makeFileStore } from "./internal/MemoryFiles.ts"
import { makeEffectStore } from "./internal/MemoryEffects.ts"
import { makeFeedbackStore, passesFeedback } from "./internal/MemoryFeedback.ts"
import { makePushStore } from "./internal/MemoryPushes.ts"
import { makeScheduleStore } from "./internal/MemorySchedules.ts"
import { makeOverviewStore } from "./internal/MemoryOverview.ts"
import { newestFirst } from "./internal/NewestFirst.ts"
import { LeaseStore } from "../store/LeaseStore.ts"
import { OverviewStore } from "../store/OverviewStore.ts"
import { FileStore } from "../store/FileStore.ts"
import { EffectStore } from "../store/EffectStore.ts"
import { FeedbackStore } from "../store/FeedbackStore.ts"
import { PushStore } from "../store/PushStore.ts"
import { ScheduleStore } from "../store/ScheduleStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { shownIn } from "../store/StoredRequest.ts"
import { TaskStore } from "../store/TaskStore.ts"

export type {
  AccountStore,
  CredentialStore,
  GatewayId,
  InboxStore,
  KeyStore,
  LeaseStore,
  LoginStore,
  Notices,
  OverviewStore,
  PlanStore,
  EffectStore,
  FeedbackStore,
  FileStore,
  PushStore,
  ScheduleStore,
  SessionStore,
  TaskStore
}

const hasAll = (found: unknown, entries: ReadonlyArray<readonly [key: string, value: string]>): boolean =>
  entries.every(
    ([key, value]) => Predicate.hasProperty(found, key) && Object.hasOwn(found, key) && found[key] === value
  )

const hasEcho = (echo: PlanRecord["echo"], { metadata = [], model, type }: NonNullable<PlanFilter["echo"]>): boolean =>
  hasAll(echo, Object.entries({ type, ...(model !== undefined && { model }) })) &&
  (metadata.length === 0 || (Predicate.hasProperty(echo, "metadata") && hasAll(echo.metadata, metadata)))

const passes = (record: PlanRecord, filter: PlanFilter): boolean => {
  const { key_id: keyOf, plan, tasks } = record
  const {
    agent,
    echo,
    error_code,
    key_id,
    metadata = [],
    model,
    q,
    reason,
    session,
    since,
    states,
    tool,
    until
  } = filter
  const calls = Array.from(tasks.values())
  return (
    passesFeedback(record, filter) &&
    (session === undefined || plan.session_id === session) &&
    (states === undefined || states.includes(plan.state)) &&
    (model === undefined || plan.model === model) &&
    (key_id === undefined || keyOf === key_id) &&
    (echo === undefined || hasEcho(record.echo, echo)) &&
    (error_code === undefined || plan.error?.code === error_code) &&
    (since === undefined || plan.created_at >= since) &&
    (until === undefined || plan.created_at < until) &&
    (q === undefined || plan.question.toLowerCase().includes(q.toLowerCase())) &&
    (reason === undefined || plan.error?.reason === reason) &&
    (tool === undefined || calls.some((call) => call.tool === tool)) &&
    (agent === undefined || calls.some((call) => call.agent === agent)) &&
    hasAll(plan.metadata, metadata)
  )
}

const makePlanStore = (
  memory: Memory,
  notices: Notices["Service"],
  eventsTtl: Duration.Duration
): PlanStore["Service"] => ({
  create: makeCreate(memory),
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
  commit: makeCommit(memory, notices),
  claimOf: (owner, key) => Effect.sync(() => Option.fromNullishOr(memory.claimOf(owner, key))),
  get: (owner, id) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      if (record?.owner !== owner) return Effect.fail(new NotFound({ what: "plan" }))
      const session = memory.sessions.get(record.plan.session_id)
      if (session !== undefined) memory.touch(session)
      return Effect.succeed({ ...record.plan, ...shownIn(record.request.request) })
    }),
  told: (owner, id) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      return record?.owner !== owner
        ? Effect.fail(new NotFound({ what: "plan" }))
        : Effect.succeed({ plan: record.plan, gist: gistOf(record), echo: record.echo })
    }),
  echo: (owner, id) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      return record?.owner !== owner || record.echo === null
        ? Effect.fail(new NotFound({ what: "plan" }))
        : Effect.succeed(record.echo)
    }),
  setEcho: (id, echo) =>
    Effect.sync(() => {
      const record = memory.plans.get(id)
      if (record !== undefined && record.echo !== null) record.echo = echo
    }),
  list: (owner, filter, page) =>
    Effect.sync(() => {
      const { behind } = filter
      const from = behind === undefined ? undefined : memory.plans.get(behind)?.ordinal
      const isBehind = ({ ordinal }: PlanRecord) =>
        behind === undefined || (from !== undefined && (page.oldestFirst === true ? ordinal > from : ordinal < from))
      const found = Array.from(memory.plans.values()).filter(
        (record) => record.owner === (owner ?? record.owner) && isBehind(record) && passes(record, filter)
      )
      return newestFirst(found, page, ({ plan: { question, ...plan } }) => summarize(plan, previewOf(question)))
    }),
  events: (id, after, limit) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const { plan, events = [] } = memory.plans.get(id) ?? {}
      const isKept = plan?.finished_at == null || Date.parse(plan.finished_at) > now - Duration.toMillis(eventsTtl)
      return isKept ? pageOf(events, after, limit) : []
    }),
  // What it keeps is bounded, and read without a copy.
  seal: () => Effect.void,
  sealLeft: () => Effect.succeed(false),
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
  abandoned: (replica) =>
    Effect.sync(() => ({
      queued: Array.from(memory.open.values()).flatMap((record) =>
        record.replica === replica && record.plan.state === "queued" ? [record.plan.plan_id] : []
      ),
      isAny: memory.open.size > 0
    })),
  takeOver: makeTakeOver(memory),
  requestAbort: (id, reason, isUnread = false) =>
    Effect.suspend(() => {
      const record = memory.open.get(id)
      const needsReader = record?.plan.state === "waiting" && record.needsReader
      if (record === undefined || (isUnread && !needsReader)) return Effect.void
      record.abort ??= reason
      const told: Notice = { _tag: "AbortRequested", plan_id: id }
      return notices.publish(wake(record, "abort") ? [told, { _tag: "PlansLeft" }] : [told])
    }),
  needingReaders: Effect.sync(() =>
    Array.from(memory.open.values()).flatMap(({ needsReader, plan }) =>
      plan.state === "waiting" && needsReader ? [plan.plan_id] : []
    )
  ),
  parked: Effect.sync(() => Array.from(memory.open.values()).filter(({ plan }) => plan.state === "waiting").length),
  abortRequests: (replica) =>
    Effect.sync(() =>
      Array.from(memory.open.values()).flatMap(({ plan, replica: owner, abort }) =>
        owner === replica && abort !== undefined ? [{ plan_id: plan.plan_id, reason: abort }] : []
      )
    ),
  spent: (owner, day) => Effect.sync(() => memory.spentOn(owner, day)),
  charge: (owner, charge) => Effect.sync(() => memory.charge(owner, null, charge)),
  keepText: (digest, text) => Effect.sync(() => void memory.texts.set(digest, text)),
  keptTexts: (digests) =>
    Effect.sync(() => {
      const wanted = new Set(digests)
      return new Map(Array.from(memory.texts).filter(([digest]) => wanted.has(digest)))
    }),
  recorded: (owner, id) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      if (record?.owner !== owner) return Effect.fail(new NotFound({ what: "plan" }))
      const calls = Array.from(record.tasks.values(), (task) =>
        Struct.pick(task, [
          ...(["task_id", "tool", "kind", "agent", "skill", "input", "state", "started_at"] as const),
          ...(["remote_task_id", "remote_context_id", "result", "error"] as const)
        ])
      )
      return Effect.succeed({ preferences: record.preferences, request: record.request.request, calls })
    }),
  isDurable: false,
  isWritable: Effect.succeed(true)
})

interface Options {
  /** How long a session is kept after its last plan. */
  readonly sessionTtl: Duration.Duration
  /** How long the events of a plan are kept after its end: as long as its session, unless it is given. */
  readonly eventsTtl?: Duration.Duration
  /** How much the store keeps, in bytes that it estimates. Above, the sessions go that nobody has used for the longest time. */
  readonly maxBytes?: number
}

/** Some 20,000 short plans. */
const defaultBytes = 134_217_728

/** The stores of a gateway, its id, and what its replicas say to each other. */
export type Stores =
  | PlanStore
  | TaskStore
  | PushStore
  | EffectStore
  | FeedbackStore
  | FileStore
  | OverviewStore
  | ScheduleStore
  | InboxStore
  | SessionStore
  | LeaseStore
  | GatewayId
  | CredentialStore
  | AccountStore
  | KeyStore
  | LoginStore
  | Notices

/** All stores in this process, without a database: what they hold is lost with the process, the id of the gateway too. */
export const layerWith = ({
  sessionTtl,
  eventsTtl = sessionTtl,
  maxBytes = defaultBytes
}: Options): Layer.Layer<Stores> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const uuid = yield* UuidGenerator
      const notices = yield* Notices
      const memory = new Memory(maxBytes)
      return Context.make(PlanStore, makePlanStore(memory, notices, eventsTtl)).pipe(
        Context.add(TaskStore, makeTaskStore(memory)),
        Context.add(PushStore, makePushStore(memory)),
        Context.add(EffectStore, makeEffectStore(memory)),
        Context.add(FeedbackStore, makeFeedbackStore(memory)),
        Context.add(FileStore, makeFileStore(memory, sessionTtl)),
        Context.add(ScheduleStore, makeScheduleStore(memory)),
        Context.add(OverviewStore, makeOverviewStore(memory)),
        Context.add(InboxStore, makeInboxStore(memory)),
        Context.add(SessionStore, makeSessionStore(memory, sessionTtl)),
        Context.add(LeaseStore, makeLeaseStore(memory, notices)),
        Context.add(GatewayId, uuid())
      )
    })
  ).pipe(
    Layer.provideMerge(Notices.layerMemory),
    Layer.merge(MemoryCredentialStore.layer),
    Layer.merge(MemoryAccountStore.layer),
    Layer.merge(MemoryKeyStore.layer),
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
