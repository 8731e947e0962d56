import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import * as Turn from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "../http/RunningGateway.ts"

const event = (type: string, fields: object) =>
  Turn.raw(`data: ${JSON.stringify({ type: `response.${type}`, ...fields })}\n\n`)
const thought = { type: "reasoning", id: "rs_1" }
const summary = [{ type: "summary_text", text: "Hm." }]
const thinking = [
  event("output_item.added", { item: { ...thought, summary: [] } }),
  event("reasoning_summary_text.delta", { item_id: "rs_1", summary_index: 0, delta: "Hm." }),
  event("output_item.done", { item: { ...thought, summary, encrypted_content: "gAAA" } })
]

describe("a session with a model that reasons", () => {
  it.live("shows the model at the next question what it thought, in front of what it said", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(yield* ResponsesHost.make([[...thinking, Turn.say("one")], [Turn.say("two")]]))
      const { url } = yield* start([], { OPENAI_BASE_URL: `${host.url}/v1`, OPENAI_API: "responses" })
      const plans = yield* Effect.forEach(["first", "second"], (question) =>
        Effect.map(post(`${url}/plan`, { question, session_id: "s" }), ({ body }) => body["final"])
      )
      assert.propertyVal(plans[0], "text", "one")
      assert.propertyVal(plans[1], "text", "two")
      const [, second] = yield* host.requests.all
      const { input } = JSON.parse(second?.body ?? "") as { readonly input: ReadonlyArray<object> }
      assert.deepStrictEqual(input.slice(1, -1), [
        { type: "reasoning", summary, encrypted_content: "gAAA" },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "one" }] }
      ])
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
