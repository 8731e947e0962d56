import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { GivenDecision } from "@bowline/domain/plan/Approval"
import { maxTexts } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId, PlanState } from "@bowline/domain/plan/Plan"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { IdempotencyConflict, NotFound } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { fromEvents } from "@bowline/runtime/unstable/store/EventRow"
import {
  type Accepted,
  type Accepting,
  InboxStore,
  isSame,
  knownFor,
  type KnownToolId,
  knownUntil,
  type OpenAccountWait,
  type OpenWait,
  refusals,
  saysTheSame,
  settles,
  type StoredEntry,
  type StoredSettling,
  toolsIn
} from "@bowline/runtime/unstable/store/InboxStore"
import { Clock, Duration, Effect, Layer, Option, type Schema, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { newestFirst } from "../internal/NewestFirst.ts"
import { storable } from "../internal/Storable.ts"
import {
  entryColumns,
  newestTools,
  type EntryRow,
  readContents,
  readWaits,
  toApproval,
  toContent,
  toEntry,
  toOpenWait,
  toWaiting,
  toWait,
  waitingColumns,
  type WaitingRow
} from "./internal/InboxRows.ts"
import { findBlocksBefore, unpack } from "./SealedEvents.ts"
import { eventTime, type StoredEvent, toEventRow } from "./internal/StoredEvent.ts"
import { expireWaits, isMore, isOpenWait, wakes } from "./internal/Waking.ts"

type Sql = SqlClient.SqlClient

interface KnownRow {
  readonly tool: KnownToolId
  readonly digest: string
}

/** Reads what is known and fresh. Writes the rest, in one order, so that two plans cannot wait for each other. */
const meet = Effect.fnUntraced(function* (
  sql: Sql,
  owner: CallerName,
  digests: ReadonlyMap<KnownToolId, string>,
  now: string
) {
  const { expires_at, least } = knownUntil(now)
  const known = yield* sql<KnownRow>`
select tool, digest from known_tools
where owner = ${owner} and ${sql.in("tool", Array.from(digests.keys()))} and expires_at >= ${least}`
  const standing = new Map(known.map(({ digest, tool }) => [tool, digest]))
  const rest = Array.from(digests, ([tool, digest]) => ({ tool, digest })).filter(({ tool }) => !standing.has(tool))
  if (rest.length === 0) return standing
  const written = yield* sql<KnownRow>`
insert into known_tools as k (owner, tool, digest, expires_at)
select ${owner}, i.tool, i.digest, ${expires_at}::timestamptz
from json_to_recordset(${JSON.stringify(rest)}::json) as i(tool text, digest text) order by i.tool collate "C"
on conflict (owner, tool) do update set expires_at = greatest(k.expires_at, excluded.expires_at)
returning k.tool, k.digest`
  for (const { digest, tool } of written) standing.set(tool, digest)
  return standing
})

interface LockedPlan {
  readonly state: PlanState
  readonly owner: CallerName
}

const isOver = ({ state }: LockedPlan): boolean => state === "completed" || state === "failed" || state === "aborted"

const ofOwner = (sql: Sql, owner: CallerName | undefined) => (owner === undefined ? sql`true` : sql`p.owner = ${owner}`)

/** Locks the plan's row until the transaction ends. Whoever ends the plan, or takes entries, locks it, too. */
const lock = Effect.fnUntraced(function* (sql: Sql, plan: PlanId, owner: CallerName | undefined) {
  const [locked] = yield* sql<LockedPlan>`
select p.state, p.owner from plans p where p.id = ${plan} and ${ofOwner(sql, owner)} for no key update`
  return locked ?? (yield* new NotFound({ what: "plan" }))
})

/** An entry that was accepted before. */
interface KnownEntry<Said = StoredEntry> {
  readonly entry_id: EntryId
  readonly moved_to: PlanId | null
  readonly entry: Said
}

const knownEntry = "json_build_object('entry_id', e.id, 'moved_to', e.moved_to, 'entry', e.entry)"

const known = ({ entry_id, moved_to }: KnownEntry): Accepted => ({ _tag: "Known", entry_id, moved_to })

/** The answer to an entry whose id is known: it is the same entry again. */
const again = (same: KnownEntry, entry: StoredEntry) =>
  isSame(same.entry, entry) ? Effect.succeed(known(same)) : Effect.fail(new IdempotencyConflict())

/** Writes an entry; one that was `moved` is in its last state. */
const insert = (
  sql: Sql,
  { by, entry, entry_id, plan_id, tools }: Accepting,
  round: number | null,
  moved_to: PlanId | null
) => {
  const isMoved = moved_to !== null
  return sql`
insert into inbox (id, plan_id, type, author, entry, tools, characters, task_id, round, state, told, moved_to)
values (${entry_id}, ${plan_id}, ${entry.type}, ${by}, ${JSON.stringify(entry)}::json, ${tools === undefined ? null : JSON.stringify(tools)}::json,
  ${entry.type === "text" ? entry.text.length : 0}, ${entry.type === "text" ? null : entry.task_id}, ${round},
  ${isMoved ? "moved" : "accepted"}, ${isMoved ? "moved" : null}, ${moved_to})
on conflict (id) do nothing`
}

const count = (sql: Sql, plan: PlanId) => sql`update plans set inbox_count = inbox_count + 1 where id = ${plan}`

/** The same for what the plan waits for: if it is parked, it goes on. */
const countAndWake = (sql: Sql, plan: PlanId, because: "entry" | "account") =>
  sql`update plans p set inbox_count = p.inbox_count + 1, ${wakes(sql, because)} where p.id = ${plan}`

/** Writes a frame of a parked plan, in the place of the process that has none of it. The plan's row is locked. */
const tellReaders = Effect.fnUntraced(function* (sql: Sql, plan: PlanId, entry: EntryId, event: PlanEvent) {
  const [live] = yield* sql<StoredEvent>`
select seq, ${sql.literal(eventTime)}, count, event, payload from events e where plan_id = ${plan} order by seq desc limit 1`
  const [sealed] = live === undefined ? yield* findBlocksBefore(sql, [{ plan_id: plan, seq: undefined }]) : []
  const last = live === undefined ? sealed && unpack(sealed.block).at(-1) : toEventRow(live)
  const now = fromMillis(yield* Clock.currentTimeMillis)
  const [row] = last === undefined ? [] : fromEvents(last.seq + last.count, last.at > now ? last.at : now, [event])
  if (row === undefined) return
  yield* sql`
insert into events (plan_id, seq, at, count, event, payload)
values (${plan}, ${row.seq}, ${row.at}::timestamptz, ${row.count}, ${row.event}, ${row.payload})`
  yield* sql`update inbox set told = state where id = ${entry}`
})

/** A text for a parked plan: it ends the tool `wait`. For anything else the plan waits on, and its readers are told here. */
const sayToParked = Effect.fnUntraced(function* (sql: Sql, { by, entry_id, plan_id }: Accepting, text: string) {
  const [timer] = yield* sql`
select from waits w where w.plan_id = ${plan_id} and w.kind = 'timer' and ${sql.literal(isOpenWait)} limit 1`
  if (timer !== undefined) {
    yield* countAndWake(sql, plan_id, "entry")
    return "woken" as const
  }
  yield* count(sql, plan_id)
  yield* tellReaders(sql, plan_id, entry_id, { event: "inbox.accepted", data: { entry_id, by, text } })
  return "told" as const
})

type LockedWait = OpenWait & {
  readonly is_expired: boolean
  readonly decision: string | null
  readonly known_tool: KnownToolId | null
  readonly tool_digest: string | null
}

/** What is known behind the lock of the plan: a statement does not see what commits after it began. */
interface KnownOfCall {
  readonly same: KnownEntry | null
  /** What has settled the wait before. */
  readonly first: KnownEntry<StoredSettling> | null
  readonly wait: LockedWait | null
}

const readCall = (sql: Sql, { entry_id, plan_id }: Accepting, entry: StoredSettling) => sql<KnownOfCall>`
select (select ${sql.literal(knownEntry)} from inbox e where e.id = ${entry_id}) as same, (
  select ${sql.literal(knownEntry)} from inbox e
  where e.plan_id = ${plan_id} and e.task_id = ${entry.task_id} and e.type = ${entry.type}
    and (asked.round is null or e.round = asked.round)
  order by e.round desc limit 1
) as first, case when w.kind is not null then json_build_object('kind', w.kind, 'round', w.round, 'tool', w.tool, 'schema', w.schema, 'url', w.url,
  'is_expired', w.is_expired, 'decision', w.decision, 'known_tool', w.known_tool, 'tool_digest', w.tool_digest) end as wait
from (select 1) one left join waits w on w.plan_id = ${plan_id} and w.task_id = ${entry.task_id}
cross join lateral (select coalesce(
  ${entry.type === "answer" ? (entry.round ?? null) : null}::int, case when w.kind = ${settles[entry.type]} then w.round end
) as round) asked`

/** Settles the wait of a call. What has settled it before stands. */
const settle = Effect.fnUntraced(function* (sql: Sql, accepting: Accepting, entry: StoredSettling, plan: LockedPlan) {
  const { by, entry_id, plan_id } = accepting
  const [{ first, same, wait } = { first: null, same: null, wait: null }] = yield* readCall(sql, accepting, entry)
  if (same !== null) return yield* again(same, entry)
  if (first !== null) return saysTheSame(first.entry, entry) ? known(first) : yield* refusals.settled
  const isWaiting = wait?.kind === settles[entry.type]
  const round = (entry.type === "answer" ? entry.round : undefined) ?? (isWaiting ? wait.round : 1)
  if (!isWaiting || round > wait.round) return yield* new NotFound({ what: "task" })
  if (wait.decision !== null || round < wait.round) return yield* refusals.settled
  if (isOver(plan)) return yield* refusals.over
  if (wait.is_expired) return yield* refusals.expired
  const decided =
    entry.type === "decision"
      ? sql`, decision = ${entry.decision}, note = ${entry.note === undefined ? null : storable(entry.note)},
  decided_by = ${by}, remember = ${(entry.decision === "approve" && entry.remember) || null}`
      : sql``
  const learned =
    entry.type === "decision" && entry.decision === "approve" && wait.known_tool !== null
      ? sql`, learned as (
  insert into known_tools (owner, tool, digest, expires_at)
  values (${plan.owner}, ${wait.known_tool}, ${wait.tool_digest}, now() + ${Duration.toMillis(knownFor)} * interval '1 millisecond')
  on conflict (owner, tool) do update set (digest, expires_at) = (excluded.digest, excluded.expires_at)
)`
      : sql``
  yield* sql`
with said as (${insert(sql, accepting, round, null)}), settled as (
  update waits set settled_by = ${entry_id}${decided} where plan_id = ${plan_id} and task_id = ${entry.task_id}
)${learned}
${countAndWake(sql, plan_id, entry.type === "account" ? "account" : "entry")}`
  return { ...accepted(entry_id), ...(plan.state === "waiting" && { parked: "woken" as const }) }
})

const accepted = (entry_id: EntryId) => ({ _tag: "Accepted" as const, entry_id, moved_to: null })

const accept = (sql: Sql, accepting: Accepting) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const { entry, entry_id, owner, plan_id } = accepting
      const plan = yield* lock(sql, plan_id, owner)
      if (entry.type !== "text") return yield* settle(sql, accepting, entry, plan)
      const [{ is_full, same } = { is_full: false, same: null }] = yield* sql<{
        readonly same: KnownEntry | null
        readonly is_full: boolean
      }>`
select (select ${sql.literal(knownEntry)} from inbox e where e.id = ${entry_id}) as same, (
  select count(*) >= ${maxTexts.count} or coalesce(sum(characters), 0) + ${entry.text.length} > ${maxTexts.characters}
  from inbox where plan_id = ${plan_id} and type = 'text' and state = 'accepted'
) as is_full`
      if (same !== null) return yield* again(same, entry)
      if (plan.state === "completed" && entry.else === "ask") return { _tag: "Completed" as const, owner: plan.owner }
      if (isOver(plan)) return yield* refusals.over
      if (is_full) return yield* refusals.full
      const said = insert(sql, accepting, null, null)
      if (plan.state === "waiting") {
        yield* said
        return { ...accepted(entry_id), parked: yield* sayToParked(sql, accepting, entry.text) }
      }
      yield* sql`with said as (${said}) ${count(sql, plan_id)}`
      return accepted(entry_id)
    })
  )

const withdraw = (sql: Sql, plan: PlanId, id: EntryId, owner: CallerName | undefined) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const locked = yield* lock(sql, plan, owner)
      const [entry] = yield* sql<Pick<EntryRow, "state"> & { readonly type: string }>`
select state, type from inbox where id = ${id} and plan_id = ${plan}`
      if (entry === undefined) return yield* new NotFound({ what: "entry" })
      if (entry.state === "withdrawn") return
      if (entry.type !== "text" || entry.state !== "accepted") return yield* refusals.taken
      yield* sql`update inbox set state = 'withdrawn' where id = ${id}`
      yield* count(sql, plan)
      if (locked.state !== "waiting") return
      yield* tellReaders(sql, plan, id, { event: "inbox.moved", data: { entry_id: id, moved_to: null } })
    })
  )

/** What waits for somebody in plans that are not over, of the owner or of all. */
const selectWaiting = (
  sql: Sql,
  owner: CallerName | undefined,
  where: Statement.Fragment,
  order: Statement.Fragment
) => sql<WaitingRow>`
select ${sql.literal(waitingColumns)} from plans p join waits w on w.plan_id = p.id
where ${ofOwner(sql, owner)} and p.state in ('queued', 'running', 'waiting') and w.kind <> 'timer'
  and ${sql.literal(isOpenWait)} ${where}
order by ${order}`

const make = (sql: Sql, withDeadline: WithDeadline): InboxStore["Service"] => ({
  accept: (accepting) => withDeadline(accept(sql, accepting)),
  move: (accepting, to) => Effect.asVoid(withDeadline(insert(sql, accepting, null, to))),
  find: ({ plan_id, task_id }, owner) =>
    withDeadline(sql<OpenWait>`
select w.kind, w.round, w.tool, w.schema, w.url from waits w join plans p on p.id = w.plan_id
where w.plan_id = ${plan_id} and w.task_id = ${task_id} and ${ofOwner(sql, owner)}`).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new NotFound({ what: "task" })) : Effect.succeed(toOpenWait(row))
      )
    ),
  planOfCall: (owner, task) =>
    withDeadline(sql<{ readonly plan_id: PlanId }>`
select w.plan_id from waits w join plans p on p.id = w.plan_id where w.task_id = ${task} and p.owner = ${owner}`).pipe(
      Effect.map(([row]) => Option.fromUndefinedOr(row?.plan_id))
    ),
  planOf: (entry) =>
    Effect.map(
      withDeadline(sql<{ readonly plan_id: PlanId }>`select plan_id from inbox where id = ${entry}`),
      ([row]) => row?.plan_id
    ),
  toolsOf: (plan) =>
    Effect.map(
      withDeadline(sql<{ readonly tools: ReadonlyArray<ClientTool> | null; readonly request: Schema.Json }>`
select ${sql.literal(newestTools)} as tools, p.request from plans p where p.id = ${plan}`),
      ([row]) => row?.tools ?? toolsIn(row?.request)
    ),
  withdraw: (plan, entry, owner) => withDeadline(withdraw(sql, plan, entry, owner)),
  list: (plan, owner, { cursor, limit }) =>
    withDeadline(
      Effect.gen(function* () {
        const [found] = yield* sql`select from plans p where p.id = ${plan} and ${ofOwner(sql, owner)}`
        if (found === undefined) return yield* new NotFound({ what: "plan" })
        return yield* sql<EntryRow>`
select ${sql.literal(entryColumns)} from inbox e
where e.plan_id = ${plan} and e.ordinal > ${cursor ?? 0} order by e.ordinal limit ${limit + 1}`
      })
    ).pipe(Effect.map((rows) => newestFirst(rows, limit, toEntry))),
  expire: Effect.map(withDeadline(expireWaits(sql)), ([expired]) =>
    expired === undefined
      ? { plans: [], isWaking: false, isMore: false }
      : { plans: expired.plans, isWaking: expired.is_waking, isMore: isMore(expired) }
  ),
  read: (plans) => Effect.map(withDeadline(readContents(sql, plans)), (rows) => rows.map(toContent)),
  accountWaits: (owner) =>
    withDeadline(sql<OpenAccountWait>`
select w.plan_id, w.task_id, w.round, w.mark from plans p join waits w on w.plan_id = p.id
where p.owner = ${owner} and p.state in ('queued', 'running', 'waiting') and w.kind = 'account'
  and ${sql.literal(isOpenWait)} order by w.ordinal`),
  waiting: (owner, { kind, plan }, { cursor, limit }) =>
    withDeadline(
      selectWaiting(
        sql,
        owner,
        sql`${kind === undefined ? sql`` : sql`and w.kind = ${kind}`} ${plan === undefined ? sql`` : sql`and p.id = ${plan}`}
  and w.ordinal > ${cursor ?? 0}`,
        sql`w.ordinal limit ${limit + 1}`
      )
    ).pipe(Effect.map((rows) => newestFirst(rows, limit, toWaiting))),
  approvals: (owner, plan, { cursor, limit }) =>
    withDeadline(
      selectWaiting(
        sql,
        owner,
        sql`and w.kind = 'approval' ${plan === undefined ? sql`` : sql`and p.id = ${plan}`} ${cursor === undefined ? sql`` : sql`and w.ordinal < ${cursor}`}`,
        sql`w.ordinal desc limit ${limit + 1}`
      )
    ).pipe(Effect.map((rows) => newestFirst(rows, limit, toApproval))),
  decision: ({ plan_id, task_id }) =>
    withDeadline(readWaits(sql, plan_id)).pipe(
      Effect.map(([row]): GivenDecision | undefined => {
        const wait = row?.waits?.find((wait) => wait.task_id === task_id)
        const given = wait && toWait(wait).decision
        return given && { ...Struct.pick(given.entry, ["decision", "note"]), by: given.by }
      })
    ),
  isRemembered: (session, tool) =>
    withDeadline(sql`
select from plans p join waits w on w.plan_id = p.id
where p.session_id = ${session} and w.tool = ${storable(tool)} and w.remember = 'session' limit 1`).pipe(
      Effect.map((rows) => rows.length > 0)
    ),
  movesTo: (plan) =>
    withDeadline(sql<{ readonly moves: number }>`
with recursive chain as (
  select ${plan}::text collate "C" as plan_id, 0 as moves
  union
  select e.plan_id, c.moves + 1 from chain c join inbox e on e.moved_to = c.plan_id
)
select max(moves) as moves from chain`).pipe(Effect.map(([row]) => row?.moves ?? 0)),
  meetTools: (owner, digests, now) =>
    digests.size === 0 ? Effect.succeed(digests) : withDeadline(meet(sql, owner, digests, now))
})

/** Inboxes in Postgres. */
export const layer = Layer.effect(
  InboxStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
