import type { PlanState } from "@bowline/domain/plan/Plan"
import type { Overview } from "@bowline/domain/unstable/plan/Overview"
import { OverviewStore, stretchesOf, sumOf } from "@bowline/runtime/unstable/store/OverviewStore"
import { Effect, Layer, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { readSpendings } from "../caller/internal/Charges.ts"
import {
  type OpenRow,
  readCalls,
  readOpen,
  readPlans,
  readReplicas,
  readTools,
  type ReplicaRow,
  type Seconds
} from "./internal/OverviewQueries.ts"

const millis = (seconds: number | null): number | null => (seconds === null ? null : Math.round(seconds * 1_000))

const toPercentiles = (seconds: Seconds): Overview["duration_ms"] =>
  seconds === null ? null : { p50: Math.round(seconds[0] * 1_000), p95: Math.round(seconds[1] * 1_000) }

/** What waits and runs, whoever runs it. */
const openOf = (rows: ReadonlyArray<OpenRow>): Overview["open"] => {
  const groups = new Map<string, Overview["open"][number]>()
  for (const { oldest_at, plans, stage, state } of rows) {
    const key = `${state} ${stage}`
    const at = oldest_at.toISOString()
    const known = groups.get(key) ?? { state, stage, plans: 0, oldest_at: at }
    groups.set(key, { ...known, plans: known.plans + plans, oldest_at: at < known.oldest_at ? at : known.oldest_at })
  }
  return Array.from(groups.values())
}

/** Replicas that are alive, and those whose plans nobody has taken over yet. */
const replicasOf = (replicas: ReadonlyArray<ReplicaRow>, rows: ReadonlyArray<OpenRow>): Overview["replicas"] => {
  const known = new Map(replicas.map(({ alive, id }) => [id, alive]))
  // No replica has a parked plan.
  const busy = rows.filter(({ state }) => state !== "waiting").map(({ replica }) => replica)
  const shown = [...replicas.filter(({ alive }) => alive).map(({ id }) => id), ...busy]
  return Array.from(new Set(shown), (replica) => {
    const sum = (state: PlanState) =>
      rows.reduce((sum, row) => (row.replica === replica && row.state === state ? sum + row.plans : sum), 0)
    return { replica, alive: known.get(replica) ?? false, queued: sum("queued"), running: sum("running") }
  })
}

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): OverviewStore["Service"] => ({
  spendings: (query) => withDeadline(readSpendings(sql, query)),
  peers: (query) =>
    Effect.map(withDeadline(readCalls(sql, query)), (rows) =>
      rows.map(({ error, failed_at, state, took, ...row }) => ({
        ...row,
        duration_ms: toPercentiles(took),
        last_error: failed_at === null ? null : { at: failed_at.toISOString(), message: error?.message ?? state ?? "" }
      }))
    ),
  read: (query) =>
    Effect.all(
      [
        withDeadline(readPlans(sql, query)),
        withDeadline(readTools(sql, query)),
        withDeadline(readOpen(sql, query)),
        query.owner === undefined ? withDeadline(readReplicas(sql)) : Effect.succeed(null)
      ],
      { concurrency: "unbounded" }
    ).pipe(
      Effect.map(([[counted], tools, open, replicas]) => {
        const found = new Map(
          (counted?.stretches ?? []).map(({ duration, first_token, stretch, ...plans }) => [
            stretch,
            { plans, first_token_p95: millis(first_token), duration_p95: millis(duration) }
          ])
        )
        return {
          since: query.since,
          until: query.until,
          step_ms: query.stepMs,
          caller: query.owner ?? null,
          plans: sumOf(Array.from(found.values())),
          first_token_ms: toPercentiles(counted?.first_token ?? null),
          duration_ms: toPercentiles(counted?.duration ?? null),
          stretches: stretchesOf(query, found),
          failures: counted?.failures ?? [],
          models: counted?.models ?? [],
          callers: counted?.callers ?? [],
          tools: tools.map((tool) => ({ ...Struct.omit(tool, ["took"]), duration_ms: toPercentiles(tool.took) })),
          open: openOf(open),
          replicas: replicas === null ? null : replicasOf(replicas, open)
        }
      })
    )
})

/** Counts of plans and calls in Postgres. */
export const layer = Layer.effect(
  OverviewStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
