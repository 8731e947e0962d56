import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { Message, MessageId } from "@bowline/domain/session/Message"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import type { Notice, Notices } from "../../store/Notices.ts"
import type { Committed, PlanChange, PlanCommit, PlanStore } from "../../store/PlanStore.ts"
import type { Memory } from "./Memory.ts"
import { apply, coverage } from "./MemoryChanges.ts"
import { hasEvent } from "./MemoryEvents.ts"
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

/** Writes a commit. Says whether it was written, was written before, or why it is not. */
const write = (memory: Memory, commit: PlanCommit, at: string): "written" | "known" | Exclude<Committed, "behind"> => {
  const { plan_id, session_id, guard, changes, events, inbox } = commit
  const record = memory.plans.get(plan_id)
  const session = memory.sessions.get(session_id)
  if (record !== undefined && isSettledBy(record, commit)) return "known"
  if (record === undefined || session === undefined || !memory.holds(record, guard)) return "refused"
  if (isStoredBy(record, session, commit)) return "known"
  if (!isCurrent(session, changes)) return "refused"
  if (inbox?.closes === true && inbox.seen !== record.inboxCount) return "unread"
  for (const change of changes) apply(memory, record, session, change, at)
  if (isSettled(record.plan)) {
    memory.open.delete(plan_id)
    session.open.delete(record)
  }
  record.events.push(...events)
  memory.grow(session, [changes, events])
  memory.touch(session)
  return "written"
}

/** Creates the plan that continues one that is over. */
const continueWith = (create: PlanStore["Service"]["create"], { changes }: PlanCommit) =>
  Effect.forEach(changes, (change) =>
    change._tag === "Continued" ? Effect.orDie(create(change.plan, Infinity)) : Effect.void
  )

export const makeCommit = (
  memory: Memory,
  notices: Notices["Service"],
  create: PlanStore["Service"]["create"]
): PlanStore["Service"]["commit"] =>
  Effect.fnUntraced(function* (batch) {
    const at = fromMillis(yield* Clock.currentTimeMillis)
    const committed = new Map<PlanId, Committed>()
    const told: Array<Notice> = []
    for (const commit of batch) {
      const result = write(memory, commit, at)
      if (result === "written") {
        yield* continueWith(create, commit)
        told.push(...commit.changes.flatMap((change) => noticeOf(commit, change)))
      } else if (result !== "known") committed.set(commit.plan_id, result)
      const { inbox } = commit
      const count = memory.plans.get(commit.plan_id)?.inboxCount
      if (inbox !== undefined && !committed.has(commit.plan_id) && count !== inbox.seen) {
        committed.set(commit.plan_id, "behind")
      }
    }
    if (told.length > 0) yield* Effect.ignore(notices.publish(told))
    return committed
  })
