import type { Charge, PlanChange, PlanCommit } from "@bowline/runtime/unstable/store/PlanStore"
import { toldBy } from "@bowline/runtime/unstable/store/ToldWebhooks"
import type { Compaction } from "@bowline/runtime/unstable/store/SessionStore"
import { storable } from "../../internal/Storable.ts"
import {
  changeTask,
  type ClaimRow,
  claimOf,
  type EffectRow,
  type EndedWaitRow,
  type EntryRow,
  type TaskRow,
  unchangedTask,
  type WaitRow,
  waitOf
} from "./CallRows.ts"

/** A plan's guard, and what a batch has once per plan. `fence` is that of the session, which the plan holds or is about to hold. */
interface GuardRow {
  readonly plan_id: string
  readonly session_id: string
  readonly replica: string | null
  readonly queue_fence: number | null
  readonly fence: number | null
  /** The last event and the last message of the commit. If they are stored, an earlier try of the commit succeeded. */
  readonly last_seq: number | null
  readonly last_message: string | null
  readonly messages: number
  /** The last message that a compaction covers. */
  readonly through: string | null
  readonly settled_as: string | null
  readonly settled_at: string | null
  /** Whether the lease of the session ends with the plan. */
  readonly released: boolean
  /** Of a plan that is parked: when the last of its waits ends. */
  readonly until: string | null
  /** How much of the plan's inbox its process has read, if it has one; and whether the commit is only stored if that is all. */
  readonly seen: number | null
  readonly closes: boolean
}

interface EventRow {
  readonly plan_id: string
  readonly seq: number
  readonly at: string
  readonly count: number
  readonly event: string
  readonly payload: string
}

/** Changes of the plan's row. Null leaves a column as it is. */
interface PlanRow {
  readonly plan_id: string
  readonly state: string | null
  /** Whether the batch sets the stage, which may be null. */
  readonly staged: boolean
  readonly stage: string | null
  readonly fence: number | null
  readonly model: string | null
  readonly steps: number | null
  readonly tool_calls: number | null
  readonly retries: number | null
  readonly usage: string | null
  /** Comes with `usage`, and may be null then, too. */
  readonly cost_usd: number | null
  readonly handed_over: boolean | null
  readonly left_ms: number | null
  readonly preferences: string | null
  /** Whether readers are told what has woken the plan. */
  readonly woken: boolean
  /** Whether the batch sets the gist, which may be null. */
  readonly summed: boolean
  readonly gist: string | null
  readonly first_token_at: string | null
  readonly final: string | null
  readonly error: string | null
  readonly error_code: string | null
  readonly finished_at: string | null
}

interface ChargeRow {
  readonly plan_id: string
  readonly day: string
  readonly model: string
  readonly plans: number
  readonly tool_calls: number
  readonly input_tokens: number
  readonly cached_input_tokens: number
  readonly output_tokens: number
  readonly cost_usd: number
  readonly unpriced: number
}

export const chargeOf = (plan_id: string, charge: Charge): ChargeRow => {
  const { cost_usd, day, model, plans, tool_calls, usage } = charge
  const { cached_input_tokens, input_tokens, output_tokens } = usage
  return {
    plan_id,
    day,
    model: storable(model),
    plans,
    tool_calls,
    input_tokens,
    cached_input_tokens,
    output_tokens,
    cost_usd: cost_usd ?? 0,
    unpriced: cost_usd === null ? 1 : 0
  }
}

interface MessageRow {
  readonly plan_id: string
  readonly position: number
  readonly id: string
  readonly role: string
  readonly parts: string
  readonly created_at: string
}

interface CompactionRow {
  readonly plan_id: string
  readonly id: string
  readonly summary: string
  readonly through: string
  /** The `covered_seq` that the session had when the compaction was made. */
  readonly covered_seq: number
  readonly prior_seq: number
}

/** What the webhooks of a plan are told, in this order. */
interface ToldRow {
  readonly plan_id: string
  readonly position: number
  readonly event: string
  /** Null for now. */
  readonly at: string | null
  readonly wait: string | null
}

const toldOf = ({ changes, plan_id }: PlanCommit): ReadonlyArray<Omit<ToldRow, "position">> =>
  toldBy(changes).map(({ at = null, event, wait }) => ({
    plan_id,
    event,
    at,
    wait: wait === null ? null : JSON.stringify(wait)
  }))

/** The rows of a batch by table. Documents are JSON texts. */
export interface BatchRows {
  readonly guards: ReadonlyArray<GuardRow>
  readonly events: ReadonlyArray<EventRow>
  readonly plans: ReadonlyArray<PlanRow>
  readonly charges: ReadonlyArray<ChargeRow>
  readonly messages: ReadonlyArray<MessageRow>
  readonly compactions: ReadonlyArray<CompactionRow>
  readonly started: ReadonlyArray<TaskRow>
  readonly changed: ReadonlyArray<TaskRow>
  readonly waits: ReadonlyArray<WaitRow>
  readonly entries: ReadonlyArray<EntryRow>
  readonly ended: ReadonlyArray<EndedWaitRow>
  readonly claims: ReadonlyArray<ClaimRow>
  readonly effects: ReadonlyArray<EffectRow>
  readonly told: ReadonlyArray<ToldRow>
}

const unchangedPlan = {
  state: null,
  staged: false,
  stage: null,
  fence: null,
  model: null,
  steps: null,
  tool_calls: null,
  retries: null,
  usage: null,
  cost_usd: null,
  handed_over: null,
  left_ms: null,
  preferences: null,
  woken: false,
  summed: false,
  gist: null,
  first_token_at: null,
  final: null,
  error: null,
  error_code: null,
  finished_at: null
}

/** `on_disconnect` is the first preference that it writes of a plan that needs a reader: who looks for unread plans finds it there. */
const toParked = (plan: PlanRow, change: Extract<PlanChange, { _tag: "Parked" }>): PlanRow => {
  const { on_disconnect, ...others } = change.preferences
  const written = change.needsReader ? { on_disconnect, ...others } : { ...others, on_disconnect }
  return { ...plan, state: "waiting", left_ms: Math.round(change.leftMs), preferences: JSON.stringify(written) }
}

const changePlan = (
  plan: PlanRow,
  change: Extract<
    PlanChange,
    { readonly _tag: "Held" | "Progressed" | "Summed" | "HandedOver" | "Parked" | "Woken" | "Settled" }
  >
): PlanRow => {
  if (change._tag === "Parked") {
    return toParked(plan, change)
  }
  if (change._tag === "HandedOver") return { ...plan, handed_over: true }
  if (change._tag === "Summed") return { ...plan, summed: true, gist: change.gist, first_token_at: change.firstTokenAt }
  const staged = { ...plan, staged: true, stage: null }
  if (change._tag === "Woken") return { ...staged, woken: true }
  if (change._tag === "Held") return { ...staged, state: "running", fence: change.fence }
  const { model, usage, ...counts } = change.progress
  const progressed = { ...staged, ...counts, model: storable(model), usage: JSON.stringify(usage) }
  if (change._tag === "Progressed") return { ...progressed, stage: change.stage }
  const { outcome, at } = change
  return {
    ...progressed,
    state: outcome.state,
    final: outcome.state === "completed" ? JSON.stringify(outcome.final) : null,
    error: outcome.state === "completed" ? null : JSON.stringify(outcome.error),
    error_code: outcome.state === "completed" ? null : storable(outcome.error.code),
    finished_at: at
  }
}

/** What the changes of one plan make of its rows. */
interface Merged {
  readonly plan: PlanRow | undefined
  readonly charges: ReadonlyArray<ChargeRow>
  readonly messages: ReadonlyArray<Omit<MessageRow, "position">>
  readonly compaction: CompactionRow | undefined
  readonly tasks: ReadonlyArray<TaskRow>
  readonly waits: ReadonlyArray<WaitRow>
  readonly entries: ReadonlyArray<EntryRow>
  readonly ended: ReadonlyArray<EndedWaitRow>
  readonly claims: ReadonlyArray<ClaimRow>
  readonly effects: ReadonlyArray<EffectRow>
  readonly isReleased: boolean
  readonly until: string | null
}

const compact = (
  plan_id: string,
  earlier: CompactionRow | undefined,
  { covered_seq, ...compaction }: Compaction
): CompactionRow => ({
  plan_id,
  ...compaction,
  summary: storable(compaction.summary),
  // The session has what the first compaction of the batch follows.
  covered_seq: earlier?.covered_seq ?? covered_seq
})

const merge = ({ plan_id, changes }: PlanCommit): Merged => {
  let plan: PlanRow | undefined
  let compaction: CompactionRow | undefined
  let isReleased = false
  let until: string | null = null
  const tasks = new Map<string, TaskRow>()
  const waits = new Map<string, WaitRow>()
  const entries = new Map<string, EntryRow>()
  const ended: Array<EndedWaitRow> = []
  const charges: Array<ChargeRow> = []
  const claims: Array<ClaimRow> = []
  const effects: Array<EffectRow> = []
  const messages: Array<Omit<MessageRow, "position">> = []
  for (const change of changes) {
    switch (change._tag) {
      case "Held":
      case "Progressed":
      case "Summed":
      case "HandedOver":
      case "Parked":
      case "Woken":
      case "Settled":
        if (change._tag === "Parked") until = change.until
        plan = changePlan(plan ?? { plan_id, ...unchangedPlan }, change)
        break
      case "Charged":
        charges.push(chargeOf(plan_id, change))
        break
      case "MessageAppended": {
        const { message_id: id, role, parts } = change.message
        messages.push({ plan_id, id, role, parts: JSON.stringify(parts), created_at: change.at })
        break
      }
      case "WaitOpened":
        waits.set(change.task_id, waitOf(plan_id, change))
        break
      case "EffectClaimed":
        claims.push(claimOf(plan_id, change))
        break
      case "EffectEnded":
        effects.push({ plan_id, task_id: change.task_id, state: change.state })
        break
      case "WaitEnded":
        ended.push({ plan_id, task_id: change.task_id })
        break
      case "EntryChanged": {
        const { entry_id: id, moved_to, state, step } = change
        entries.set(id, { plan_id, id, state, step, moved_to })
        break
      }
      // A statement of its own writes it.
      case "Continued":
        break
      case "Released":
        isReleased = true
        break
      case "Compacted":
        compaction = compact(plan_id, compaction, change.compaction)
        break
      case "TaskStarted":
      case "TaskAccepted":
      case "TaskFinished": {
        const task = tasks.get(change.task_id) ?? { plan_id, id: change.task_id, ...unchangedTask }
        tasks.set(change.task_id, changeTask(task, change))
      }
    }
  }
  return {
    plan,
    charges,
    messages,
    compaction,
    tasks: Array.from(tasks.values()),
    waits: Array.from(waits.values()),
    entries: Array.from(entries.values()),
    ended,
    claims,
    effects,
    isReleased,
    until
  }
}

const guardOf = (commit: PlanCommit, { plan, messages, compaction, isReleased, until }: Merged): GuardRow => {
  const { plan_id, session_id, guard, events, inbox } = commit
  return {
    plan_id,
    session_id,
    replica: guard._tag === "Queued" ? guard.replica : null,
    queue_fence: guard._tag === "Queued" ? guard.fence : null,
    fence: guard._tag === "Held" ? guard.fence : (plan?.fence ?? null),
    last_seq: events.at(-1)?.seq ?? null,
    last_message: messages.at(-1)?.id ?? null,
    messages: messages.length,
    through: compaction?.through ?? null,
    settled_as: plan?.finished_at == null && plan?.state !== "waiting" ? null : plan.state,
    settled_at: plan?.finished_at ?? null,
    released: isReleased,
    until,
    seen: inbox?.seen ?? null,
    closes: inbox?.closes ?? false
  }
}

/** Merges the changes of each plan, so that the batch writes no row twice. */
export const batchRows = (batch: ReadonlyArray<PlanCommit>): BatchRows => {
  const merged = batch.map((commit) => ({ commit, ...merge(commit) }))
  const tasks = merged.flatMap(({ tasks }) => tasks)
  const effects = merged.flatMap(({ effects }) => effects)
  const done = new Set(effects.flatMap(({ state, task_id }) => (state === "done" ? [task_id] : [])))
  // What was done is not done again, whoever has approved it in doubt.
  const claims = merged.flatMap(({ claims }) => claims).filter(({ follows }) => follows === null || !done.has(follows))
  const followed = new Set(claims.map(({ follows }) => follows))
  const isNew = ({ started_at }: TaskRow) => started_at !== undefined
  return {
    guards: merged.map(({ commit, ...rows }) => guardOf(commit, rows)),
    events: batch.flatMap(({ plan_id, events }) =>
      events.map(({ seq, at, count, event, payload, record }) => ({ plan_id, seq, at, count, event, payload, record }))
    ),
    plans: merged.flatMap(({ plan }) => plan ?? []),
    charges: merged.flatMap(({ charges }) => charges),
    messages: merged.flatMap(({ messages }) => messages).map((message, position) => ({ ...message, position })),
    compactions: merged.flatMap(({ compaction }) => compaction ?? []),
    started: tasks.filter(isNew),
    changed: tasks.filter((task) => !isNew(task)),
    waits: merged.flatMap(({ waits }) => waits),
    entries: merged.flatMap(({ entries }) => entries),
    ended: merged.flatMap(({ ended }) => ended),
    claims,
    // A call that follows another one takes its row over.
    effects: effects.filter(({ task_id }) => !followed.has(task_id)),
    told: batch.flatMap(toldOf).map((row, position) => ({ ...row, position }))
  }
}
