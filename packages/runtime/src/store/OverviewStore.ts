import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Overview, PeerCalls } from "@bowline/domain/unstable/plan/Overview"
import type { SpendingBy, SpendingRow } from "@bowline/domain/unstable/plan/SpendingRow"
import { addCost, type Cost } from "@bowline/domain/plan/Usage"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Context, type Effect, Record } from "effect"

/** Which plans are looked at: those that were created from `since` on and before `until` (ISO 8601 in UTC), of one owner or of all. */
export interface OverviewQuery {
  readonly owner?: CallerName
  readonly since: string
  readonly until: string
  /** How long a stretch is, in milliseconds. Stretches begin at multiples of it since 1970. */
  readonly stepMs: number
}

/** Which calls are looked at: those that began from `since` on and before `until` (ISO 8601 in UTC). */
export type CallsQuery = Pick<OverviewQuery, "since" | "until">

/** Whose spendings are added up, of one owner or of all: those of the UTC days from `from` to `to` (`2026-01-02`), both included. */
export interface SpendingQuery {
  readonly owner?: CallerName
  readonly from: string
  readonly to: string
  readonly by: SpendingBy
}

/** How many days spendings are kept. */
export const spendingDays = 400

/** The largest cost first, but days in their order. */
export const inOrder = (by: SpendingBy, rows: ReadonlyArray<SpendingRow>): ReadonlyArray<SpendingRow> =>
  rows.toSorted((a, b) => {
    const name = (row: SpendingRow) => row[by] ?? ""
    const alphabetic = name(a) < name(b) ? -1 : 1
    if (by === "day") return alphabetic
    return (b.cost_usd ?? -1) - (a.cost_usd ?? -1) || b.input_tokens - a.input_tokens || alphabetic
  })

/** The sum of costs, and whether all of them are known. */
export const costOf = (cost: number, unpriced: number): Cost => (unpriced > 0 ? null : addCost(0, cost))

/** `called` is the endpoint of a peer without its secrets, or the name of an MCP server. */
export interface CallsOf extends PeerCalls {
  readonly kind: "peer" | "mcp"
  readonly called: string
}

/** How many failures, models and callers are counted one by one, the largest first; and how many of the slowest tools, and of those that fail most often. */
export const most = { groups: 20, tools: 10 }

/** The ends of a call that count as its tool's failure. */
export const failedCalls = ["failed", "timed-out", "invalid"] as const satisfies ReadonlyArray<TaskState>

type ByState = Overview["plans"]
type Stretch = Omit<Overview["stretches"][number], "at">

const none: ByState = { queued: 0, running: 0, waiting: 0, completed: 0, failed: 0, aborted: 0 }

/** The plans of all stretches together. */
export const sumOf = (stretches: ReadonlyArray<Pick<Stretch, "plans">>): ByState =>
  Record.map(none, (_, state) => stretches.reduce((sum, { plans }) => sum + plans[state], 0))

/** All stretches of the query in their order; what is found is by the number of its stretch since 1970. Where no plan was created there are zeros. */
export const stretchesOf = (
  { since, stepMs, until }: OverviewQuery,
  found: ReadonlyMap<number, Stretch>
): Overview["stretches"] => {
  const first = Math.floor(Date.parse(since) / stepMs)
  const count = Math.ceil(Date.parse(until) / stepMs) - first
  const empty: Stretch = { plans: none, first_token_p95: null, duration_p95: null }
  return Array.from({ length: count }, (_, index) => ({
    at: fromMillis((first + index) * stepMs),
    ...(found.get(first + index) ?? empty)
  }))
}

/**
 * Counts plans and calls. It reads the rows of the stretch of time by an index, never all that are stored, and what waits now by an index of the
 * plans that are not over. A plan is counted when its row is stored; what it costs and took is known when it is over.
 */
export class OverviewStore extends Context.Service<
  OverviewStore,
  {
    /** What has become of these plans. `replicas` is null for one owner. */
    readonly read: (query: OverviewQuery) => Effect.Effect<Overview, StorageError>
    /** The calls of each peer and MCP server, whoever asked. */
    readonly peers: (query: CallsQuery) => Effect.Effect<ReadonlyArray<CallsOf>, StorageError>
    /** What was charged, also by plans that were deleted since. It reads what commits have charged, and no plan. */
    readonly spendings: (query: SpendingQuery) => Effect.Effect<ReadonlyArray<SpendingRow>, StorageError>
  }
>()("@bowline/runtime/store/OverviewStore") {}
