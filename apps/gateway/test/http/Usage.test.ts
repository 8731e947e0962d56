import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { noFinish, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { outputOf, outputOfProcess } from "../cli/Bowline.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, startOn, stores } from "./RunningGateway.ts"

const file = {
  plans: { allowed_models: ["openai/*"] },
  models: { "openai/gpt-5-mini": { price: { input: 2, cached: 0.5, output: 8 } } },
  presets: { desk: { description: "Orders" } }
}
const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const used = usage({ input_tokens: 1_000, cached_input_tokens: 400, output_tokens: 100 })
/** 600 tokens at 2 dollars a million, 400 at half a dollar, and 100 at 8. */
const cost = 0.0022
const tokens = (times: number) => ({
  input_tokens: 1_000 * times,
  cached_input_tokens: 400 * times,
  output_tokens: 100 * times
})

for (const [name, store] of Object.entries(stores)) {
  const gateway = Effect.gen(function* () {
    const folder = yield* folderOf({ "gateway.json": JSON.stringify(file) })
    let flaws = 0
    const script: Script = (asked) =>
      question(asked) === "flaky" && flaws++ === 0 ? [say("half"), used, noFinish] : [say("ok"), used]
    const settings = { ...keys, BOWLINE_RETRY_BASE: "1ms", BOWLINE_CONFIG: join(folder, "gateway.json") }
    const { url } = yield* startOn(store)(script, settings)
    return {
      url,
      ask: (caller: string, body: object) => post(`${url}/plan`, body, by(caller)),
      read: (caller: string, query = "") => send(`${url}/usage${query}`, { headers: by(caller) })
    }
  })

  describe(`GET /usage (${name})`, () => {
    it.live("adds up what plans have used, failed attempts too, and shows callers theirs and admins everybody's", () =>
      Effect.gen(function* () {
        const { ask, read } = yield* gateway
        assert.deepStrictEqual((yield* read("ann")).body, { rows: [] })
        yield* ask("ann", { question: "?" })
        const { body: flaky } = yield* ask("ann", { question: "flaky", preset: "desk" })
        assert.deepInclude(flaky["usage"], tokens(2))
        yield* ask("bob", { question: "?", preferences: { model: "openai/unpriced" } })
        const today = new Date().toISOString().slice(0, 10)
        const rows = (caller: string, query?: string) => Effect.map(read(caller, query), ({ body }) => body["rows"])
        const anns = { plans: 2, ...tokens(3), cost_usd: 3 * cost }
        const bobs = { plans: 1, ...tokens(1), cost_usd: null }
        assert.deepStrictEqual(yield* rows("ann"), [{ day: today, ...anns }])
        assert.deepStrictEqual(yield* rows("ann", `?from=${today}&to=${today}&by=day`), [{ day: today, ...anns }])
        assert.deepStrictEqual(yield* rows("ann", "?from=2026-01-01&to=2026-01-31"), [])
        assert.deepStrictEqual(yield* rows("ann", "?by=model"), [{ model: "openai/gpt-5-mini", ...anns }])
        assert.deepStrictEqual(yield* rows("ann", "?by=preset"), [
          { preset: "desk", plans: 1, ...tokens(2), cost_usd: 2 * cost },
          { preset: null, plans: 1, ...tokens(1), cost_usd: cost }
        ])
        assert.deepStrictEqual(yield* rows("bob", "?by=caller"), [{ caller: "bob", ...bobs }])
        const all = [
          { caller: "ann", ...anns },
          { caller: "bob", ...bobs }
        ]
        assert.deepStrictEqual(yield* rows("root", "?by=caller"), all)
        assert.deepStrictEqual(yield* rows("root", "?by=caller&caller=*"), all)
        assert.deepStrictEqual(yield* rows("root", "?caller=ann"), [{ day: today, ...anns }])
        assert.deepStrictEqual(yield* rows("root"), [{ day: today, plans: 3, ...tokens(4), cost_usd: null }])
        assert.strictEqual((yield* read("ann", "?caller=*")).status, 403)
      }).pipe(Effect.scoped)
    )
  })
}

describe("GET /usage", () => {
  it.live("says which parameter is wrong", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(stores.memory)([])
      for (const [query, path] of [
        ["from=yesterday", "from"],
        ["from=2026-02-30", "from"],
        ["to=2026-1-2", "to"],
        ["to=2026-01-02T00:00:00Z", "to"],
        ["from=2026-01-03&to=2026-01-02", "from"],
        ["from=9999-01-01", "from"],
        ["by=week", "by"],
        ["by=day&by=model", "by"],
        ["since=2026-01-02", "since"]
      ] as const) {
        const { body, status } = yield* send(`${url}/usage?${query}`)
        assert.strictEqual(status, 400, query)
        assert.deepInclude((body["issues"] as ReadonlyArray<object>)[0], { path }, query)
      }
      assert.strictEqual((yield* send(`${url}/usage?to=1970-01-02`)).status, 200)
    }).pipe(Effect.scoped)
  )
})

describe("bowline usage", () => {
  it.live("prints a line a day, and what is not known", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(stores.memory)(() => [say("ok"), used])
      yield* post(`${url}/plan`, { question: "?" })
      const run = (...args: ReadonlyArray<string>) => outputOf(["usage", ...args], { BOWLINE_URL: url })
      const days = yield* outputOfProcess(["usage"], { BOWLINE_URL: url })
      assert.deepStrictEqual([days.code, days.stderr], [0, ""])
      assert.match(days.stdout, /^\d{4}-\d\d-\d\d\t1\t1000\t400\t100\t0\.\d+\n$/)
      assert.strictEqual((yield* run("--by", "preset", "--json")).stdout.includes('"preset":null'), true)
      assert.match((yield* run("--by", "preset")).stdout, /^none\t1\t/)
      const wrong = yield* run("--from", "2026-02-30")
      assert.deepStrictEqual([wrong.code, wrong.stdout], [1, ""])
      assert.match(wrong.stderr, /^invalid_request: from: Expected a day such as 2026-01-02\n$/)
    }).pipe(Effect.scoped)
  )
})
