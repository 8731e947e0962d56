import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PendingApproval } from "@bowline/domain/plan/Approval"
import type { DecisionEntry, Entry, Waiting } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { shownId } from "@bowline/runtime/unstable/store/AccountWait"
import {
  type InboxContent,
  type OpenWait,
  type Settlement,
  shownEntry,
  type StoredEntry,
  type StoredSettling,
  type StoredWait,
  type StoredTextEntry,
  type StoredWaitKind
} from "@bowline/runtime/unstable/store/InboxStore"
import { type Schema, Struct } from "effect"
import { sameTime } from "./StoredEvent.ts"
import type { SqlClient } from "effect/sql"

/** A row of `inbox`. */
export interface EntryRow {
  readonly ordinal: bigint
  readonly entry_id: EntryId
  readonly author: CallerName
  readonly at: Date
  readonly entry: StoredEntry
  readonly round: number | null
  readonly state: Entry["state"]
  readonly told: Entry["state"] | null
  readonly step: number | null
  readonly moved_to: PlanId | null
}

export const entryColumns =
  "e.ordinal, e.id as entry_id, e.author, e.at, e.entry, e.round, e.state, e.told, e.step, e.moved_to"

export const toEntry = ({ at, author: by, ...row }: EntryRow): Entry => shownEntry({ ...row, by, at: at.toISOString() })

/** What a call waits for, or waited for last, and the entry that has settled it. A former version has stored a decision without an entry. */
interface WaitRow {
  readonly plan_id: PlanId
  readonly task_id: TaskId
  readonly kind: StoredWaitKind
  readonly round: number
  readonly tool: string
  readonly schema: Schema.Json | null
  readonly url: string | null
  readonly expires_at: string
  readonly tool_digest: string | null
  readonly mark: string | null
  readonly is_expired: boolean
  readonly entry_id: EntryId | null
  readonly author: CallerName | null
  readonly entry: StoredSettling | null
  readonly decision: "approve" | "reject" | null
  readonly note: string | null
  readonly decided_by: CallerName | null
}

/** The same, with the entry that has decided about the call, which may have waited for something else since. */
export interface DecidedRow extends WaitRow {
  /** See `boundWaits`. */
  readonly is_unbound: boolean
  readonly spent_ms: number | null
  readonly taken_at: string | null
  readonly approval_id: EntryId | null
  readonly approver: CallerName | null
  readonly approval: DecisionEntry | null
}

const waitColumns = `w.ordinal, w.plan_id, w.task_id, w.kind, w.round, w.tool, w.schema, w.url,
  coalesce(w.expires_at, p.deadline_at) as expires_at, w.tool_digest, w.mark, w.is_expired, e.id as entry_id, e.author, e.entry,
  w.decision, w.note, w.decided_by, w.spent_ms, case when e.state = 'taken' then e.at end as taken_at, w.expires_at is null as is_unbound, d.id as approval_id, d.author as approver, d.entry as approval`

/** A decision that has no entry. */
const formerDecision = ({ decided_by: by, decision, note, task_id }: WaitRow): StoredWait["decision"] =>
  decision === null || by === null
    ? undefined
    : { entry_id: null, by, entry: { type: "decision", task_id, decision, ...(note !== null && { note }) } }

const settlementOf = (row: WaitRow): Settlement | undefined => {
  const { author, entry, entry_id, is_expired, round, task_id, tool_digest } = row
  const wait = { task_id, round, tool_digest }
  if (entry !== null && author !== null) return { ...wait, given: { entry_id, by: author, entry } }
  if (is_expired) return { ...wait, given: undefined }
  const given = formerDecision(row)
  return given && { ...wait, given }
}

const decisionOf = (row: DecidedRow): StoredWait["decision"] => {
  const { approval, approval_id, approver } = row
  if (approval === null || approver === null) return formerDecision(row)
  return { entry_id: approval_id, by: approver, entry: approval }
}

export const toWait = (row: DecidedRow): StoredWait => ({
  ...toOpenWait(row),
  task_id: row.task_id,
  expires_at: sameTime(row.expires_at),
  mark: row.mark,
  spent_ms: row.spent_ms,
  settlement: settlementOf(row),
  taken_at: row.taken_at && sameTime(row.taken_at),
  decision: decisionOf(row)
})

export const toOpenWait = ({ kind, round, schema, tool, url }: Pick<WaitRow, keyof OpenWait>): OpenWait => ({
  kind,
  round,
  tool,
  schema,
  url
})

/** The waits of the plan `p`. */
const waitsOfPlan = `select ${waitColumns} from waits w left join inbox e on e.id = w.settled_by
left join inbox d on d.plan_id = w.plan_id and d.task_id = w.task_id and d.type = 'decision'
where w.plan_id = p.id`

/** The same as JSON, in their order. */
export const waitList = `(select json_agg(w order by w.ordinal) from (${waitsOfPlan}) w)`

export const readWaits = (sql: SqlClient.SqlClient, plan: PlanId) =>
  sql<{ readonly waits: ReadonlyArray<DecidedRow> | null }>`
select ${sql.literal(waitList)} as waits from plans p where p.id = ${plan}`

/** The version before has stored approvals without an end: theirs is the deadline of the plan, at which they end also when that is parked. */
export const boundWaits = (sql: SqlClient.SqlClient, plans: ReadonlyArray<PlanId>) => sql`
update waits w set expires_at = p.deadline_at from plans p
where p.id = w.plan_id and ${sql.in("w.plan_id", plans)} and w.expires_at is null`

export interface ContentRow {
  readonly plan_id: PlanId
  readonly count: number
  readonly texts: ReadonlyArray<{
    readonly entry_id: EntryId
    readonly by: CallerName
    readonly entry: StoredTextEntry
    readonly state: Entry["state"]
    readonly told: Entry["state"] | null
  }> | null
  readonly settled: ReadonlyArray<WaitRow & { readonly expires_at: never }> | null
  readonly tools: ReadonlyArray<ClientTool> | null
}

/** The tools that came with the newest entry that has some. */
export const newestTools = `(
  select e.tools from inbox e where e.plan_id = p.id and e.tools is not null order by e.ordinal desc limit 1
)`

/** What the plan `p` has not used yet of its inbox. One statement reads it, so that the number fits what is read. */
export const contentColumns = `p.id as plan_id, p.inbox_count as count, (
  select json_agg(json_build_object('entry_id', e.id, 'by', e.author, 'entry', e.entry, 'state', e.state, 'told', e.told) order by e.ordinal)
  from inbox e where e.plan_id = p.id and e.type = 'text'
    and (e.state = 'accepted' or (e.state = 'withdrawn' and e.told is distinct from 'withdrawn'))
) as texts, (
  select json_agg(json_build_object('task_id', w.task_id, 'round', w.round, 'tool_digest', w.tool_digest, 'is_expired', w.is_expired,
    'entry_id', e.id, 'author', e.author, 'entry', e.entry, 'decision', w.decision, 'note', w.note, 'decided_by', w.decided_by) order by w.ordinal)
  from waits w left join inbox e on e.id = w.settled_by
  where w.plan_id = p.id and (e.state = 'accepted' or (e.id is null and (w.is_expired or w.decision is not null)))
) as settled, ${newestTools} as tools`

export const readContents = (
  sql: SqlClient.SqlClient,
  plans: ReadonlyArray<{ readonly plan_id: PlanId; readonly seen: number }>
) => sql<ContentRow>`
select ${sql.literal(contentColumns)}
from json_to_recordset(${JSON.stringify(plans)}::json) as i(plan_id text, seen int) join plans p on p.id = i.plan_id
where p.inbox_count <> i.seen
  -- A replica of the version before counts no decisions.
  or exists (select from waits w where w.plan_id = p.id and w.settled_by is null and w.decision is not null)`

export const toContent = ({ count, plan_id, settled, texts, tools }: ContentRow): InboxContent => ({
  plan_id,
  count,
  texts: (texts ?? []).map(({ entry, state, told, ...text }) => ({
    ...text,
    ...Struct.pick(entry, ["text", "when", "else", "references"]),
    isWithdrawn: state === "withdrawn",
    isTold: told === state
  })),
  settlements: (settled ?? []).flatMap((row) => settlementOf(row) ?? []),
  tools: tools ?? undefined
})

/** A wait as callers see it. */
export type WaitingRow = Omit<Waiting, "since" | "expires_at"> & {
  readonly ordinal: bigint
  readonly mark: string | null
  readonly since: Date
  readonly expires_at: Date
}

export const waitingColumns = `w.plan_id, p.session_id, w.task_id, w.kind, w.tool, w.agent, w.input, w.why, w.message, w.data, w.url,
  w.since, coalesce(w.expires_at, p.deadline_at) as expires_at, p.owner as caller, w.ordinal, w.mark`

export const toWaiting = (row: WaitingRow): Waiting => ({
  ...Struct.omit(row, ["ordinal", "mark"]),
  task_id: shownId(row),
  since: row.since.toISOString(),
  expires_at: row.expires_at.toISOString()
})

export const toApproval = (row: WaitingRow): PendingApproval => {
  const { agent, caller, input, plan_id, session_id, task_id, tool, why } = row
  const expires_at = row.expires_at.toISOString()
  return { plan_id, session_id, task_id, tool, agent, input, why: why ?? "always", expires_at, caller }
}
