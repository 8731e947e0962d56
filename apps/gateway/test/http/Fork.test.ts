import { completes, produces } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { gunzipSync } from "node:zlib"
import { payloads, post, send, startOn, stores } from "./RunningGateway.ts"

type Line = Readonly<Record<string, unknown>>

const skills = [{ id: "ask", input_schema: { type: "object", properties: { order: { type: "string" } } } }]
const sse = { accept: "text/event-stream" }

const exported = (url: string, plan: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/plans/${plan}/export`)
    const text = gunzipSync(await response.arrayBuffer()).toString()
    return text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Line)
  })

/** What its models were asked, attempt by attempt. */
const promptsOf = (lines: ReadonlyArray<Line>) =>
  lines.filter(({ type }) => type === "attempt").map(({ prompt }) => prompt)

/** A plan of two steps, whose one call a peer has answered, and how often the peer was called. */
const asked = Effect.fnUntraced(function* (store: Parameters<typeof startOn>[0], auth?: object) {
  const peer = yield* Effect.provide(
    ScriptedPeer.serve({ acts: [produces("paid"), completes()] }),
    LoopbackNetwork.layer
  )
  const { url } = yield* startOn(store)((asked) => {
    const order = /\d/.exec(question(asked))?.[0]
    if (order !== undefined && results(asked).length === 0) return [callTool("bank_ask", { order })]
    return [say(results(asked).length === 0 ? "Hello." : `It is: ${results(asked).join(" ")}`)]
  })
  const agents = [{ name: "bank", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills, ...auth }]
  yield* post(`${url}/plan`, { question: "Earlier?", session_id: "s", prior_summary: "Ann pays late." })
  const { body } = yield* post(`${url}/plan`, { question: "Is 7 paid?", session_id: "s", agents, metadata: { a: "b" } })
  const plan = String(body["plan_id"])
  const fork = (wanted: object, headers: Readonly<Record<string, string>> = {}) =>
    post(`${url}/plans/${plan}/fork`, wanted, headers)
  const calls = Effect.map(peer.seen, ({ sends }) => sends.length)
  return { url, plan, session: body["session_id"], fork, calls }
})

const waitingIn = (url: string) =>
  Effect.repeat(
    Effect.map(send(`${url}/approvals`), ({ body }) => body["approvals"] as ReadonlyArray<Line>),
    { until: (approvals) => approvals.length > 0, schedule: Schedule.spaced("20 millis") }
  )

describe("a fork", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`asks the models what the plan has asked, and makes no call (${name})`, () =>
      Effect.gen(function* () {
        const { calls, fork, plan, session, url } = yield* asked(store)
        const before = promptsOf(yield* exported(url, plan))
        assert.lengthOf(before, 2)

        // From its last step on, which is what it does unless it is told otherwise.
        const { body: last } = yield* fork({})
        assert.strictEqual(last["state"], "completed")
        assert.notStrictEqual(last["session_id"], session)
        const { body: forked } = yield* send(`${url}/plans/${String(last["plan_id"])}`)
        assert.deepStrictEqual(forked["forked_from"], { plan_id: plan, step: 2 })
        assert.deepInclude(forked, {
          question: "Is 7 paid?",
          metadata: { a: "b" },
          external_session_id: null,
          steps: 1
        })
        assert.deepStrictEqual(promptsOf(yield* exported(url, String(last["plan_id"]))), before.slice(1))
        const { body: history } = yield* send(`${url}/sessions/${String(last["session_id"])}/messages`)
        assert.deepStrictEqual(
          (history["messages"] as ReadonlyArray<Line>).map(({ role }) => role),
          ["user", "assistant", "user", "assistant", "tool", "assistant"]
        )

        // From its first step on: the same call gets what was recorded.
        const { text } = yield* fork({ step: 1 }, sse)
        const [started] = payloads(text, "task.started") as ReadonlyArray<Line>
        const [finished] = payloads(text, "task.finished") as ReadonlyArray<Line>
        assert.deepInclude(started, { tool: "bank_ask", input: { order: "7" } })
        assert.strictEqual(finished?.["state"], "completed")
        const [call] = (yield* exported(url, plan)).filter(({ type }) => type === "call")
        assert.strictEqual(finished?.["repeat_of"], call?.["task_id"])
        const again = String(/"plan_id":"([^"]+)"/.exec((yield* send(`${url}/plans?limit=1`)).text)?.[1])
        assert.deepStrictEqual(promptsOf(yield* exported(url, again)), before)

        // A fork of a fork goes on from the same place.
        const { body: of } = yield* post(`${url}/plans/${String(last["plan_id"])}/fork`, {})
        assert.deepStrictEqual(promptsOf(yield* exported(url, String(of["plan_id"]))), before.slice(1))
        assert.strictEqual(yield* calls, 1)
      })
    )
  }

  it.live("refuses a call that is not on record, and tells the model", () =>
    Effect.gen(function* () {
      const { calls, fork } = yield* asked(stores.memory)
      const { text } = yield* fork({ step: 1, question: "Is 8 paid?" }, sse)
      const [finished] = payloads(text, "task.finished") as ReadonlyArray<Line>
      assert.deepInclude(finished, { state: "rejected" })
      assert.include(JSON.stringify(finished), '"code":"unrecorded"')
      assert.include(JSON.stringify(payloads(text, "final")), "has no call of bank_ask with these arguments")
      assert.strictEqual(yield* calls, 1)
      // In the middle, another question stands in place of the question.
      const { body } = yield* fork({ question: "Was 7 paid?", instructions: "Be brief." })
      assert.include(JSON.stringify(body["final"]), "paid")
    })
  )

  it.live("makes calls where it is to, or asks before each of them", () =>
    Effect.gen(function* () {
      const { calls, fork, url } = yield* asked(stores.memory)
      const asking = yield* Effect.forkChild(fork({ step: 1, tools: "ask", preferences: { approval: "never" } }))
      const [approval] = yield* waitingIn(url)
      assert.deepInclude(approval, { tool: "bank_ask", why: "fork" })
      assert.strictEqual(yield* calls, 1)
      const { plan_id, task_id } = approval ?? {}
      yield* post(`${url}/plans/${String(plan_id)}/approvals/${String(task_id)}`, { decision: "approve" })
      assert.strictEqual((yield* Fiber.join(asking)).body["state"], "completed")
      assert.strictEqual(yield* calls, 2)
      yield* fork({ step: 1, tools: "live", session: "new" })
      assert.strictEqual(yield* calls, 3)
    })
  )

  it.live("is started once for a key, and refused where it cannot be", () =>
    Effect.gen(function* () {
      const { fork, url } = yield* asked(stores.memory, { auth: { type: "bearer", token: "planted-token" } })
      const key = { "idempotency-key": "one" }
      const [first, second] = [yield* fork({ step: 2 }, key), yield* fork({ step: 2 }, key)]
      assert.strictEqual(first.body["state"], "completed")
      assert.strictEqual(first.body["plan_id"], second.body["plan_id"])
      assert.strictEqual((yield* fork({ step: 1 }, key)).status, 409)
      const wrong = [
        [{ step: 3 }, "step"],
        [{ step: 0 }, "step"],
        [{ tools: "some" }, "tools"],
        [{ session: "old" }, "session"],
        [{ tols: "live" }, "tols"],
        [{ model: "nobody/knows" }, "model"],
        [{ preset: "nobody" }, "preset"],
        // Its secret is not kept longer than the plan runs.
        [{ tools: "live" }, "tools"]
      ] as const
      for (const [wanted, field] of wrong) {
        const { body, status } = yield* fork(wanted)
        const { issues } = body as { readonly issues?: ReadonlyArray<{ readonly path: string }> }
        assert.deepStrictEqual([status, issues?.map(({ path }) => path)], [400, [field]], JSON.stringify(body))
      }
      assert.strictEqual((yield* post(`${url}/plans/plan_${"0".repeat(8)}/fork`, {})).status, 404)
    })
  )
})
