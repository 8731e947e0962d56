import type { Spending } from "@bowline/client"

const dayMs = 86_400_000

const nothing = { plans: 0, input_tokens: 0, cached_input_tokens: 0, output_tokens: 0, cost_usd: 0 }

/** The sum of rows. Its cost is not known where one of them is not. */
export const totalOf = (rows: ReadonlyArray<Spending>): Pick<Spending, "plans" | "cost_usd"> =>
  rows.reduce<Pick<Spending, "plans" | "cost_usd">>(
    (sum, { cost_usd, plans }) => ({
      plans: sum.plans + plans,
      cost_usd: sum.cost_usd === null || cost_usd === null ? null : sum.cost_usd + cost_usd
    }),
    nothing
  )

/** A row for each day from the last one back to the first one, also for days on which nothing was used. */
export const daysOf = (from: string, to: string, rows: ReadonlyArray<Spending>): ReadonlyArray<Spending> => {
  const known = new Map(rows.map((row) => [row.day, row]))
  const count = Math.round((Date.parse(to) - Date.parse(from)) / dayMs) + 1
  return Array.from({ length: Math.max(count, 0) }, (_, index) => {
    const day = new Date(Date.parse(to) - index * dayMs).toISOString().slice(0, 10)
    return known.get(day) ?? { day, ...nothing }
  })
}
