import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { Message, MessageId } from "@bowline/domain/session/Message"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import type { EventRow } from "../../store/EventRow.ts"
import type { Notice, Notices } from "../../store/Notices.ts"
import type { Committed, PlanChange, PlanCommit, PlanStore } from "../../store/PlanStore.ts"
import type { Memory } from "./Memory.ts"
import { apply, coverage } from "./MemoryChanges.ts"
import { prepare } from "./MemoryCreations.ts"
import { tellWebhooks } from "./MemoryWebhooks.ts"
import type { PlanRecord, SessionRecord } from "./MemoryRecords.ts"

/** Whether the history that the compactions summarise is still the session's. */
const isCurrent = (session: SessionRecord, changes: ReadonlyArray<PlanChange>): boolean =>
  changes.every((change) => change._tag !== "Compacted" || coverage(session, change.compaction) !== undefined)

/** Whether an earlier try of the same commit has ended the plan, or parked it. Another replica may have ended it at the same time: behind other events. */
const isSettledBy = ({ events: stored, plan }: PlanRecord, { changes, events }: PlanCommit): boolean =>
  (events.length === 0 || events.at(-1)?.seq === stored.at(-1)?.seq) &&
  changes.some((change) =>
    change._tag === "Settled"
      ? change.at === plan.finished_at && change.outcome.state === plan.state
      : change._tag === "Parked" && plan.state === "waiting"
  )

/** Whether the event is there. It looks from the end, where the events of a commit are that is repeated. */
const hasEvent = (rows: ReadonlyArray<EventRow>, seq: number): boolean =>
  rows.findLast((row) => row.seq <= seq)?.seq === seq

/** Whether the plan, which writes the session now, has added the message: its messages are the last ones. */
const hasMessage = (messages: ReadonlyArray<Message>, plan: PlanId, id: MessageId): boolean => {
  const before = messages.findLastIndex(({ message_id, plan_id }) => plan_id !== plan || message_id === id)
  return messages[before]?.message_id === id
}

/** Whether an earlier try of the same commit has been stored: its answer was lost. */
const isStoredBy = ({ events }: PlanRecord, { messages }: SessionRecord, commit: PlanCommit): boolean => {
  const lastEvent = commit.events.at(-1)?.seq
  const lastMessage = commit.changes.findLast((change) => change._tag === "MessageAppended")?.message.message_id
  return (
    (lastEvent !== undefined && hasEvent(events, lastEvent)) ||
    (lastMessage !== undefined && hasMessage(messages, commit.plan_id, lastMessage))
  )
}

/** What other replicas are to hear of a change. */
const noticeOf = ({ guard, session_id }: PlanCommit, { _tag }: PlanChange): ReadonlyArray<Notice> => {
  if (_tag === "Released") return [{ _tag: "LeaseReleased", session_id }]
  return _tag === "HandedOver" && guard._tag === "Queued" ? [{ _tag: "PlansLeft" }] : []
}

interface Found {
  readonly record: PlanRecord
  readonly session: SessionRecord
}

/** The records that a commit is written to, unless it was written before or must not be. */
const find = (memory: Memory, commit: PlanCommit): Found | "known" | Exclude<Committed, "behind"> => {
  const { changes, guard, inbox } = commit
  const record = memory.plans.get(commit.plan_id)
  const session = memory.sessions.get(commit.session_id)
  if (record !== undefined && isSettledBy(record, commit)) return "known"
  if (record === undefined || session === undefined || !memory.holds(record, guard)) return "refused"
  if (isStoredBy(record, session, commit)) return "known"
  if (!isCurrent(session, changes)) return "refused"
  const parksAborted = record.abort !== undefined && changes.some(({ _tag }) => _tag === "Parked")
  if (inbox?.closes === true && (inbox.seen !== record.inboxCount || parksAborted)) return "unread"
  return { record, session }
}

/** Writes a commit at once, and adds what others are to hear. `creates` makes the plans that continue it. */
const store = (
  memory: Memory,
  commit: PlanCommit,
  { record, session }: Found,
  creates: ReadonlyArray<() => void>,
  now: number,
  told: Array<Notice>
): void => {
  const { changes, events, plan_id } = commit
  // Most commits are a piece of a text.
  if (changes.length > 0) {
    const at = fromMillis(now)
    for (const change of changes) apply(memory, record, session, change, at)
    if (isSettled(record.plan)) {
      memory.open.delete(plan_id)
      session.open.delete(record)
    }
  }
  record.events.push(...events)
  memory.grow(session, [changes, events])
  memory.touch(session)
  if (changes.length === 0) return
  for (const create of creates) create()
  if (tellWebhooks(memory, plan_id, changes, now)) told.push({ _tag: "DeliveriesDue" })
  told.push(...changes.flatMap((change) => noticeOf(commit, change)))
}

export const makeCommit = (memory: Memory, notices: Notices["Service"]): PlanStore["Service"]["commit"] =>
  Effect.fnUntraced(function* (batch) {
    const now = yield* Clock.currentTimeMillis
    const committed = new Map<PlanId, Committed>()
    const told: Array<Notice> = []
    for (const commit of batch) {
      const found = find(memory, commit)
      if (typeof found !== "string") {
        const { record } = found
        const next = commit.changes.flatMap((change) => (change._tag === "Continued" ? [change.plan] : []))
        const creates =
          next.length === 0
            ? []
            : yield* Effect.orDie(Effect.forEach(next, (plan) => prepare(memory, plan, Infinity, record)))
        store(memory, commit, found, creates, now, told)
      } else if (found !== "known") committed.set(commit.plan_id, found)
      const { inbox } = commit
      const count = memory.plans.get(commit.plan_id)?.inboxCount
      if (inbox !== undefined && !committed.has(commit.plan_id) && count !== inbox.seen) {
        committed.set(commit.plan_id, "behind")
      }
    }
    if (told.length > 0) yield* Effect.ignore(notices.publish(told))
    return committed
  })
