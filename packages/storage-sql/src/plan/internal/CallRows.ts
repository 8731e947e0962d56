import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { PlanChange, Recorded, RecordedCall } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect, type Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { storable } from "../../internal/Storable.ts"

/** A new task, or changes of one. Null leaves a column as it is; the optional columns are set for a new task only. */
export interface TaskRow {
  readonly plan_id: string
  readonly id: string
  readonly tool?: string
  readonly kind?: string
  readonly agent?: string | null
  readonly endpoint?: string | null
  readonly skill?: string | null
  readonly input?: string
  readonly started_at?: string
  readonly state: string | null
  /** Whether the batch sets the ids of the remote task. It sets them to null for a call that has not arrived. */
  readonly accepted: boolean
  readonly remote_task_id: string | null
  readonly remote_context_id: string | null
  readonly result: string | null
  readonly error: string | null
  readonly finished_at: string | null
}

export interface WaitRow {
  readonly plan_id: string
  readonly task_id: string
  readonly kind: string
  readonly round: number
  readonly tool: string
  readonly agent: string | null
  readonly input: string
  readonly why: string | null
  readonly schema: string | null
  readonly message: string | null
  readonly data: string | null
  readonly url: string | null
  readonly expires_at: string
  readonly tool_digest: string | null
  readonly known_tool: string | null
  readonly mark: string | null
  readonly spent_ms: number
  readonly left_ms: number | null
}

/** A wait for a time that a text has ended. */
export interface EndedWaitRow {
  readonly plan_id: string
  readonly task_id: string
}

/** A claim of an effect. */
export interface ClaimRow {
  readonly plan_id: string
  readonly key: string
  readonly task_id: string
  readonly tool: string
  readonly claimed_at: string
  readonly expires_at: string
  readonly follows: string | null
}

/** What is known of the effect of a call from now on. */
export interface EffectRow {
  readonly plan_id: string
  readonly task_id: string
  readonly state: string
}

export const claimOf = (
  plan_id: string,
  { at, expires_at, follows, key, task_id, tool }: Extract<PlanChange, { readonly _tag: "EffectClaimed" }>
): ClaimRow => ({ plan_id, key, task_id, tool: storable(tool), claimed_at: at, expires_at, follows })

/** What a plan has done with an entry of its inbox: its last change of a batch. */
export interface EntryRow {
  readonly plan_id: string
  readonly id: string
  readonly state: string
  readonly step: number | null
  readonly moved_to: string | null
}

const storableOrNull = (text: string | null): string | null => (text === null ? null : storable(text))

export const unchangedTask = {
  state: null,
  accepted: false,
  remote_task_id: null,
  remote_context_id: null,
  result: null,
  error: null,
  finished_at: null
}

export const changeTask = (
  task: TaskRow,
  change: Extract<PlanChange, { readonly _tag: "TaskStarted" | "TaskAccepted" | "TaskFinished" }>
): TaskRow => {
  switch (change._tag) {
    case "TaskStarted":
      return {
        ...task,
        tool: storable(change.tool),
        kind: change.kind,
        agent: storableOrNull(change.agent),
        endpoint: storableOrNull(change.endpoint),
        skill: storableOrNull(change.skill),
        input: JSON.stringify(change.input),
        started_at: change.at,
        state: change.state
      }
    case "TaskAccepted":
      return {
        ...task,
        accepted: true,
        remote_task_id: storableOrNull(change.remote_task_id),
        remote_context_id: storableOrNull(change.remote_context_id)
      }
    case "TaskFinished":
      return {
        ...task,
        state: change.state,
        result: storable(change.result),
        error: change.error === null ? null : JSON.stringify(change.error),
        finished_at: change.at
      }
  }
}

const jsonOrNull = (value: Schema.Json | null): string | null => (value === null ? null : JSON.stringify(value))

export const waitOf = (plan_id: string, wait: Extract<PlanChange, { readonly _tag: "WaitOpened" }>): WaitRow => {
  const { _tag, agent, data, input, left_ms = null, mark, message, schema, spent_ms, tool, ...rest } = wait
  return {
    plan_id,
    ...rest,
    tool: storable(tool),
    agent: storableOrNull(agent),
    input: JSON.stringify(input),
    schema: jsonOrNull(schema),
    message: storableOrNull(message),
    data: jsonOrNull(data),
    mark: storableOrNull(mark),
    spent_ms: Math.round(spent_ms),
    left_ms
  }
}

/** What a plan of this owner was run with, and its calls with their results. */
export const readRecorded = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, owner: CallerName, id: PlanId) {
  const [plan] = yield* sql<Omit<Recorded, "calls">>`
select preferences, request from plans where id = ${id} and owner = ${owner}`
  if (plan === undefined) return yield* new NotFound({ what: "plan" })
  const calls = yield* sql<Omit<RecordedCall, "started_at"> & { readonly started_at: Date }>`
select id as task_id, tool, kind, agent, skill, input, state, started_at, remote_task_id, remote_context_id, result, error
from tasks where plan_id = ${id} order by ordinal`
  return {
    ...plan,
    calls: calls.map((call) => ({ ...call, started_at: call.started_at.toISOString() }))
  }
})
