import { say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, start } from "./RunningGateway.ts"

const used = usage({ input_tokens: 1_000, output_tokens: 100 })
const script = () => [say("ok"), used]

const startWith = Effect.fnUntraced(function* (file: object) {
  const folder = yield* folderOf({ "gateway.json": JSON.stringify(file) })
  const { provider, url } = yield* start(script, { BOWLINE_CONFIG: join(folder, "gateway.json") })
  const ask = (preferences: string) => post(`${url}/plan`, `{"question":"?","preferences":${preferences}}`)
  return { ask, url, asked: provider.requests.all }
})

const issuesOf = ({ body }: Effect.Success<ReturnType<typeof post>>) =>
  body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>

describe("preferences.max_cost_usd", () => {
  it.live("is a number above 0", () =>
    Effect.gen(function* () {
      const { ask, asked } = yield* startWith({ plans: { model: "openai/gpt-5-mini" } })
      for (const rubbish of ["0", "-1", "-0.0", '"1"', "1e309", "-1e309", "null", "true", "[1]", "{}"]) {
        const answer = yield* ask(`{"max_cost_usd":${rubbish}}`)
        assert.strictEqual(answer.status, 400, rubbish)
        const [issue] = issuesOf(answer)
        assert.strictEqual(issue?.path, "preferences.max_cost_usd", rubbish)
        assert.match(issue?.message ?? "", /^Expected /, rubbish)
      }
      assert.deepStrictEqual(yield* asked, [])
      for (const fine of ["1", "0.5", "1e300"]) {
        const { body } = yield* ask(`{"max_cost_usd":${fine}}`)
        assert.deepInclude(body["final"], { stop_reason: "stop" }, fine)
      }
      const { body } = yield* ask('{"max_cost_usd":1e-300}')
      assert.deepInclude(body["error"], { code: "budget_exceeded", retryable: false })
    }).pipe(Effect.scoped)
  )

  it.live("is refused on every route for a model of unknown price, unless the operator ignores that", () =>
    Effect.gen(function* () {
      const plans = { model: "openai/llama-of-ours", allowed_models: ["openai/*"] }
      const { ask, asked, url } = yield* startWith({ plans })
      const [issue, ...more] = issuesOf(yield* ask('{"max_cost_usd":1}'))
      assert.deepStrictEqual(more, [])
      assert.strictEqual(issue?.path, "preferences.max_cost_usd")
      assert.match(issue?.message ?? "", /price of openai\/llama-of-ours/)
      const checked = yield* post(`${url}/plan/check`, { question: "?", preferences: { max_cost_usd: 1 } })
      assert.strictEqual(checked.status, 400)
      assert.deepStrictEqual(yield* asked, [])
      const priced = yield* ask('{"max_cost_usd":1,"model":"openai/gpt-5-mini"}')
      assert.deepInclude(priced.body["final"], { stop_reason: "stop" })
      const lenient = yield* startWith({ plans: { ...plans, unknown_price: "ignore" } })
      const { body } = yield* lenient.ask('{"max_cost_usd":0.000001}')
      assert.deepInclude(body["final"], { stop_reason: "stop" })
    }).pipe(Effect.scoped)
  )
})

describe("a budget in money", () => {
  it.live("is refused where it says nothing, or no sum", () =>
    Effect.gen(function* () {
      for (const [budget, problem] of [
        [{}, /Expected one of .*cost_usd_per_month/],
        [{ cost_usd_per_day: -1 }, /cost_usd_per_day/],
        [{ cost_usd_per_month: "1" }, /cost_usd_per_month/],
        [{ cost_usd_per_year: 1 }, /cost_usd_per_year/]
      ] as const) {
        const failure = yield* Effect.flip(startWith({ budgets: { anonymous: budget } }))
        const problems = failure._tag === "InvalidConfiguration" ? failure.problems : []
        assert.match(JSON.stringify(problems), problem)
      }
    }).pipe(Effect.scoped)
  )

  it.live("ends the plans of its caller, and names the model whose price nobody knows", () =>
    Effect.gen(function* () {
      const price = { input: 1, output: 10 }
      const { ask } = yield* startWith({
        plans: { model: "openai/ours", allowed_models: ["openai/*"] },
        models: { "openai/ours": { price } },
        budgets: { "*": { cost_usd_per_day: 0.003, cost_usd_per_month: 1 } }
      })
      for (const _ of [1, 2]) assert.strictEqual((yield* ask("{}")).body["state"], "completed")
      const { body } = yield* ask("{}")
      const error = body["error"] as { readonly code: string; readonly data: object }
      assert.strictEqual(error.code, "budget_exceeded")
      assert.deepInclude(error.data, { cost_usd_used: 0.004, cost_usd_per_day: 0.003 })
      const unknown = yield* ask('{"model":"openai/theirs"}')
      assert.match(issuesOf(unknown)[0]?.message ?? "", /price of openai\/theirs, which the budget of anonymous limits/)
    }).pipe(Effect.scoped)
  )
})
