import { maxTexts } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { type EntryRefused, IdempotencyConflict, NotFound } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import { fromEvents } from "../../store/EventRow.ts"
import {
  type Accepted,
  type Accepting,
  type InboxStore,
  isSame,
  type KnownToolId,
  knownUntil,
  refusals,
  saysTheSame,
  settles,
  type StoredSettling
} from "../../store/InboxStore.ts"
import { type Memory, wake } from "./Memory.ts"
import { findPlan, makeInboxReads } from "./MemoryInboxReads.ts"
import type { EntryRecord, PlanRecord } from "./MemoryRecords.ts"

const isText = ({ entry }: EntryRecord): boolean => entry.type === "text"
const isOpen = ({ plan }: PlanRecord): boolean => plan.finished_at === null

const known = ({ entry_id, moved_to }: EntryRecord): Accepted => ({ _tag: "Known", entry_id, moved_to })

/** Ends the waits whose time is over. Says whether there were some. */
const expireWaits = (record: PlanRecord, now: string): boolean => {
  const due = Array.from(record.waits.values()).filter(
    ({ request, settlement }) => settlement === undefined && request.expires_at <= now
  )
  for (const wait of due) {
    const { round, task_id, tool_digest } = wait.request
    wait.settlement = { task_id, round, given: undefined, tool_digest }
    record.inboxCount++
  }
  if (due.length > 0) wake(record, due.every(({ request }) => request.kind === "timer") ? "timer" : "expired")
  return due.length > 0
}

const hasTimer = ({ waits }: PlanRecord): boolean =>
  waits.values().some(({ request, settlement }) => request.kind === "timer" && settlement === undefined)

/** Writes a frame of a parked plan, in the place of the process that has none of it. */
const tellReaders = ({ events }: PlanRecord, entry: EntryRecord, event: PlanEvent, now: string): void => {
  const last = events.at(-1)
  const seq = last === undefined ? 1 : last.seq + last.count
  events.push(...fromEvents(seq, last !== undefined && last.at > now ? last.at : now, [event]))
  entry.told = entry.state
}

const accepted = (entry_id: EntryId) => ({ _tag: "Accepted" as const, entry_id, moved_to: null })

const obstacleOf = (record: PlanRecord, added: number): EntryRefused | undefined => {
  const texts = record.inbox.flatMap(({ entry, state }) =>
    entry.type === "text" && state === "accepted" ? [entry.text.length] : []
  )
  const characters = texts.reduce((sum, length) => sum + length, added)
  return texts.length >= maxTexts.count || characters > maxTexts.characters ? refusals.full : undefined
}

export const makeInboxStore = (memory: Memory): InboxStore["Service"] => {
  const add = (
    record: PlanRecord,
    { by, entry, entry_id, tools }: Accepting,
    now: string,
    rest: Partial<EntryRecord>
  ) => {
    const session = memory.sessions.get(record.plan.session_id)
    const added: EntryRecord = {
      entry_id,
      by,
      at: now,
      ordinal: memory.nextOrdinal(),
      entry,
      tools,
      round: null,
      state: "accepted",
      told: null,
      step: null,
      moved_to: null,
      ...rest
    }
    record.inbox.push(added)
    if (session !== undefined) memory.grow(session, entry)
    return added
  }

  /** Settles a call. */
  const settle = (record: PlanRecord, accepting: Accepting, entry: StoredSettling, now: string) =>
    Effect.gen(function* () {
      const { by, entry_id } = accepting
      const wait = record.waits.get(entry.task_id)
      const isWaiting = wait?.request.kind === settles[entry.type]
      const asked = (entry.type === "answer" ? entry.round : undefined) ?? (isWaiting ? wait.request.round : undefined)
      const first = record.inbox.findLast(
        (earlier) =>
          earlier.entry.type === entry.type &&
          earlier.entry.task_id === entry.task_id &&
          (asked === undefined || earlier.round === asked)
      )
      if (first !== undefined && first.entry.type !== "text") {
        return saysTheSame(first.entry, entry) ? known(first) : yield* refusals.settled
      }
      if (!isWaiting || (asked ?? 1) > wait.request.round) return yield* new NotFound({ what: "task" })
      if (!isOpen(record)) return yield* refusals.over
      if (wait.settlement !== undefined) return yield* refusals.expired
      const { known_tool, round, task_id, tool_digest } = wait.request
      wait.settlement = { task_id, round, given: { entry_id, by, entry }, tool_digest }
      if (entry.type === "decision" && entry.decision === "approve" && known_tool !== null && tool_digest !== null) {
        memory.know(record.owner, known_tool, tool_digest, now)
      }
      add(record, accepting, now, { round })
      record.inboxCount++
      const because = entry.type === "account" ? "account" : "entry"
      return { ...accepted(entry_id), ...(wake(record, because) && { parked: "woken" as const }) }
    })

  return {
    ...makeInboxReads(memory),
    accept: (accepting) =>
      Effect.gen(function* () {
        const { entry, entry_id, owner, plan_id } = accepting
        const record = yield* findPlan(memory, plan_id, owner)
        const same = record.inbox.find((earlier) => earlier.entry_id === entry_id)
        if (same !== undefined) {
          return isSame(same.entry, entry) ? known(same) : yield* new IdempotencyConflict()
        }
        const now = fromMillis(yield* Clock.currentTimeMillis)
        if (entry.type !== "text") return yield* settle(record, accepting, entry, now)
        if (record.plan.state === "completed" && entry.else === "ask")
          return { _tag: "Completed" as const, owner: record.owner }
        if (!isOpen(record)) return yield* refusals.over
        const obstacle = obstacleOf(record, entry.text.length)
        if (obstacle !== undefined) return yield* obstacle
        const added = add(record, accepting, now, {})
        record.inboxCount++
        if (record.plan.state !== "waiting") return accepted(entry_id)
        if (hasTimer(record) && wake(record, "entry")) return { ...accepted(entry_id), parked: "woken" as const }
        tellReaders(record, added, { event: "inbox.accepted", data: { entry_id, by: added.by, text: entry.text } }, now)
        return { ...accepted(entry_id), parked: "told" as const }
      }),
    move: (accepting, to) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const record = memory.plans.get(accepting.plan_id)
        if (record === undefined || record.inbox.some(({ entry_id }) => entry_id === accepting.entry_id)) return
        add(record, accepting, fromMillis(now), { state: "moved", told: "moved", moved_to: to })
      }),
    withdraw: (plan, id, owner) =>
      Effect.gen(function* () {
        const record = yield* findPlan(memory, plan, owner)
        const entry = record.inbox.find(({ entry_id }) => entry_id === id)
        if (entry === undefined) return yield* new NotFound({ what: "entry" })
        if (entry.state === "withdrawn") return
        if (!isText(entry) || entry.state !== "accepted") return yield* refusals.taken
        entry.state = "withdrawn"
        record.inboxCount++
        if (record.plan.state !== "waiting") return
        const now = fromMillis(yield* Clock.currentTimeMillis)
        tellReaders(record, entry, { event: "inbox.moved", data: { entry_id: id, moved_to: null } }, now)
      }),
    expire: Effect.map(Clock.currentTimeMillis, (millis) => {
      const now = fromMillis(millis)
      const plans = Array.from(memory.open.values()).filter((record) => expireWaits(record, now))
      const isWaking = plans.some(({ wokenBy }) => wokenBy !== null)
      return { plans: plans.map(({ plan }) => plan.plan_id), isWaking, isMore: false }
    }),
    meetTools: (owner, digests, now) =>
      Effect.sync(() => {
        const standing = new Map<KnownToolId, string>()
        for (const [tool, given] of digests) {
          const known = memory.knownTool(owner, tool)
          const digest = known?.digest ?? given
          if (known === undefined || known.expires_at < knownUntil(now).least) memory.know(owner, tool, digest, now)
          standing.set(tool, digest)
        }
        return standing
      })
  }
}
