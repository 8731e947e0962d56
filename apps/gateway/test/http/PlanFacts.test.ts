import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { wait } from "@bowline/testing/http/Move"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { payloads, post, send, start, startOn, stores } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const [ann, bob, root] = [by("ann"), by("bob"), by("root")]

/** The first request of a question that asks for trouble is refused. */
const script = (): Parameters<typeof start>[0] => {
  let refused = false
  return (asked) => {
    if (question(asked).includes("forbidden")) return [error(400)]
    if (question(asked).includes("trouble") && !refused) {
      refused = true
      return [error(503)]
    }
    return [say("So"), usage({ input_tokens: 1_000, cached_input_tokens: 400, output_tokens: 10 })]
  }
}

const models = { "openai/priced": { price: { input: 2, cached: 0.5, output: 8 } } }

/** A gateway that knows the price of one of its two models. */
const startPriced = (store: (typeof stores)[keyof typeof stores]) =>
  Effect.gen(function* () {
    const folder = yield* folderOf({ "gateway.json": JSON.stringify({ models }) })
    return yield* startOn(store)(script(), {
      ...callers,
      BOWLINE_CONFIG: join(folder, "gateway.json"),
      BOWLINE_MODEL: "openai/priced",
      BOWLINE_ALLOWED_MODELS: "openai/*",
      BOWLINE_RETRY_BASE: "1ms"
    })
  })

const agent = {
  name: "a",
  endpoint: "http://127.0.0.1:1/?token=hidden",
  auth: { type: "bearer", token: "hidden" },
  dialect: "a2a-0.3",
  skills: [{ id: "ask" }]
}

type Shown = Readonly<Record<string, unknown>>

const idsIn = (body: Shown) => (body["plans"] as ReadonlyArray<Shown>).map((plan) => plan["plan_id"])
const pathsIn = (body: Shown) => (body["issues"] as ReadonlyArray<Shown>).map(({ path }) => path)

describe("a plan", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`shows its caller, retries, cost and request, and when each event was stored (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startPriced(store)
        const body = {
          question: "trouble?",
          session_id: "s",
          agents: [agent],
          mcp_servers: [],
          history: [{ role: "user", content: "Before" }],
          prior_summary: "Once",
          metadata: { team: "x" },
          preferences: { max_steps: 3 }
        }
        const asked = yield* post(`${url}/plan`, { ...body, agents: [] }, { ...ann, accept: "text/event-stream" })
        const [session] = payloads(asked.text, "session") as ReadonlyArray<{ readonly plan_id: string }>
        const at = `${url}/plans/${session?.plan_id}`
        const plan = (yield* send(at, { headers: ann })).body
        assert.deepInclude(plan, { caller: "ann", retries: 1, cost_usd: 0.001_48, state: "completed" })
        assert.deepStrictEqual(plan["request"], { ...body, agents: [] })
        assert.deepInclude(payloads(asked.text, "usage")[0], { step: 1, input_tokens: 1_000, cost_usd: 0.001_48 })

        const times = Array.from(asked.text.matchAll(/"at":"([^"]+)"/g), ([, time]) => time)
        assert.strictEqual(times.length, asked.text.split("\n\n").length - 1)
        assert.deepStrictEqual(
          times,
          Array.from(times).sort((a = "", b = "") => (a < b ? -1 : 1))
        )
        for (const time of times) assert.match(time ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
        assert.strictEqual(times[0], plan["created_at"])
        const replayed = yield* send(`${at}/events`, { headers: ann })
        assert.strictEqual(replayed.text, asked.text)

        const { body: list } = yield* send(`${url}/plans`, { headers: ann })
        const [summary = {}] = list["plans"] as ReadonlyArray<Shown>
        assert.deepInclude(summary, { caller: "ann", retries: 1, cost_usd: 0.001_48, question_preview: "trouble?" })
        for (const field of ["request", "question"]) assert.notProperty(summary, field)

        const hidden = { ...body, session_id: "t", history: [], preferences: { model: "openai/unpriced" } }
        const other = (yield* post(`${url}/plan`, hidden, ann)).body
        const shown = yield* send(`${url}/plans/${String(other["plan_id"])}`, { headers: ann })
        assert.deepInclude(shown.body, { cost_usd: null, retries: 0 })
        assert.notInclude(shown.text, "hidden")
        assert.deepStrictEqual((shown.body["request"] as typeof body).agents, [
          { ...agent, endpoint: "http://127.0.0.1:1/?token=", auth: { type: "bearer" } } as never
        ])
        const { body: refused } = yield* post(`${url}/plan`, shown.body["request"], ann)
        assert.deepStrictEqual(pathsIn(refused), ["agents[0].auth.token"])
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
    )

    it.live(`is found by its state, model, error, time, question and caller (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startPriced(store)
        const ask = (question: string, model = "openai/priced") =>
          Effect.map(post(`${url}/plan`, { question, preferences: { model } }, ann), ({ body }) => body["plan_id"])
        const [plain, failing] = [yield* ask("What is 100% Wool?"), yield* ask("What is forbidden?")]
        const last = yield* ask("Who else?", "openai/unpriced")
        const between = (yield* send(`${url}/plans/${String(last)}`, { headers: ann })).body["created_at"]
        const found = (query: string, headers = ann) =>
          Effect.map(send(`${url}/plans?${query}`, { headers }), ({ body, status }) =>
            status === 200 ? idsIn(body) : assert.fail(`${query}: ${status}`)
          )
        for (const [query, ids] of [
          ["state=completed", [last, plain]],
          ["state=completed&state=failed", [last, failing, plain]],
          ["state=queued&state=running", []],
          ["model=openai/unpriced", [last]],
          ["error_code=provider_bad_request", [failing]],
          [`since=${String(between)}`, [last]],
          [`until=${String(between)}`, [failing, plain]],
          ["since=2999-01-01T00:00:00%2B02:00", []],
          ["q=100%25%20wOOl", [plain]],
          ["q=%25", [plain]],
          ["q=_", []],
          ["q=what&state=completed", [plain]],
          ["caller=ann&q=else", [last]]
        ] satisfies ReadonlyArray<readonly [query: string, ids: ReadonlyArray<unknown>]>) {
          assert.deepStrictEqual(yield* found(query), ids, query)
        }
        assert.deepStrictEqual(yield* found("", root), [])
        assert.deepStrictEqual(yield* found("caller=ann&state=failed", root), [failing])
        const refused = yield* send(`${url}/plans?caller=ann`, { headers: bob })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [403, "forbidden"])

        const first = (yield* send(`${url}/plans?limit=1&q=w`, { headers: ann })).body
        const newest = yield* ask("What now?")
        const rest = yield* found(`limit=5&q=w&cursor=${String(first["next_cursor"])}`)
        assert.deepStrictEqual([...idsIn(first), ...rest], [last, failing, plain])
        assert.deepStrictEqual(yield* found("limit=1"), [newest])
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
    )

    it.live(`is found by its calls, its metadata and its abort, and by an admin among everybody's (${name})`, () =>
      Effect.gen(function* () {
        const { url: peer } = yield* ScriptedPeer.serve({ acts: [completes("done")] })
        const script: Script = (asked) =>
          asked.tools.length > 0 && results(asked).length === 0
            ? [callTool("rigger_ask", { input: "?" })]
            : question(asked) === "slow?"
              ? [wait("1 minute")]
              : [say("done")]
        const { url } = yield* startOn(store)(script, callers)
        const ask = (body: object, headers: typeof ann) =>
          Effect.map(post(`${url}/plan`, { question: "?", ...body }, headers), ({ body }) => body["plan_id"])
        const agents = [{ name: "rigger", endpoint: `${peer}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
        const calling = yield* ask({ agents, metadata: { "a=b": "c=d", e: "" } }, ann)
        const late = yield* ask({ question: "slow?", preferences: { timeout_ms: 100 } }, ann)
        const other = yield* ask({ metadata: { e: "" } }, bob)
        const found = (query: string, headers = ann) =>
          Effect.map(send(`${url}/plans?${query}`, { headers }), ({ body, status }) =>
            status === 200 ? idsIn(body) : assert.fail(`${query}: ${status}`)
          )
        for (const [query, ids] of [
          ["tool=rigger_ask", [calling]],
          ["tool=rigger", []],
          ["agent=rigger", [calling]],
          ["reason=deadline", [late]],
          ["reason=cancelled", []],
          ["metadata=e%3D", [calling]],
          ["metadata=a%3Db%3Dc%3Dd", []],
          ["metadata=e%3D&metadata=f%3D", []]
        ] satisfies ReadonlyArray<readonly [query: string, ids: ReadonlyArray<unknown>]>) {
          assert.deepStrictEqual(yield* found(query), ids, query)
        }
        assert.deepStrictEqual(yield* found("caller=*&metadata=e%3D", root), [other, calling])
        const { body } = yield* send(`${url}/plans/${String(other)}`, { headers: bob })
        assert.deepStrictEqual(yield* found(`caller=*&session_id=${String(body["session_id"])}`, root), [other])
        assert.deepStrictEqual(yield* found("caller=*&session_id=name", root), [])
        const refused = yield* send(`${url}/plans?caller=*`, { headers: bob })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [403, "forbidden"])
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
    )
  }

  it.live("is not found by a filter that is wrong: the answer names it", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")])
      for (const query of [
        "state=over",
        "state=failed&state=",
        "model=",
        `model=${"x".repeat(257)}`,
        "error_code=",
        "q=",
        `q=${"x".repeat(1_001)}`,
        "since=yesterday",
        "since=2026-01-02",
        "until=2026-13-02T00:00:00Z",
        "until=0000-01-02T00:00:00Z",
        "metadata=key",
        "metadata==value",
        "tool="
      ]) {
        const { body, status } = yield* send(`${url}/plans?${query}`)
        assert.strictEqual(status, 400, query)
        assert.deepStrictEqual(pathsIn(body), [query.split("=")[0]], query)
      }
    }).pipe(Effect.scoped)
  )
})
