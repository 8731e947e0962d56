import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { post, send, start } from "../http/RunningGateway.ts"
import * as Collector from "./Collector.ts"

const [first, second] = ["b7ad6b7169203331", "c8be7c827a314442"]
const below = (span: string) => ({ traceparent: `00-0af7651916cd43dd8448eb211c80319c-${span}-01` })

const plansAs = (url: string, state: string) =>
  Effect.map(send(`${url}/plans?state=${state}`), ({ body }) => body["plans"] as ReadonlyArray<object>)

describe("an exported trace", () => {
  it.live("has the wait of a call for its approval, and that of a plan for its session", () =>
    Effect.gen(function* () {
      const collector = yield* Collector.serve()
      const peer = yield* ScriptedPeer.serve({ acts: [completes("paid")] })
      const skills = [{ id: "pay", approval: "always" }]
      const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills }]
      const script = [[callTool("bob_pay", { input: "7" })], [say("paid")], [say("again")]]
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { url } = yield* start(script, { ...collector.settings, BOWLINE_MODEL: "openai/planner" })
          const ask = (span: string, body: object) =>
            Effect.forkChild(post(`${url}/plan`, { question: "?", session_id: "s", ...body }, below(span)))
          const paying = yield* ask(first, { agents })
          const { body } = yield* Effect.repeat(send(`${url}/approvals`), {
            until: ({ text }) => text.includes("task_id")
          })
          const queued = yield* ask(second, {})
          yield* Effect.repeat(plansAs(url, "queued"), { until: (plans) => plans.length === 1 })
          const [wait] = body["approvals"] as ReadonlyArray<{ readonly plan_id: string; readonly task_id: string }>
          yield* post(`${url}/plans/${wait?.plan_id}/approvals/${wait?.task_id}`, { decision: "approve" })
          const ended = yield* Fiber.joinAll([paying, queued])
          assert.deepStrictEqual(
            ended.map(({ body }) => body["state"]),
            ["completed", "completed"]
          )
        })
      )
      const spans = yield* collector.spans
      const calling = ["      chat planner", "      approval", "      execute_tool bob_pay", "        message/send"]
      assert.deepStrictEqual(Collector.treeOf(spans, first), [
        "POST /plan",
        "  plan",
        "    step",
        ...calling,
        "    step",
        "      chat planner"
      ])
      const waited = ["POST /plan", "  plan", "    queue", "    step", "      chat planner"]
      assert.deepStrictEqual(Collector.treeOf(spans, second), waited)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
