import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import {
  ApprovalStore,
  knownFor,
  type KnownToolId,
  knownUntil,
  type StoredDecision
} from "@bowline/runtime/unstable/store/ApprovalStore"
import { Duration, Effect, Layer, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { newestFirst } from "../internal/NewestFirst.ts"
import { storable } from "../internal/Storable.ts"

interface DecisionRow {
  readonly decision: GivenDecision["decision"]
  readonly note: string | null
  readonly by: GivenDecision["by"]
}

const toDecision = ({ by, decision, note }: DecisionRow): GivenDecision =>
  note === null ? { decision, by } : { decision, note, by }

const isDecided = (row: DecisionRow | { readonly decision: null }): row is DecisionRow => row.decision !== null

type PendingRow = Omit<PendingApproval, "expires_at"> & { readonly ordinal: bigint; readonly expires_at: Date }

const toPending = (row: PendingRow): PendingApproval => ({
  ...Struct.omit(row, ["ordinal"]),
  expires_at: row.expires_at.toISOString()
})

interface KnownRow {
  readonly tool: KnownToolId
  readonly digest: string
}

/** Reads what is known and fresh. Writes the rest, in one order, so that two plans cannot wait for each other. */
const meet = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
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

/** What waits for a decision, newest first. */
const selectPending = (
  sql: SqlClient.SqlClient,
  owner: CallerName,
  where: Statement.Fragment,
  limit: Statement.Fragment
) => sql<PendingRow>`
select a.plan_id, p.session_id, a.task_id, a.tool, a.agent, a.input, a.why, p.deadline_at as expires_at, p.owner as caller, a.ordinal
from plans p join approvals a on a.plan_id = p.id
where p.owner = ${owner} and p.state = 'running' and a.decision is null ${where}
order by a.ordinal desc ${limit}`

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): ApprovalStore["Service"] => ({
  decide: ({ plan_id, task_id }, { by, decision, note }, owner) => {
    const isTheirs = sql`a.plan_id = ${plan_id} and a.task_id = ${task_id} and p.id = a.plan_id
  and ${owner === undefined ? sql`true` : sql`p.owner = ${owner}`}`
    return withDeadline(
      Effect.gen(function* () {
        yield* sql`
with decided as (
  update approvals a set decision = ${decision}, note = ${note === undefined ? null : storable(note)}, decided_by = ${by}
  from plans p where ${isTheirs} and a.decision is null and p.state = 'running'
  returning p.owner, a.decision, a.known_tool, a.tool_digest
)
insert into known_tools (owner, tool, digest, expires_at)
select owner, known_tool, tool_digest, now() + ${Duration.toMillis(knownFor)} * interval '1 millisecond'
from decided where decision = 'approve' and known_tool is not null
on conflict (owner, tool) do update set (digest, expires_at) = (excluded.digest, excluded.expires_at)`
        const [standing] = yield* sql<DecisionRow | { readonly decision: null }>`
select a.decision, a.note, a.decided_by as by from approvals a join plans p on ${isTheirs}`
        if (standing === undefined) return yield* new NotFound({ what: "approval" })
        return isDecided(standing) ? toDecision(standing) : yield* new ApprovalConflict({ standing: undefined })
      })
    )
  },
  decisions: (approvals) =>
    withDeadline(sql<DecisionRow & Pick<StoredDecision, "task_id" | "tool_digest">>`
select a.task_id, a.decision, a.note, a.decided_by as by, a.tool_digest
from json_to_recordset(${JSON.stringify(approvals)}::json) as i(plan_id text, task_id text)
join approvals a on a.plan_id = i.plan_id and a.task_id = i.task_id
where a.decision is not null`).pipe(
      Effect.map((rows) =>
        rows.map((row) => ({ ...Struct.pick(row, ["task_id", "tool_digest"]), decision: toDecision(row) }))
      )
    ),
  pending: (owner, { cursor, limit }) =>
    withDeadline(
      selectPending(sql, owner, cursor === undefined ? sql`` : sql`and a.ordinal < ${cursor}`, sql`limit ${limit + 1}`)
    ).pipe(Effect.map((rows) => newestFirst(rows, limit, toPending))),
  ofPlan: (owner, plan) =>
    Effect.map(withDeadline(selectPending(sql, owner, sql`and p.id = ${plan}`, sql``)), (rows) => rows.map(toPending)),
  meetTools: (owner, digests, now) =>
    digests.size === 0 ? Effect.succeed(digests) : withDeadline(meet(sql, owner, digests, now))
})

/** Approvals in Postgres. */
export const layer = Layer.effect(
  ApprovalStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
