import type { AbortReason } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import {
  type Committed,
  type Guard,
  type NewPlan,
  type PlanCommit,
  PlanStore,
  type Spent
} from "@bowline/runtime/unstable/store/PlanStore"
import type { Notice } from "@bowline/runtime/unstable/store/Notices"
import { type Duration, Effect, FiberSet, Layer, Option, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import { SqlError } from "effect/sql/SqlError"
import { newestFirst } from "../internal/NewestFirst.ts"
import { deadlines, makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { notify, publish } from "../notice/SqlNotices.ts"
import { createPlan } from "./internal/CreatePlan.ts"
import { frameBytes, pageBytes } from "@bowline/runtime/unstable/store/EventRow"
import { eventTime, type StoredEvent, toEventRow } from "./internal/StoredEvent.ts"
import { listPlans } from "./internal/ListPlans.ts"
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
import { takeOverPlans } from "./internal/TakeOverPlans.ts"
import { wakes } from "./internal/Waking.ts"
import { writeBatch } from "./internal/WriteBatch.ts"

/** Whether a parked plan ends when nobody reads it: see `toParked`. Postgres cannot read into a document that contains an escaped NUL. */
const needsReader = `starts_with(p.preferences::text, '{"on_disconnect":"cancel"')`

const isOpen = "state in ('queued', 'running')"

/** Whether a plan that waited is handed over: another replica may take it over at once. */
const isQueuedNoMore = ({ changes, guard }: PlanCommit): boolean =>
  guard._tag === "Queued" && changes.some(({ _tag }) => _tag === "HandedOver")

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
  next: NewPlan | undefined
) {
  const rows = yield* writeBatch(sql, batch, sessionTtl)
  const committed: HowCommitted = new Map(
    rows.flatMap((row) => (row.plan_id === null ? [] : [[row.plan_id, row.committed]]))
  )
  if (next !== undefined && batch.every(({ plan_id }) => (committed.get(plan_id) ?? "behind") === "behind")) {
    const [there] = yield* sql`select from plans where id = ${next.plan_id}`
    if (there === undefined) yield* Effect.orDie(createPlan(sql, next, { maxQueue: Infinity, sessionTtl }))
  }
  return { committed, released: rows.flatMap(({ released }) => released ?? []) }
})

/**
 * An earlier try of the same batch may commit while this one waits for its locks. This one has an older snapshot: it inserts
 * what is stored already, or is refused because the earlier try has settled the plan. So it looks again before it believes that.
 */
const commit = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  batch: ReadonlyArray<PlanCommit>,
  sessionTtl: Duration.Duration,
  announce: (notices: ReadonlyArray<Notice>) => void
) {
  const write = (commits: ReadonlyArray<PlanCommit>, next?: NewPlan) => {
    const once = writeOnce(sql, commits, sessionTtl, next)
    return (next === undefined ? once : sql.withTransaction(once)).pipe(
      Effect.retry({
        times: 1,
        while: (error) => error instanceof SqlError && error.reason._tag === "UniqueViolation"
      }),
      Effect.map(({ committed, released }) => {
        const notices: Array<Notice> = released.map((session_id) => ({ _tag: "LeaseReleased", session_id }))
        if (commits.some((commit) => isQueuedNoMore(commit) && !isRefused(committed, commit))) {
          notices.push({ _tag: "PlansLeft" })
        }
        if (notices.length > 0) announce(notices)
        return committed
      })
    )
  }
  const writeAgain = (commits: ReadonlyArray<PlanCommit>, next?: NewPlan) =>
    Effect.flatMap(write(commits, next), (committed) => {
      const refused = commits.filter((commit) => isRefused(committed, commit))
      if (refused.length === 0) return Effect.succeed(committed)
      const others = Array.from(committed).filter(([, how]) => how !== "refused")
      return Effect.map(write(refused, next), (again): HowCommitted => new Map([...others, ...again]))
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

const make = (
  sql: SqlClient.SqlClient,
  withDeadline: WithDeadline,
  sessionTtl: Duration.Duration,
  announce: (notices: ReadonlyArray<Notice>) => void
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
  dropEcho: (id) => withDeadline(sql`update plans set echo = null where id = ${id}`).pipe(Effect.asVoid),
  list: (owner, filter, page) =>
    withDeadline(listPlans(sql, owner, filter, page)).pipe(
      Effect.map((rows) => newestFirst(rows, page.limit, toSummary))
    ),
  events: (id, after, limit) =>
    withDeadline(sql<StoredEvent>`
select seq, at, count, event, payload from (
  select seq, ${sql.literal(eventTime)}, count, event, payload,
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
order by seq`).pipe(Effect.map((rows) => rows.map(toEventRow))),
  takeOver: (replica, ttl, limit, forgotten = [], places = limit) =>
    withDeadline(takeOverPlans(sql, { replica, ttl, limit, forgotten, places })),
  queued: (replica) =>
    withDeadline(sql<{ readonly id: PlanId }>`
select id from plans where replica = ${replica} and state = 'queued'`).pipe(
      Effect.map((rows) => rows.map(({ id }) => id))
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
  abortRequests: (replica) =>
    withDeadline(sql<{ readonly plan_id: PlanId; readonly reason: AbortReason }>`
select id as plan_id, abort_requested as reason from plans
where replica = ${replica} and abort_requested is not null and ${sql.literal(isOpen)}`),
  spent: (owner, day) =>
    withDeadline(sql<Spent>`
select coalesce(sum(tokens), 0)::float8 as tokens, coalesce(sum(tool_calls), 0)::float8 as tool_calls
from spendings where owner = ${owner} and day = ${day}::date`).pipe(
      Effect.map(([spent = { tokens: 0, tool_calls: 0 }]) => spent)
    ),
  reading: () => Effect.void,
  isDurable: true,
  // On in a standby, and where an operator or a provider has forbidden writes, as some do when the disk is full.
  isWritable: withDeadline(
    sql<{ readonly only: string }>`select current_setting('transaction_read_only') as only`
  ).pipe(Effect.map(([row]) => row?.only === "off"))
})

/** Plans in Postgres. A session expires when it has had no plan for `sessionTtl`. */
export const layer = ({ sessionTtl }: { readonly sessionTtl: Duration.Duration }) =>
  Layer.effect(
    PlanStore,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const withDeadline = yield* makeWithDeadline
      const run = yield* FiberSet.makeRuntime()
      return make(sql, withDeadline, sessionTtl, (notices) => {
        run(Effect.ignore(withDeadline(publish(sql, notices), deadlines.short), { log: "Debug" }))
      })
    })
  )
