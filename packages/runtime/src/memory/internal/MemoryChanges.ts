import type { PlanId } from "@bowline/domain/plan/Plan"
import type { NewMessage } from "@bowline/domain/session/Message"
import type { PlanChange } from "../../store/PlanStore.ts"
import type { Compaction } from "../../store/SessionStore.ts"
import type { Memory } from "./Memory.ts"
import type { PlanRecord, SessionRecord, Task } from "./MemoryRecords.ts"

/** The number of the last message that the compaction covers, if the session still has the history that it summarises. */
export const coverage = ({ coveredSeq, messages }: SessionRecord, compaction: Compaction): number | undefined => {
  const seq = messages.find(({ message_id }) => message_id === compaction.through)?.seq ?? 0
  return compaction.covered_seq === coveredSeq && seq > coveredSeq ? seq : undefined
}

export const compact = (session: SessionRecord, compaction: Compaction): void => {
  session.coveredSeq = coverage(session, compaction) ?? session.coveredSeq
  session.coveredPriors = compaction.prior_seq
  session.summary = compaction.summary
  session.messages = session.messages.map((message) =>
    message.seq > session.coveredSeq || message.compacted ? message : { ...message, compacted: true }
  )
}

export const append = (session: SessionRecord, plan_id: PlanId, message: NewMessage, created_at: string): void => {
  session.messages.push({ ...message, seq: ++session.lastSeq, plan_id, created_at, compacted: false })
}

type TaskChange = Extract<PlanChange, { readonly _tag: "TaskStarted" | "TaskAccepted" | "TaskFinished" }>

const applyToTask = (record: PlanRecord, session: SessionRecord, change: TaskChange): void => {
  if (change._tag === "TaskStarted") {
    const task: Task = {
      task_id: change.task_id,
      tool: change.tool,
      kind: change.kind,
      agent: change.agent,
      endpoint: change.endpoint,
      skill: change.skill,
      input: change.input,
      started_at: change.at,
      remote_task_id: null,
      remote_context_id: null,
      state: change.state,
      preset: record.plan.preset,
      finished_at: null,
      error: null,
      result: null,
      reverted: false
    }
    record.tasks.set(change.task_id, task)
    session.tasks.push(task)
    return
  }
  const task = record.tasks.get(change.task_id)
  if (task === undefined) return
  if (change._tag === "TaskFinished") {
    task.state = change.state
    task.finished_at = change.at
    task.error = change.error
    task.result = change.result
    return
  }
  task.remote_task_id = change.remote_task_id
  task.remote_context_id = change.remote_context_id
}

const changeEntry = (record: PlanRecord, change: Extract<PlanChange, { readonly _tag: "EntryChanged" }>): void => {
  const entry = record.inbox.find(({ entry_id }) => entry_id === change.entry_id)
  if (entry === undefined) return
  entry.told = change.state
  // Its sender may have taken it back before the plan could tell that it was accepted.
  if (change.state === "accepted" || change.state === "withdrawn") return
  entry.state = change.state
  entry.step = change.step
  entry.moved_to = change.moved_to
}

/** `at` is the time of the write, ISO 8601 in UTC. */
export const apply = (
  memory: Memory,
  record: PlanRecord,
  session: SessionRecord,
  change: PlanChange,
  at: string
): void => {
  switch (change._tag) {
    case "Held":
      record.plan = { ...record.plan, state: "running", stage: null }
      record.fence = change.fence
      return
    case "Progressed":
      record.plan = { ...record.plan, ...change.progress, stage: change.stage }
      return
    case "Charged":
      memory.charge(record.owner, record.plan.preset, change)
      return
    case "MessageAppended":
      append(session, record.plan.plan_id, change.message, change.at)
      return
    case "Compacted":
      compact(session, change.compaction)
      return
    case "TaskStarted":
    case "TaskAccepted":
    case "TaskFinished":
      applyToTask(record, session, change)
      return
    case "EffectClaimed":
      memory.claim(record, change)
      return
    case "EffectEnded":
      memory.endEffect(change)
      return
    case "WaitOpened":
      record.waits.set(change.task_id, {
        ordinal: memory.nextOrdinal(),
        since: at,
        request: change,
        settlement: undefined
      })
      return
    case "WaitEnded": {
      const wait = record.waits.get(change.task_id)
      if (wait !== undefined) {
        const { round, task_id } = wait.request
        wait.settlement ??= { task_id, round, given: undefined, tool_digest: null }
      }
      return
    }
    case "EntryChanged":
      changeEntry(record, change)
      return
    case "Continued":
      return
    case "Summed":
      record.gist = change.gist
      record.firstTokenAt ??= change.firstTokenAt
      return
    case "HandedOver":
      record.isHandedOver = true
      return
    case "Parked":
      record.plan = { ...record.plan, state: "waiting", deadline_at: null }
      record.leftMs = change.leftMs
      record.preferences = change.preferences
      record.needsReader = change.needsReader
      return
    case "Woken":
      record.wokenBy = null
      record.plan = { ...record.plan, stage: null }
      return
    case "Released":
      session.lease = undefined
      return
    case "Settled": {
      const { outcome, progress } = change
      record.plan = {
        ...record.plan,
        ...progress,
        state: outcome.state,
        stage: null,
        finished_at: change.at,
        final: outcome.state === "completed" ? outcome.final : null,
        error: outcome.state === "completed" ? null : outcome.error
      }
      record.request = { ...record.request, secrets: null }
      session.last_active_at = change.at
    }
  }
}
