import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import type { Waiting } from "@bowline/domain/plan/Inbox"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Effect, Option, Struct } from "effect"
import {
  type Accepting,
  type InboxContent,
  type InboxStore,
  shownEntry,
  type StoredWait,
  toolsIn
} from "../../store/InboxStore.ts"
import { shownId } from "../../store/AccountWait.ts"
import type { Memory } from "./Memory.ts"
import type { PlanRecord, WaitRecord } from "./MemoryRecords.ts"
import { newestFirst } from "./NewestFirst.ts"

const shownWait = ({ plan }: PlanRecord, { request, since }: WaitRecord, kind: Waiting["kind"]): Waiting => {
  const { agent, data, expires_at, input, message, tool, url, why } = request
  const { caller, plan_id, session_id } = plan
  return {
    plan_id,
    session_id,
    task_id: shownId(request),
    kind,
    tool,
    agent,
    input,
    why,
    message,
    data,
    url,
    since,
    expires_at,
    caller
  }
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
            ...(entry.references !== undefined && { references: entry.references }),
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

/** The plan of this id, if it is the owner's. */
export const findPlan = (memory: Memory, id: PlanId, owner: Accepting["owner"]) =>
  Effect.suspend(() => {
    const record = memory.plans.get(id)
    return record === undefined || (owner ?? record.owner) !== record.owner
      ? Effect.fail(new NotFound({ what: "plan" }))
      : Effect.succeed(record)
  })

type Reads = Omit<InboxStore["Service"], "accept" | "move" | "withdraw" | "expire" | "meetTools">

/** What is read of inboxes. */
export const makeInboxReads = (memory: Memory): Reads => {
  const waitingOf = (owner: PlanRecord["owner"] | undefined) =>
    Array.from(memory.open.values())
      .filter((record) => (owner ?? record.owner) === record.owner)
      .flatMap((record) =>
        Array.from(record.waits.values()).flatMap((wait) => {
          const { kind } = wait.request
          return wait.settlement !== undefined || kind === "timer"
            ? []
            : [{ ordinal: wait.ordinal, waiting: shownWait(record, wait, kind) }]
        })
      )

  return {
    find: ({ plan_id, task_id }, owner) =>
      Effect.flatMap(findPlan(memory, plan_id, owner), ({ waits }) => {
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
    list: (plan, owner, { cursor = 0, limit }) =>
      Effect.map(findPlan(memory, plan, owner), ({ inbox }) => {
        const found = inbox.filter(({ ordinal }) => ordinal > cursor)
        const items = found.slice(0, limit)
        return { items: items.map(shownEntry), next: found.length > limit ? (items.at(-1)?.ordinal ?? null) : null }
      }),
    read: (plans) =>
      Effect.sync(() =>
        plans.flatMap(({ plan_id, seen }) => {
          const record = memory.plans.get(plan_id)
          return record === undefined || record.inboxCount === seen ? [] : [contentOf(record)]
        })
      ),
    accountWaits: (owner) =>
      Effect.sync(() =>
        Array.from(memory.open.values()).flatMap((record) =>
          record.owner !== owner
            ? []
            : Array.from(record.waits.values()).flatMap(({ request, settlement }) => {
                const { kind, mark, round, task_id } = request
                if (kind !== "account" || settlement !== undefined) return []
                return [{ plan_id: record.plan.plan_id, task_id, round, mark }]
              })
        )
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
      })
  }
}
