import { addCost, type Cost } from "@bowline/domain/plan/Usage"
import { Effect, Stream } from "effect"
import { get, replay } from "./GatewayProcess.ts"

/** What plans have used, as `GET /usage` has it. */
export interface Sum {
  readonly plans: number
  readonly input_tokens: number
  readonly cached_input_tokens: number
  readonly output_tokens: number
  readonly cost_usd: Cost
}

const nothing: Sum = { plans: 0, input_tokens: 0, cached_input_tokens: 0, output_tokens: 0, cost_usd: 0 }

const add = (sum: Sum, one: Sum): Sum => ({
  plans: sum.plans + one.plans,
  input_tokens: sum.input_tokens + one.input_tokens,
  cached_input_tokens: sum.cached_input_tokens + one.cached_input_tokens,
  output_tokens: sum.output_tokens + one.output_tokens,
  cost_usd: addCost(sum.cost_usd, one.cost_usd)
})

/** The sum of all `usage` frames of a plan that is over. One that has begun has told its model. */
const framesOf = (url: string, plan: string) =>
  replay(url, plan).pipe(
    Stream.runFold(
      () => nothing,
      (sum, { data, event }) => {
        if (event === "plan") return add(sum, { ...nothing, plans: 1 })
        return event === "usage" ? add(sum, { ...(data as unknown as Sum), plans: 0 }) : sum
      }
    )
  )

/** Every plan that a gateway knows, by pages. */
const plansOf = Effect.fnUntraced(function* (url: string) {
  const ids: Array<string> = []
  for (let query: string | null = ""; query !== null;) {
    const page: Readonly<Record<string, unknown>> = yield* get(url, `/plans?limit=200${query}`)
    ids.push(...(page["plans"] as ReadonlyArray<{ readonly plan_id: string }>).map(({ plan_id }) => plan_id))
    const next = page["next_cursor"]
    query = typeof next === "string" ? `&cursor=${next}` : null
  }
  return ids
})

/** What all plans have told of their usage, and what `GET /usage` says of it, by each of its ways to add it up. All plans have to be over. */
export const sums = Effect.fnUntraced(function* (url: string) {
  const told = (yield* Effect.forEach(yield* plansOf(url), (plan) => framesOf(url, plan), { concurrency: 8 })).reduce(
    add,
    nothing
  )
  const charged = yield* Effect.forEach(["day", "caller", "model", "preset"], (by) =>
    Effect.map(get(url, `/usage?by=${by}`), ({ rows }) => (rows as ReadonlyArray<Sum>).reduce(add, nothing))
  )
  return { told, charged }
})
