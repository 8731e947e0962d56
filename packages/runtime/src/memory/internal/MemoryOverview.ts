import { isSettled, type PlanState } from "@bowline/domain/plan/Plan"
import type { Overview } from "@bowline/domain/unstable/plan/Overview"
import type { SpendingRow } from "@bowline/domain/unstable/plan/SpendingRow"
import { Clock, Effect } from "effect"
import {
  type CallsOf,
  costOf,
  failedCalls,
  inOrder,
  most,
  type OverviewStore,
  type SpendingQuery,
  stretchesOf,
  sumOf
} from "../../store/OverviewStore.ts"
import type { Memory } from "./Memory.ts"
import type { ChargeRecord, PlanRecord, Task } from "./MemoryRecords.ts"

type Lengths = ReadonlyArray<number | undefined>

/** The smallest one that this part of them does not exceed, as `percentile_disc` of SQL. */
const percentile = (part: number, lengths: Lengths): number | null => {
  const sorted = lengths.filter((length) => length !== undefined).toSorted((a, b) => a - b)
  return sorted[Math.max(Math.ceil(part * sorted.length) - 1, 0)] ?? null
}

const toPercentiles = (lengths: Lengths): Overview["duration_ms"] => {
  const [p50, p95] = [percentile(0.5, lengths), percentile(0.95, lengths)]
  return p50 === null || p95 === null ? null : { p50, p95 }
}

const length = (from: string, to: string | null): number | undefined =>
  to === null ? undefined : Date.parse(to) - Date.parse(from)

const firstTokenOf = ({ firstTokenAt, plan }: PlanRecord) => length(plan.created_at, firstTokenAt)
const durationOf = ({ plan }: PlanRecord) => length(plan.created_at, plan.finished_at)

/** `show` gets a group with its first entry. */
const groups = <A, B>(all: ReadonlyArray<A>, key: (one: A) => string, show: (group: ReadonlyArray<A>, one: A) => B) =>
  Array.from(Map.groupBy(all, key).values()).flatMap((group) => group.slice(0, 1).map((one) => show(group, one)))

const stateCounts = (records: ReadonlyArray<PlanRecord>): Overview["plans"] => {
  const counts: { -readonly [state in PlanState]: number } = sumOf([])
  for (const { plan } of records) counts[plan.state]++
  return counts
}

const spent = (records: ReadonlyArray<PlanRecord>) => {
  const costs = records.flatMap(({ plan }) => plan.cost_usd ?? [])
  const sum = Number(costs.reduce((sum, cost) => sum + cost, 0).toFixed(12))
  return {
    plans: records.length,
    cost_usd: costs.length === 0 ? null : sum,
    unpriced: records.length - costs.length
  }
}

const largest = <A extends { readonly plans: number; readonly cost_usd?: number | null }>(all: ReadonlyArray<A>) =>
  all.toSorted((a, b) => (b.cost_usd ?? -1) - (a.cost_usd ?? -1) || b.plans - a.plans).slice(0, most.groups)

const failed: ReadonlySet<string> = new Set(failedCalls)

const toolsOf = (tasks: ReadonlyArray<Task>): Overview["tools"] => {
  const tools = groups(
    tasks,
    ({ kind, tool }) => `${kind} ${tool}`,
    (group, { kind, tool }) => ({
      tool,
      kind,
      calls: group.length,
      failures: group.filter(({ state }) => failed.has(state)).length,
      duration_ms: toPercentiles(group.map(({ finished_at, started_at }) => length(started_at, finished_at)))
    })
  ).toSorted((a, b) => (b.duration_ms?.p95 ?? -1) - (a.duration_ms?.p95 ?? -1) || (a.tool < b.tool ? -1 : 1))
  const failing = new Set(tools.toSorted((a, b) => b.failures - a.failures).slice(0, most.tools))
  return tools.filter((tool, index) => index < most.tools || (tool.failures > 0 && failing.has(tool)))
}

const callsOf = (tasks: ReadonlyArray<Task>): ReadonlyArray<CallsOf> =>
  groups(
    tasks.flatMap((task) => {
      const { agent, endpoint, kind } = task
      const called = endpoint ?? agent
      return called === null || (kind !== "peer" && kind !== "mcp") ? [] : [{ called, kind, task }]
    }),
    ({ called, kind }) => `${kind} ${called}`,
    (group, { called, kind }) => {
      const failures = group.filter(({ task }) => failed.has(task.state))
      const newest = failures.toSorted((a, b) => (a.task.started_at < b.task.started_at ? 1 : -1))[0]?.task
      return {
        kind,
        called,
        calls: group.length,
        failures: failures.length,
        duration_ms: toPercentiles(group.map(({ task }) => length(task.started_at, task.finished_at))),
        last_error:
          newest === undefined
            ? null
            : { at: newest.finished_at ?? newest.started_at, message: newest.error?.message ?? newest.state }
      }
    }
  )

const openOf = (records: ReadonlyArray<PlanRecord>): Overview["open"] =>
  groups(
    records,
    ({ plan }) => `${plan.state} ${plan.stage}`,
    (group, { plan: { stage, state } }) => ({
      state,
      stage,
      plans: group.length,
      oldest_at: group.map(({ plan }) => plan.created_at).toSorted()[0] ?? ""
    })
  )

const replicasOf = (memory: Memory, open: ReadonlyArray<PlanRecord>, now: number): Overview["replicas"] => {
  const alive = Array.from(memory.replicas.keys()).filter((replica) => memory.isAlive(replica, now))
  // No replica has a parked plan.
  const busy = open.filter(({ plan }) => plan.state !== "waiting")
  return Array.from(new Set([...alive.toSorted(), ...busy.map(({ replica }) => replica)]), (replica) => {
    const count = (state: PlanState) =>
      open.filter((record) => record.replica === replica && record.plan.state === state).length
    return { replica, alive: memory.isAlive(replica, now), queued: count("queued"), running: count("running") }
  })
}

const spendings = (memory: Memory, { by, from, owner, to }: SpendingQuery): ReadonlyArray<SpendingRow> => {
  const all = Array.from(memory.charges.values()).flatMap((charges) => Array.from(charges.values()))
  const found = all.filter(({ day, owner: of }) => day >= from && day <= to && of === (owner ?? of))
  const label = (charge: ChargeRecord) => (by === "caller" ? charge.owner : charge[by])
  const rows = groups(
    found,
    (charge) => JSON.stringify(label(charge)),
    (group, one): SpendingRow => {
      const sum = (of: (charge: ChargeRecord) => number) => group.reduce((sum, charge) => sum + of(charge), 0)
      return {
        [by]: label(one),
        plans: sum(({ plans }) => plans),
        input_tokens: sum(({ usage }) => usage.input_tokens),
        cached_input_tokens: sum(({ usage }) => usage.cached_input_tokens),
        output_tokens: sum(({ usage }) => usage.output_tokens),
        cost_usd: costOf(
          sum(({ cost_usd }) => cost_usd),
          sum(({ unpriced }) => unpriced)
        )
      }
    }
  )
  return inOrder(by, rows)
}

export const makeOverviewStore = (memory: Memory): OverviewStore["Service"] => ({
  spendings: (query) => Effect.sync(() => spendings(memory, query)),
  peers: ({ since, until }) =>
    Effect.sync(() =>
      callsOf(
        Array.from(memory.plans.values())
          .flatMap(({ tasks }) => Array.from(tasks.values()))
          .filter(({ started_at }) => started_at >= since && started_at < until)
      )
    ),
  read: (query) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const { owner, since, stepMs, until } = query
      const own = Array.from(memory.plans.values()).filter((record) => record.owner === (owner ?? record.owner))
      const records = own.filter(({ plan }) => plan.created_at >= since && plan.created_at < until)
      const found = Map.groupBy(records, ({ plan }) => Math.floor(Date.parse(plan.created_at) / stepMs))
      const open = own.filter(({ plan }) => !isSettled(plan))
      const called = owner === undefined ? own : records
      return {
        since,
        until,
        step_ms: stepMs,
        caller: owner ?? null,
        plans: stateCounts(records),
        first_token_ms: toPercentiles(records.map(firstTokenOf)),
        duration_ms: toPercentiles(records.map(durationOf)),
        stretches: stretchesOf(
          query,
          new Map(
            Array.from(found, ([stretch, group]) => [
              stretch,
              {
                plans: stateCounts(group),
                first_token_p95: percentile(0.95, group.map(firstTokenOf)),
                duration_p95: percentile(0.95, group.map(durationOf))
              }
            ])
          )
        ),
        failures: largest(
          groups(
            records.filter(({ plan }) => plan.error !== null),
            ({ plan }) => `${plan.error?.code} ${plan.error?.reason}`,
            (group, { plan: { error } }) => ({
              error_code: error?.code ?? "",
              reason: error?.reason ?? null,
              plans: group.length
            })
          )
        ),
        models: largest(
          groups(
            records,
            ({ plan }) => plan.model,
            (group, { plan }) => ({ model: plan.model, ...spent(group) })
          )
        ),
        callers: largest(
          groups(
            records,
            (record) => record.owner,
            (group, { owner: caller }) => ({ caller, ...spent(group) })
          )
        ),
        tools: toolsOf(
          called
            .flatMap(({ tasks }) => Array.from(tasks.values()))
            .filter(({ started_at }) => started_at >= since && started_at < until)
        ),
        open: openOf(open),
        replicas: owner === undefined ? replicasOf(memory, open, now) : null
      }
    })
})
