import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import { type Entry, maxTexts, type Settling, type Waiting } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { type EntryRefused, IdempotencyConflict, NotFound } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Clock, Effect, Option, Struct } from "effect"
import { fromEvents } from "../../store/EventRow.ts"
import {
  type Accepted,
  type Accepting,
  type InboxContent,
  type InboxStore,
  isSame,
  type KnownToolId,
  knownUntil,
  refusals,
  saysTheSame,
  settles,
  type StoredWait,
  toolsIn
} from "../../store/InboxStore.ts"
import { type Memory, wake } from "./Memory.ts"
import type { EntryRecord, PlanRecord, WaitRecord } from "./MemoryRecords.ts"
import { newestFirst } from "./NewestFirst.ts"

const isText = ({ entry }: EntryRecord): boolean => entry.type === "text"
const isOpen = ({ plan }: PlanRecord): boolean => plan.finished_at === null

const known = ({ entry_id, moved_to }: EntryRecord): Accepted => ({ _tag: "Known", entry_id, moved_to })

const shownEntry = ({ at, by, entry, entry_id, moved_to, state, step }: EntryRecord): Entry => ({
  entry_id,
  type: entry.type,
  by,
  at,
  state,
  task_id: entry.type === "text" ? null : entry.task_id,
  step,
  moved_to,
  text: entry.type === "text" ? entry.text : null
})

const shownWait = ({ plan }: PlanRecord, { request, since }: WaitRecord, kind: Waiting["kind"]): Waiting => {
  const { agent, data, expires_at, input, message, task_id, tool, url, why } = request
  const { caller, plan_id, session_id } = plan
  return { plan_id, session_id, task_id, kind, tool, agent, input, why, message, data, url, since, expires_at, caller }
}

/** What is new in a plan's inbox for its process. */
export const contentOf = ({ inbox, inboxCount, plan, waits }: PlanRecord): InboxContent => ({
  plan_id: plan.plan_id,
  count: inboxCount,
  texts: inbox.flatMap(({ by, entry, entry_id, state, told }) =>
    entry.type === "text" && (state === "accepted" || (state === "withdrawn" && told !== "withdrawn"))
      ? [
          {
            entry_id,
            by,
            text: entry.text,
            when: entry.when,
            else: entry.else,
            isWithdrawn: state === "withdrawn",
            isTold: told === state
          }
        ]
      : []
  ),
  settlements: Array.from(waits.values()).flatMap(({ settlement }) => {
    const entry = inbox.find(({ entry_id }) => entry_id === settlement?.given?.entry_id)
    return settlement === undefined || (entry !== undefined && entry.state !== "accepted") ? [] : [settlement]
  }),
  tools: inbox.findLast(({ tools }) => tools !== undefined)?.tools
})

/** What was decided about a call. */
const decisionOf = ({ inbox }: PlanRecord, task: TaskId): StoredWait["decision"] =>
  inbox
    .flatMap(({ by, entry, entry_id }) =>
      entry.type === "decision" && entry.task_id === task ? [{ entry_id, by, entry }] : []
    )
    .at(0)

/** What the calls of a plan wait for, or waited for last. */
export const waitsOf = (record: PlanRecord): ReadonlyArray<StoredWait> =>
  Array.from(record.waits.values(), ({ request, settlement }) => {
    const { expires_at, kind, mark, round, schema, spent_ms, task_id, tool, url } = request
    const entry = record.inbox.find(({ entry_id }) => entry_id === settlement?.given?.entry_id)
    const taken_at = entry?.state === "taken" ? entry.at : null
    const decision = decisionOf(record, task_id)
    return { task_id, kind, round, tool, schema, url, expires_at, mark, spent_ms, settlement, taken_at, decision }
  })

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
  const find = (id: PlanId, owner: Accepting["owner"]) =>
    Effect.suspend(() => {
      const record = memory.plans.get(id)
      return record === undefined || (owner ?? record.owner) !== record.owner
        ? Effect.fail(new NotFound({ what: "plan" }))
        : Effect.succeed(record)
    })

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
  const settle = (record: PlanRecord, accepting: Accepting, entry: Settling, now: string) =>
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
      return { ...accepted(entry_id), ...(wake(record, "entry") && { parked: "woken" as const }) }
    })

  const waitingOf = (owner: PlanRecord["owner"]) =>
    Array.from(memory.open.values())
      .filter((record) => record.owner === owner)
      .flatMap((record) =>
        Array.from(record.waits.values()).flatMap((wait) => {
          const { kind } = wait.request
          return wait.settlement !== undefined || kind === "timer"
            ? []
            : [{ ordinal: wait.ordinal, waiting: shownWait(record, wait, kind) }]
        })
      )

  return {
    accept: (accepting) =>
      Effect.gen(function* () {
        const { entry, entry_id, owner, plan_id } = accepting
        const record = yield* find(plan_id, owner)
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
    find: ({ plan_id, task_id }, owner) =>
      Effect.flatMap(find(plan_id, owner), ({ waits }) => {
        const request = waits.get(task_id)?.request
        if (request === undefined) return Effect.fail(new NotFound({ what: "task" }))
        const { kind, round, schema, tool, url } = request
        return Effect.succeed({ kind, round, tool, schema, url })
      }),
    planOfCall: (owner, task) =>
      Effect.sync(() => {
        const found = Array.from(memory.plans.values()).find(
          (record) => record.owner === owner && record.waits.has(task)
        )
        return Option.fromUndefinedOr(found?.plan.plan_id)
      }),
    toolsOf: (id) =>
      Effect.sync(() => {
        const record = memory.plans.get(id)
        return record === undefined ? [] : (contentOf(record).tools ?? toolsIn(record.request.request))
      }),
    planOf: (id) =>
      Effect.sync(
        () =>
          Array.from(memory.plans.values()).find(({ inbox }) => inbox.some(({ entry_id }) => entry_id === id))?.plan
            .plan_id
      ),
    withdraw: (plan, id, owner) =>
      Effect.gen(function* () {
        const record = yield* find(plan, owner)
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
    list: (plan, owner, { cursor = 0, limit }) =>
      Effect.map(find(plan, owner), ({ inbox }) => {
        const found = inbox.filter(({ ordinal }) => ordinal > cursor)
        const items = found.slice(0, limit)
        return { items: items.map(shownEntry), next: found.length > limit ? (items.at(-1)?.ordinal ?? null) : null }
      }),
    expire: Effect.map(Clock.currentTimeMillis, (millis) => {
      const now = fromMillis(millis)
      const plans = Array.from(memory.open.values()).filter((record) => expireWaits(record, now))
      const isWaking = plans.some(({ wokenBy }) => wokenBy !== null)
      return { plans: plans.map(({ plan }) => plan.plan_id), isWaking, isMore: false }
    }),
    read: (plans) =>
      Effect.sync(() =>
        plans.flatMap(({ plan_id, seen }) => {
          const record = memory.plans.get(plan_id)
          return record === undefined || record.inboxCount === seen ? [] : [contentOf(record)]
        })
      ),
    waiting: (owner, { kind, plan }, { cursor = 0, limit }) =>
      Effect.sync(() => {
        const found = waitingOf(owner)
          .filter(({ ordinal }) => ordinal > cursor)
          .filter(
            ({ waiting }) => (kind ?? waiting.kind) === waiting.kind && (plan ?? waiting.plan_id) === waiting.plan_id
          )
          .sort((a, b) => a.ordinal - b.ordinal)
        const items = found.slice(0, limit)
        return {
          items: items.map(({ waiting }) => waiting),
          next: found.length > limit ? (items.at(-1)?.ordinal ?? null) : null
        }
      }),
    approvals: (owner, plan, page) =>
      Effect.sync(() => {
        const found = waitingOf(owner).flatMap(({ ordinal, waiting }) => {
          const { data: _, kind, message: __, since: ___, url: ____, why, ...approval } = waiting
          return kind !== "approval" || why === null || (plan ?? waiting.plan_id) !== waiting.plan_id
            ? []
            : [{ ordinal, approval: { ...approval, why } }]
        })
        return newestFirst(found, page, ({ approval }): PendingApproval => approval)
      }),
    decision: ({ plan_id, task_id }) =>
      Effect.sync((): GivenDecision | undefined => {
        const record = memory.plans.get(plan_id)
        const given = record && decisionOf(record, task_id)
        return given && { ...Struct.pick(given.entry, ["decision", "note"]), by: given.by }
      }),
    isRemembered: (session, tool) =>
      Effect.sync(() =>
        Array.from(memory.sessions.get(session)?.plans ?? []).some((id) => {
          const record = memory.plans.get(id)
          return record?.inbox.some(
            ({ entry }) =>
              entry.type === "decision" &&
              entry.decision === "approve" &&
              entry.remember === "session" &&
              record.waits.get(entry.task_id)?.request.tool === tool
          )
        })
      ),
    movesTo: (plan) =>
      Effect.sync(() => {
        let count = 0
        for (let id: PlanId | undefined = plan; id !== undefined; count++) {
          const to: PlanId = id
          id = Array.from(memory.plans.values()).find(({ inbox }) => inbox.some(({ moved_to }) => moved_to === to))
            ?.plan.plan_id
        }
        return count - 1
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
