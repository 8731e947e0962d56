import type { AbortReason } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import {
  type Committed,
  type EffectClaim,
  type Guard,
  type NewPlan,
  type PlanCommit,
  PlanStore
} from "@bowline/runtime/unstable/store/PlanStore"
import { Clock, Duration, Effect, FiberSet, Layer, Option, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import { SqlError } from "effect/sql/SqlError"
import { newestFirst } from "../internal/NewestFirst.ts"
import { deadlines, makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { notify, Publisher } from "../notice/Publisher.ts"
import { adding, readSpent } from "../caller/internal/Charges.ts"
import { chargeOf } from "./internal/BatchRows.ts"
import { copyWebhooks, createPlan } from "./internal/CreatePlan.ts"
import { frameBytes, pageBytes } from "@bowline/runtime/unstable/store/EventRow"
import { eventTime, type StoredEvent, toEventRow } from "./internal/StoredEvent.ts"
import { listPlans } from "./internal/ListPlans.ts"
import { effectState } from "./internal/EffectRows.ts"
import { readRecorded } from "./internal/CallRows.ts"
import { findByKey } from "./internal/IdempotencyKeys.ts"
import {
  planColumns,
  type PlanRow,
  toPlan,
  toSummary,
  toWhole,
  wholeColumns,
  type WholeRow
} from "./internal/PlanRow.ts"
import { findBlock, readBlock } from "./SealedEvents.ts"
import { makeSealLeft, type SealLeft, sealPlans } from "./internal/SealPlans.ts"
import { lookForAbandoned, takeOverPlans } from "./internal/TakeOverPlans.ts"
import { wakes } from "./internal/Waking.ts"
import { writeBatch } from "./internal/WriteBatch.ts"

/** Whether a parked plan ends when nobody reads it: see `toParked`. Postgres cannot read into a document that contains an escaped NUL. */
const needsReader = `starts_with(p.preferences::text, '{"on_disconnect":"cancel"')`

const isOpen = "state in ('queued', 'running')"

/** Whether a plan that waited is handed over: another replica may take it over at once. */
const isQueuedNoMore = ({ changes, guard }: PlanCommit): boolean =>
  guard._tag === "Queued" && changes.some(({ _tag }) => _tag === "HandedOver")

/** Tells other replicas behind a commit of the sessions that it has released, whether it has left plans, and whether webhooks have deliveries. */
type Announce = (released: ReadonlyArray<SessionId>, isLeft: boolean, isTold: boolean) => void

type HowCommitted = ReadonlyMap<PlanId, Committed>

const isRefused = (committed: HowCommitted, { plan_id }: PlanCommit): boolean => committed.get(plan_id) === "refused"

const nextOf = ({ changes }: PlanCommit): NewPlan | undefined =>
  changes.find((change) => change._tag === "Continued")?.plan

/**
 * Writes a batch. A plan that is continued has one of its own: its end and the plan that continues it are one transaction, which an earlier
 * try may have made.
 */
const writeOnce = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  batch: ReadonlyArray<PlanCommit>,
  sessionTtl: Duration.Duration,
  next: NewPlan | undefined,
  isAgain: boolean
) {
  const rows = yield* writeBatch(sql, batch, sessionTtl, isAgain)
  const committed: HowCommitted = new Map(
    rows.flatMap((row) => (row.plan_id === null ? [] : [[row.plan_id, row.committed]]))
  )
  if (next !== undefined && batch.every(({ plan_id }) => (committed.get(plan_id) ?? "behind") === "behind")) {
    const [there] = yield* sql`select from plans where id = ${next.plan_id}`
    if (there === undefined) {
      yield* Effect.orDie(createPlan(sql, next, { maxQueue: Infinity, sessionTtl }))
      for (const { plan_id } of batch) yield* copyWebhooks(sql, plan_id, next)
    }
  }
  return {
    committed,
    released: rows.flatMap(({ released }) => released ?? []),
    isTold: rows.some(({ plan_id, released }) => plan_id === null && released === null)
  }
})

const isStoredTwice = (error: unknown): boolean => error instanceof SqlError && error.reason._tag === "UniqueViolation"

/**
 * An earlier try of the same batch may commit while this one waits for its locks. This one has an older snapshot: it inserts
 * what is stored already, or is refused because the earlier try has settled the plan. So it looks again before it believes that.
 */
const commit = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  batch: ReadonlyArray<PlanCommit>,
  sessionTtl: Duration.Duration,
  announce: Announce
) {
  const write = (commits: ReadonlyArray<PlanCommit>, next?: NewPlan, mayBeStored = false) => {
    const once = (isAgain: boolean) => {
      const written = writeOnce(sql, commits, sessionTtl, next, isAgain)
      return next === undefined ? written : sql.withTransaction(written)
    }
    return once(mayBeStored).pipe(
      Effect.catchIf(isStoredTwice, () => once(true)),
      Effect.map(({ committed, isTold, released }) => {
        const isLeft = commits.some((commit) => isQueuedNoMore(commit) && !isRefused(committed, commit))
        announce(released, isLeft, isTold)
        return committed
      })
    )
  }
  const writeAgain = (commits: ReadonlyArray<PlanCommit>, next?: NewPlan) =>
    Effect.flatMap(write(commits, next), (committed) => {
      const refused = commits.filter((commit) => isRefused(committed, commit))
      if (refused.length === 0) return Effect.succeed(committed)
      const others = Array.from(committed).filter(([, how]) => how !== "refused")
      return Effect.map(write(refused, next, true), (again): HowCommitted => new Map([...others, ...again]))
    })
  const continued = batch.filter((commit) => nextOf(commit) !== undefined)
  if (continued.length === 0) return yield* writeAgain(batch)
  const rest = batch.filter((commit) => nextOf(commit) === undefined)
  const ends = yield* Effect.forEach(continued, (commit) => writeAgain([commit], nextOf(commit)))
  const all = rest.length === 0 ? ends : [...ends, yield* writeAgain(rest)]
  return new Map(all.flatMap((committed) => Array.from(committed)))
})

interface GuardRow {
  readonly state: "queued" | "running"
  readonly fence: number
}

const toGuard = (replica: ReplicaId, { fence, state }: GuardRow): Guard =>
  state === "queued" ? { _tag: "Queued", replica, fence } : { _tag: "Held", fence }

/** Since when plans must have ended for their events to be kept, in milliseconds since 1970. */
const keptSince = (eventsTtl: Duration.Duration) =>
  Effect.map(Clock.currentTimeMillis, (now) => now - Duration.toMillis(eventsTtl))

/**
 * A plan that has no row right behind the cursor is sealed up to its end, or to where it has waited, or has no more: what is sealed between the two
 * statements is found by the second one.
 */
const events = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  id: PlanId,
  after: number,
  limit: number,
  eventsTtl: Duration.Duration
) {
  const rows = yield* sql<StoredEvent>`
select seq, at, count, event, payload, record from (
  select seq, ${sql.literal(eventTime)}, count, event, payload, record,
    -- Of what is stored out of line it reads the length only.
    sum(octet_length(payload) + ${frameBytes}::int * count) over (
      order by seq rows between unbounded preceding and 1 preceding
    ) as before
  from events e
  where plan_id = ${id} and seq + count - 1 > ${after}
    -- A row that begins at or before the cursor may reach beyond it.
    and seq >= coalesce((select max(b.seq) from events b where b.plan_id = ${id} and b.seq <= ${after}), 0)
  order by seq limit ${limit}
) page
where coalesce(before, 0) < ${pageBytes}
order by seq`
  const [first] = rows
  if (first !== undefined && first.seq <= after + 1) return rows.map(toEventRow)
  const [block] = yield* findBlock(sql, id, after, fromMillis(yield* keptSince(eventsTtl)))
  return block === undefined ? rows.map(toEventRow) : readBlock(block, after, limit)
})

const make = (
  sql: SqlClient.SqlClient,
  withDeadline: WithDeadline,
  { eventsTtl, sessionTtl }: Kept,
  sealLeft: SealLeft,
  announce: Announce
): PlanStore["Service"] => ({
  create: (plan, maxQueue) => withDeadline(createPlan(sql, plan, { maxQueue, sessionTtl })),
  guardOf: (id, replica) =>
    withDeadline(sql<GuardRow>`
select state, fence from plans where id = ${id} and replica = ${replica} and ${sql.literal(isOpen)}`).pipe(
      Effect.map(([row]) => Option.map(Option.fromNullishOr(row), (row) => toGuard(replica, row)))
    ),
  findByKey: (owner, idempotency, now) => withDeadline(findByKey(sql, owner, idempotency, now)),
  commit: (batch) =>
    batch.length === 0 ? Effect.succeed(new Map()) : withDeadline(commit(sql, batch, sessionTtl, announce)),
  claimOf: (owner, key) =>
    withDeadline(sql<Omit<EffectClaim, "at"> & { readonly at: Date }>`
select e.task_id, e.plan_id, e.claimed_at as at, case when t.state = 'completed' then t.result end as result,
  t.remote_task_id as "taskId", t.remote_context_id as "contextId",
  ${sql.literal(effectState)} as state
from effects e
left join tasks t on t.plan_id = e.plan_id and t.id = e.task_id
left join plans p on p.id = e.plan_id
where e.owner = ${owner} and e.key = ${key}`).pipe(
      Effect.map(([row]) => Option.map(Option.fromNullishOr(row), (row) => ({ ...row, at: row.at.toISOString() })))
    ),
  get: (owner, id) =>
    withDeadline(sql<WholeRow>`
select ${sql.literal(wholeColumns)} from plans p
where p.id = ${id} and p.owner = ${owner}`).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new NotFound({ what: "plan" })) : Effect.succeed(toWhole(row))
      )
    ),
  told: (owner, id) =>
    withDeadline(sql<PlanRow & { readonly gist: Schema.Json | null; readonly echo: Schema.Json | null }>`
select ${sql.literal(planColumns)}, p.gist, p.echo from plans p where p.id = ${id} and p.owner = ${owner}`).pipe(
      Effect.flatMap(([row]) =>
        row === undefined
          ? Effect.fail(new NotFound({ what: "plan" }))
          : Effect.succeed({ plan: toPlan(row), gist: row.gist, echo: row.echo })
      )
    ),
  echo: (owner, id) =>
    withDeadline(sql<{ readonly echo: Schema.Json }>`
select echo from plans where id = ${id} and owner = ${owner} and echo is not null`).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new NotFound({ what: "plan" })) : Effect.succeed(row.echo)
      )
    ),
  setEcho: (id, echo) =>
    withDeadline(
      sql`update plans set echo = ${echo === null ? null : JSON.stringify(echo)}::json where id = ${id} and echo is not null`
    ).pipe(Effect.asVoid),
  list: (owner, filter, page) =>
    withDeadline(listPlans(sql, owner, filter, page)).pipe(
      Effect.map((rows) => newestFirst(rows, page.limit, toSummary))
    ),
  events: (id, after, limit) => withDeadline(events(sql, id, after, limit, eventsTtl)),
  seal: (plans) =>
    withDeadline(
      Effect.flatMap(keptSince(eventsTtl), (since) => sealPlans(sql, plans, since)),
      deadlines.long
    ),
  sealLeft: (now) => withDeadline(sealLeft(now), deadlines.long),
  takeOver: (replica, ttl, limit, forgotten = [], places = limit, isThorough = false) =>
    withDeadline(takeOverPlans(sql, { replica, ttl, limit, forgotten, places, isThorough })),
  abandoned: (replica, isThorough = false) =>
    withDeadline(lookForAbandoned(sql, replica, isThorough)).pipe(
      Effect.map(([row]) => ({ queued: row?.queued ?? [], isAny: row?.is_any ?? false }))
    ),
  requestAbort: (id, reason, isUnread = false) =>
    withDeadline(sql`
with asked as (
  update plans p set abort_requested = ${reason}, ${wakes(sql, "abort")}
  where id = ${id} and abort_requested is null
    and ${isUnread ? sql`state = 'waiting' and ${sql.literal(needsReader)}` : sql`state in ('queued', 'running', 'waiting')`}
  returning id, left_ms
)
select ${notify(sql, { _tag: "AbortRequested", plan_id: id })} from asked
union all
select ${notify(sql, { _tag: "PlansLeft" })} from asked where left_ms is not null`).pipe(Effect.asVoid),
  needingReaders: withDeadline(sql<{ readonly id: PlanId }>`
select p.id from plans p where p.state = 'waiting' and ${sql.literal(needsReader)}`).pipe(
    Effect.map((plans) => plans.map(({ id }) => id))
  ),
  parked: withDeadline(
    sql<{ readonly count: number }>`select count(*)::int as count from plans where state = 'waiting'`
  ).pipe(Effect.map(([row]) => row?.count ?? 0)),
  abortRequests: (replica) =>
    withDeadline(sql<{ readonly plan_id: PlanId; readonly reason: AbortReason }>`
select id as plan_id, abort_requested as reason from plans
where replica = ${replica} and abort_requested is not null and ${sql.literal(isOpen)}`),
  charge: (owner, charge) => {
    const { plan_id: _, ...row } = chargeOf("", charge)
    return Effect.asVoid(
      withDeadline(sql`
insert into charges as c ${sql.insert({ owner, preset: "", replica: "", ...row })} ${sql.literal(adding)}`)
    )
  },
  spent: (owner, day) =>
    withDeadline(readSpent(sql, owner, day)).pipe(
      Effect.map(([spent = { tokens: 0, tool_calls: 0, cost_usd: 0, month_cost_usd: 0 }]) => spent)
    ),
  keepText: (digest, text) =>
    withDeadline(sql`
insert into texts (digest, text) values (${digest}, ${text}) on conflict do nothing`).pipe(Effect.asVoid),
  keptTexts: (digests) =>
    digests.length === 0
      ? Effect.succeed(new Map())
      : withDeadline(sql<{ readonly digest: string; readonly text: string }>`
select digest, text from texts where ${sql.in("digest", digests)}`).pipe(
          Effect.map((rows) => new Map(rows.map(({ digest, text }) => [digest, text])))
        ),
  recorded: (owner, id) => withDeadline(readRecorded(sql, owner, id)),
  reading: () => Effect.void,
  isDurable: true,
  // On in a standby, and where an operator or a provider has forbidden writes, as some do when the disk is full.
  isWritable: withDeadline(
    sql<{ readonly only: string }>`select current_setting('transaction_read_only') as only`
  ).pipe(Effect.map(([row]) => row?.only === "off"))
})

interface Kept {
  readonly sessionTtl: Duration.Duration
  readonly eventsTtl: Duration.Duration
}

const defaultEventsTtl = Duration.days(30)

/**
 * Plans in Postgres. A session expires when it has had no plan for `sessionTtl`. The events of a plan are kept for `eventsTtl` after its end: 30 days, or
 * as long as the session if that is shorter.
 */
export const layer = ({
  sessionTtl,
  eventsTtl = Duration.min(defaultEventsTtl, sessionTtl)
}: {
  readonly sessionTtl: Duration.Duration
  readonly eventsTtl?: Duration.Duration | undefined
}) =>
  Layer.effect(
    PlanStore,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const withDeadline = yield* makeWithDeadline
      const run = yield* FiberSet.makeRuntime()
      const publisher = yield* Publisher
      const notices = yield* Notices
      const announce: Announce = (released, isLeft, isTold) => {
        if (released.length > 0) run(Effect.ignore(publisher.released(released), { log: "Debug" }))
        if (isLeft) run(Effect.ignore(publisher.publish([{ _tag: "PlansLeft" }]), { log: "Debug" }))
        if (isTold) run(Effect.ignore(notices.publish([{ _tag: "DeliveriesDue" }]), { log: "Debug" }))
      }
      return make(sql, withDeadline, { eventsTtl, sessionTtl }, makeSealLeft(sql, eventsTtl), announce)
    })
  )
