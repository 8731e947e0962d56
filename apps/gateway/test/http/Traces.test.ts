import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

const traceId = "0af7651916cd43dd8448eb211c80319c"
const traceparent = `00-${traceId}-b7ad6b7169203331-01`

const asks = Effect.fnUntraced(function* (headers: Readonly<Record<string, string>>) {
  const peer = yield* ScriptedPeer.serve({ acts: [completes("yes")] })
  const { provider, url } = yield* start([[callTool("bob_ask", { input: "?" })], [say("done")]])
  const agent = { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
  const { body } = yield* post(`${url}/plan`, { question: "?", agents: [agent] }, headers)
  assert.strictEqual(body["state"], "completed")
  const plan = yield* send(`${url}/plans/${String(body["plan_id"])}`)
  const requests = [...(yield* provider.requests.all), ...(yield* peer.requests.all)]
  assert.isAtLeast(requests.length, 3)
  const seen = requests.map(({ headers: { b3, traceparent, tracestate } }) => ({ b3, traceparent, tracestate }))
  return { seen, trace_id: plan.body["trace_id"] }
})

describe("a gateway that records no traces", () => {
  it.live("passes the trace of its caller on to providers and peers, as it came, and shows its id", () =>
    Effect.gen(function* () {
      const { seen, trace_id } = yield* asks({ traceparent, tracestate: "a=1" })
      assert.strictEqual(trace_id, traceId)
      for (const headers of seen) assert.deepStrictEqual(headers, { b3: undefined, traceparent, tracestate: "a=1" })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("sends no trace where its caller has none", () =>
    Effect.gen(function* () {
      const { seen, trace_id } = yield* asks({ traceparent: "00-x" })
      assert.isNull(trace_id)
      for (const headers of seen) {
        assert.deepStrictEqual(headers, { b3: undefined, traceparent: undefined, tracestate: undefined })
      }
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
