import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message } from "@bowline/domain/session/Message"
import type { Session, SessionId } from "@bowline/domain/session/Session"
import type { ListedSession } from "@bowline/domain/unstable/session/ListedSession"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Duration, Effect, type Schema } from "effect"
import { LeaseLost } from "../../store/LeaseStore.ts"
import { spendingDays } from "../../store/OverviewStore.ts"
import {
  type Compaction,
  noPlan,
  type RecentCursor,
  type SessionStore,
  type SessionSummary
} from "../../store/SessionStore.ts"
import { questionId } from "../../store/PlanStore.ts"
import { firingsKeptFor } from "../../store/ScheduleStore.ts"
import { shownSummary } from "../../store/PriorSummaries.ts"
import { type Memory, openSession } from "./Memory.ts"
import { append, compact, coverage } from "./MemoryChanges.ts"
import { handedBackTo, withdraw } from "./HandedBackCalls.ts"
import type { PlanRecord, SessionRecord, Task } from "./MemoryRecords.ts"
import { newestFirst } from "./NewestFirst.ts"

/** How many sessions, and how many keys, one sweep deletes. */
const sweepSize = 100

/** The first of the values that are wanted; none is looked at after them. */
const firstFew = <A>(values: Iterable<A>, limit: number, isWanted: (value: A) => boolean): ReadonlyArray<A> => {
  const found: Array<A> = []
  for (const value of values) {
    if (isWanted(value) && found.push(value) === limit) break
  }
  return found
}

const summaryOf = (session: SessionRecord): SessionSummary => ({
  text: session.summary,
  covered_seq: session.coveredSeq,
  priors: session.priors.slice(session.coveredPriors),
  prior_seq: session.priors.length
})

const isStored = ({ coveredSeq, messages, summary }: SessionRecord, compaction: Compaction): boolean =>
  summary === compaction.summary &&
  messages.some(({ message_id, seq }) => message_id === compaction.through && seq === coveredSeq)

/** The first 200 characters of a question, none of them cut in half. */
export const previewOf = (question: string): string => Array.from(question.slice(0, 400)).slice(0, 200).join("")

const isBefore = ({ last_active_at, ordinal }: SessionRecord, cursor: RecentCursor): boolean =>
  last_active_at < cursor.at || (last_active_at === cursor.at && ordinal < cursor.ordinal)

const dropSummary = (session: SessionRecord): void => {
  session.summary = null
  session.coveredSeq = 0
  session.coveredPriors = 0
  session.messages = session.messages.map((message) => ({ ...message, compacted: false }))
}

/** Drops the messages after this one, and returns the tasks whose calls were dropped. */
const dropBehind = (memory: Memory, session: SessionRecord, seq: number): ReadonlyArray<Task> => {
  const dropped = session.messages.filter((message) => message.seq > seq)
  session.messages = session.messages.filter((message) => message.seq <= seq)
  session.reverted.push(...dropped)
  if (seq < session.coveredSeq) dropSummary(session)
  const tasks = dropped.flatMap(({ plan_id, parts }) =>
    parts.flatMap((part) => {
      const task = part.type === "tool_call" ? memory.plans.get(plan_id)?.tasks.get(part.task_id) : undefined
      return task === undefined ? [] : [task]
    })
  )
  return tasks
}

/** Drops the questions of the plans with this echo, and all behind the first of them. */
export const dropReplaced = (memory: Memory, session: SessionRecord, echo: Schema.Json | null) => {
  const text = JSON.stringify(echo)
  const isReplaced = (id: PlanId) => JSON.stringify(memory.plans.get(id)?.echo) === text
  const questions = new Set(Array.from(session.plans).filter(isReplaced).map(questionId))
  const first = session.messages.find(({ message_id }) => questions.has(message_id))
  return first === undefined ? [] : withdraw(dropBehind(memory, session, first.seq - 1))
}

/** When the last wait of a plan ends that is not over. */
const lastWaitOf = ({ waits }: PlanRecord): number =>
  Math.max(
    -Infinity,
    ...Array.from(waits.values(), ({ request, settlement }) =>
      settlement === undefined ? Date.parse(request.expires_at) : -Infinity
    )
  )

export const makeSessionStore = (memory: Memory, ttl: Duration.Duration): SessionStore["Service"] => {
  const expiresAt = ({ last_active_at, open, ttlMs }: SessionRecord): number =>
    Math.max(Date.parse(last_active_at) + Math.min(ttlMs, Duration.toMillis(ttl)), ...Array.from(open, lastWaitOf))
  const show = (session: SessionRecord): Session => ({
    session_id: session.session_id,
    external_session_id: session.external_session_id,
    created_at: session.created_at,
    last_active_at: session.last_active_at,
    expires_at: fromMillis(expiresAt(session)),
    summary: shownSummary(summaryOf(session)),
    agents: Array.from(session.agents.values()),
    message_count: session.messages.length
  })
  const showListed = (session: SessionRecord): ListedSession => {
    const plans = Array.from(session.plans).flatMap((id) => memory.plans.get(id)?.plan ?? [])
    const [first] = plans
    const last = plans.at(-1)
    return {
      ...show(session),
      first_question: first === undefined ? null : previewOf(first.question),
      last_plan: last === undefined ? null : { plan_id: last.plan_id, state: last.state, stage: last.stage }
    }
  }
  const messagesOf = (id: SessionId, withReverted = false): ReadonlyArray<Message> => {
    const { messages = [], reverted = [] } = memory.sessions.get(id) ?? {}
    return withReverted ? [...messages, ...reverted].sort((one, other) => one.seq - other.seq) : messages
  }
  const isFree = ({ open }: SessionRecord): boolean => open.size === 0
  const isTold = ({ plans }: SessionRecord): boolean =>
    !Array.from(plans).some((plan) =>
      Array.from(memory.pushes.get(plan)?.values() ?? []).some(({ deliveries }) =>
        deliveries.some(({ state }) => state === "pending")
      )
    )
  /** The session, if this fence may still write it. */
  const fenced = (id: SessionId, fence: number) =>
    Effect.suspend(() => {
      const session = memory.sessions.get(id)
      return session?.fence === fence ? Effect.succeed(session) : Effect.fail(new LeaseLost())
    })
  return {
    find: (owner, id) =>
      Effect.suspend(() => {
        const session = memory.findSession(owner, id)
        return session === undefined ? Effect.fail(new NotFound({ what: "session" })) : Effect.succeed(show(session))
      }),
    list: (owner, page) =>
      Effect.sync(() =>
        newestFirst(
          Array.from(memory.sessions.values()).filter((session) => session.owner === owner),
          page,
          showListed
        )
      ),
    recent: (owner, { limit, cursor }) =>
      Effect.sync(() => {
        const found = Array.from(memory.sessions.values())
          .filter((session) => session.owner === owner && (cursor === undefined || isBefore(session, cursor)))
          .sort((a, b) => (isBefore(a, { at: b.last_active_at, ordinal: b.ordinal }) ? 1 : -1))
        const items = found.slice(0, limit)
        const last = items.at(-1)
        const next =
          found.length > limit && last !== undefined ? { at: last.last_active_at, ordinal: last.ordinal } : null
        return { items: items.map(showListed), next }
      }),
    messages: (id, { limit, cursor = 0, newestFirst = false, withReverted = false }) =>
      Effect.sync(() => {
        const found = newestFirst
          ? messagesOf(id)
              .filter(({ seq }) => cursor === 0 || seq < cursor)
              .toReversed()
          : messagesOf(id, withReverted).filter(({ seq }) => seq > cursor)
        const items = found.slice(0, limit)
        return { items, next: found.length > limit ? (items.at(-1)?.seq ?? null) : null }
      }),
    open: (owner, { at, external_session_id, messages, metadata, prior_summary = "", session_id }) =>
      Effect.sync(() => {
        const made = { session_id, owner, external_session_id, created_at: at, ttlMs: Infinity, metadata }
        const session = openSession(memory, made)
        if (prior_summary !== "") session.priors.push(prior_summary)
        for (const message of messages) append(session, noPlan, message, at)
        memory.add(session)
        memory.grow(session, { messages, metadata, prior_summary })
        memory.touch(session)
      }),
    append: (id, fence, messages, at) =>
      Effect.map(fenced(id, fence), (session) => {
        for (const message of messages) append(session, noPlan, message, at)
        session.last_active_at = at
        memory.grow(session, messages)
      }),
    metadata: (id) => Effect.sync(() => memory.sessions.get(id)?.metadata ?? {}),
    describe: (id, metadata) =>
      Effect.sync(() => {
        const session = memory.sessions.get(id)
        if (session !== undefined) session.metadata = metadata
      }),
    message: (id, message_id) =>
      Effect.suspend(() => {
        const found = messagesOf(id).find((message) => message.message_id === message_id)
        return found === undefined ? Effect.fail(new NotFound({ what: "message" })) : Effect.succeed(found)
      }),
    history: (id) => Effect.sync(() => messagesOf(id).filter(({ compacted }) => !compacted)),
    summary: (id) =>
      Effect.sync(() => {
        const session = memory.sessions.get(id)
        return session === undefined ? { text: null, covered_seq: 0, priors: [], prior_seq: 0 } : summaryOf(session)
      }),
    handedBack: (id) =>
      Effect.sync(() => {
        const session = memory.sessions.get(id)
        return session === undefined ? [] : handedBackTo(session)
      }),
    compact: (id, fence, compaction) =>
      Effect.flatMap(fenced(id, fence), (session) => {
        if (isStored(session, compaction)) return Effect.void
        return coverage(session, compaction) === undefined
          ? Effect.fail(new LeaseLost())
          : Effect.sync(() => {
              compact(session, compaction)
              memory.grow(session, compaction.summary)
            })
      }),
    revert: (id, fence, to) =>
      Effect.flatMap(fenced(id, fence), (session) => {
        const kept = session.messages.find(({ message_id }) => message_id === to)
        if (kept === undefined) return Effect.fail(new NotFound({ what: "message" }))
        return Effect.succeed(withdraw(dropBehind(memory, session, kept.seq)))
      }),
    delete: (id, unless) =>
      Effect.sync(() => {
        const session = memory.sessions.get(id)
        if (session === undefined) return true
        if (!isFree(session) || (unless === "telling" && !isTold(session))) return false
        memory.remove(session)
        return true
      }),
    sweep: (now) =>
      Effect.sync(() => {
        const nowMs = Date.parse(now)
        const expired = firstFew(
          memory.sessions.values(),
          sweepSize,
          (session) => expiresAt(session) <= nowMs && isFree(session) && isTold(session)
        )
        for (const session of expired) memory.remove(session)
        const keys = firstFew(
          memory.keys,
          sweepSize,
          ([, { expires_at, plan_id }]) => expires_at <= now || !memory.plans.has(plan_id)
        )
        for (const [key] of keys) memory.keys.delete(key)
        const first = fromMillis(nowMs - Duration.toMillis(Duration.days(spendingDays))).slice(0, 10)
        for (const charges of memory.charges.values()) {
          for (const [key, { day }] of charges) if (day < first) charges.delete(key)
        }
        const tools = firstFew(memory.knownTools, sweepSize, ([, { expires_at }]) => expires_at <= now)
        for (const [tool] of tools) memory.knownTools.delete(tool)
        const effects = firstFew(memory.effects, sweepSize, ([, { expires_at }]) => expires_at <= now)
        for (const [effect] of effects) memory.effects.delete(effect)
        for (const { firings } of memory.schedules.values()) {
          for (const [due, { fired_at }] of firings) {
            if (Date.parse(fired_at) < nowMs - firingsKeptFor) firings.delete(due)
          }
        }
        return [expired, keys, tools, effects].some(({ length }) => length === sweepSize)
      })
  }
}
