import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { SpendingRow } from "@bowline/domain/unstable/plan/SpendingRow"
import { costOf, inOrder, spendingDays, type SpendingQuery } from "@bowline/runtime/unstable/store/OverviewStore"
import type { Spent } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/** The columns of `charges` that add up. `cost_usd` has what is known of the cost, and `unpriced` counts what is not. */
export const amounts = [
  "plans",
  "tool_calls",
  "input_tokens",
  "cached_input_tokens",
  "output_tokens",
  "cost_usd",
  "unpriced"
] as const

/** The rows that are inserted are added to those of `charges c`. */
export const adding = `on conflict (owner, day, model, preset, replica) do update set ${amounts
  .map((one) => `${one} = c.${one} + excluded.${one}`)
  .join()}`

/** What the owner has used on the day and in its month. The version before charges `spendings`. */
export const readSpent = (sql: SqlClient.SqlClient, owner: CallerName, day: string) =>
  sql<Spent>`
select coalesce(sum(tokens) filter (where day = ${day}::date), 0)::float8 as tokens,
  coalesce(sum(tool_calls) filter (where day = ${day}::date), 0)::float8 as tool_calls,
  coalesce(sum(cost_usd) filter (where day = ${day}::date), 0)::float8 as cost_usd,
  coalesce(sum(cost_usd), 0)::float8 as month_cost_usd
from (
  select day, input_tokens + output_tokens as tokens, tool_calls, cost_usd from charges
  where owner = ${owner} and day >= date_trunc('month', ${day}::date)::date and day <= ${day}::date
  union all
  select day, tokens, tool_calls, 0 from spendings where owner = ${owner} and day = ${day}::date
) used`

const labels = { day: "day::text", caller: "owner", model: "model", preset: "nullif(preset, '')" }

/** Adds up what was charged. */
export const readSpendings = (sql: SqlClient.SqlClient, { by, from, owner, to }: SpendingQuery) =>
  sql<
    Omit<SpendingRow, "day" | "caller" | "model" | "preset" | "cost_usd"> & {
      readonly label: string | null
      readonly cost_usd: number
      readonly unpriced: number
    }
  >`
select ${sql.literal(labels[by])} as label, sum(plans)::float8 as plans, sum(input_tokens)::float8 as input_tokens,
  sum(cached_input_tokens)::float8 as cached_input_tokens, sum(output_tokens)::float8 as output_tokens,
  sum(cost_usd)::float8 as cost_usd, sum(unpriced)::float8 as unpriced
from charges where day between ${from}::date and ${to}::date ${owner === undefined ? sql`` : sql`and owner = ${owner}`}
group by 1`.pipe(
    Effect.map((rows) =>
      inOrder(
        by,
        rows.map(({ cost_usd, label, unpriced, ...sums }) => ({
          [by]: label,
          ...sums,
          cost_usd: costOf(cost_usd, unpriced)
        }))
      )
    )
  )

/** How many rows of gone days one sweep adds up. */
const foldedAtOnce = 2_000

/**
 * Deletes what was charged on days that are kept no longer, and adds up the rows that replicas have made on days before yesterday: a clock may be
 * behind. Returns whether there may be more of them. The version before charges `spendings`.
 */
export const foldCharges = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: string) {
  const today = sql`(${now}::timestamptz at time zone 'UTC')::date`
  yield* sql`delete from spendings where day < ${today} - 1`
  yield* sql`delete from charges where day < ${today} - ${sql.literal(String(spendingDays))}`
  const [folded] = yield* sql<{ readonly rows: number }>`
with folded as (
  delete from charges where ctid = any(array(
    select ctid from charges where day < ${today} - 1 and replica <> '' limit ${foldedAtOnce} for update skip locked
  ))
  returning *
), put as (
  insert into charges as c (owner, day, model, preset, replica, ${sql.literal(amounts.join())})
  select owner, day, model, preset, '', ${sql.literal(amounts.map((one) => `sum(${one})`).join())}
  from folded group by 1, 2, 3, 4
  ${sql.literal(adding)}
)
select count(*)::int as rows from folded`
  return folded?.rows === foldedAtOnce
})
