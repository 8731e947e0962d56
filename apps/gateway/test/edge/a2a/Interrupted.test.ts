import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { becomes, completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ScriptedPlanner from "@bowline/testing/unstable/planner/ScriptedPlanner"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { Plans } from "@bowline/runtime/plan/Plans"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { send, start } from "../../http/RunningGateway.ts"
import { clients } from "./Clients.ts"

/** A gateway whose file says this. */
const startWith = Effect.fnUntraced(function* (script: Script, file: object) {
  const folder = yield* folderOf({ "gateway.json": JSON.stringify(file) })
  return yield* start(script, { BOWLINE_CONFIG: join(folder, "gateway.json") })
})

/** Hands the question to this tool, and says what came of it. */
const handsTo =
  (tool: string): Script =>
  (asked) =>
    results(asked).length === 0 ? [callTool(tool, { input: question(asked) })] : [say(results(asked).join())]

/** What a client gets while virtual time passes, a second for each request that the gateway answers. */
const asTimePasses =
  (url: string) =>
  <A>(ask: () => Promise<A>) =>
    Effect.gen(function* () {
      const asking = yield* Effect.forkChild(Effect.promise(ask), { startImmediately: true })
      yield* Effect.repeat(Effect.andThen(send(`${url}/health`), TestClock.adjust("1 second")), {
        until: () => asking.pollUnsafe() !== undefined
      })
      return yield* Fiber.join(asking)
    })

const thousand = usage({ input_tokens: 900, output_tokens: 100 })

describe.each(Object.entries(clients))("the client of A2A %s", (_, connect) => {
  it.effect("is asked to sign in where the peer of a peer asks for it, and continues all tasks with its answer", () =>
    Effect.gen(function* () {
      const acts = [[becomes("auth-required", "Sign in at https://bank.example")], [completes("The vault is open")]]
      const inner = yield* start([], {}, Plans.layerOf(ScriptedPlanner.layer(() => acts.shift() ?? [])))
      const agent = { name: "inner", endpoint: `${inner.url}/a2a`, dialect: "a2a-1.0", skills: [{ id: "plan" }] }
      const outer = yield* startWith(handsTo("inner_plan"), { agents: [agent] })
      const client = yield* Effect.promise(() => connect(outer.url))
      const ask = asTimePasses(inner.url)
      const asked = yield* ask(() => client.send({ text: "Open the vault" }))
      assert.strictEqual(asked.state, "auth-required")
      assert.include(asked.said, "Sign in at https://bank.example")
      // It waits for a minute: somebody may sign in elsewhere.
      assert.isAtLeast(yield* Clock.currentTimeMillis, 60_000)
      const done = yield* ask(() => client.send({ text: "It is me", taskId: asked.id }))
      assert.deepInclude(done, { id: asked.id, state: "completed" })
      assert.include(done.answer, "The vault is open")
      const { tasks } = (yield* send(`${inner.url}/a2a/tasks?historyLength=9`)).body as {
        readonly tasks: ReadonlyArray<{ readonly status: object; readonly history: ReadonlyArray<object> }>
      }
      assert.deepInclude(tasks[0]?.status, { state: "TASK_STATE_COMPLETED" })
      const said = tasks[0]?.history.filter((message) => "role" in message && message.role === "ROLE_USER")
      assert.lengthOf(said ?? [], 2)
    })
  )

  it.live("cancels a task that waits for it: the peer is told, and no later question continues what it has left", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({
        acts: ({ continues }) => [continues ? completes("Continued") : becomes("input-required", "Rope or chain?")]
      })
      const bob = { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
      const { url } = yield* startWith(handsTo("bob_ask"), { agents: [bob] })
      const client = yield* Effect.promise(() => connect(url))
      const { contextId, id, state } = yield* Effect.promise(() => client.send({ text: "Tie it" }))
      assert.strictEqual(state, "input-required")
      assert.deepInclude(yield* Effect.promise(() => client.cancel(id)), { id, state: "canceled" })
      const [sent] = (yield* peer.seen).sends
      assert.strictEqual(yield* peer.cancelled, sent?.taskId)
      const next = yield* Effect.promise(() => client.send({ text: "Again", contextId }))
      assert.strictEqual(next.state, "input-required")
      assert.deepStrictEqual(
        (yield* peer.seen).sends.map(({ continues }) => continues),
        [false, false]
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is told that its task is rejected when its budget is used up before the first step", () =>
    Effect.gen(function* () {
      const budgets = { anonymous: { tokens_per_day: 1_000 } }
      const { provider, url } = yield* startWith(() => [say("ok"), thousand], { budgets })
      const client = yield* Effect.promise(() => connect(url))
      assert.strictEqual((yield* Effect.promise(() => client.send({ text: "one" }))).state, "completed")
      const rejected = yield* Effect.promise(() => client.send({ text: "two" }))
      assert.strictEqual(rejected.state, "rejected")
      assert.match(rejected.said, /has used 1000 of 1000 tokens/)
      assert.strictEqual((yield* Effect.promise(() => client.get(rejected.id))).state, "rejected")
      assert.lengthOf(yield* provider.requests.all, 1)
    })
  )
})
