import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import * as Gateway from "../../src/Gateway.ts"
import { post } from "../http/RunningGateway.ts"
import * as KeptRecords from "../plan/KeptRecords.ts"

const tools = [
  {
    name: "refund",
    description: "Refunds an order, and deletes it",
    inputSchema: { type: "object", properties: { order: { type: "integer" } }, required: ["order"] },
    annotations: { destructiveHint: true }
  },
  {
    name: "find",
    description: "Finds an order by its number",
    inputSchema: { type: "object", properties: { number: { type: "integer" } }, required: ["number"] }
  }
]

const environment = { BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", LOG_LEVEL: "none" }

it.live(
  "a demo with an agent and an MCP server of one's own asks them, and calls nothing that may destroy something",
  () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({
        acts: [completes("Sunny")],
        card: { skills: [{ id: "forecast", name: "Forecast", description: "Tells the weather", tags: [] }] }
      })
      const server = yield* ScriptedMcpServer.serve({
        list: () => ({ tools }),
        call: (request) =>
          Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "On its way" }] }))
      })
      const config = yield* fromEnvironment(environment, false, {
        agents: [`sky=${peer.url}/`],
        mcp: [`shop=${server.url}`]
      })
      const context = yield* Layer.build(Gateway.layer(config))
      yield* KeptRecords.whenOver((folder) => Effect.provideContext(KeptRecords.keep(folder), context))
      const url = HttpServer.formatAddress(Context.get(context, HttpServer.HttpServer).address)
      const ask = (question: string, preset?: string) =>
        Effect.map(post(`${url}/plan`, { question, ...(preset !== undefined && { preset }) }), ({ body }) =>
          String((body["final"] as { readonly text?: unknown } | undefined)?.text)
        )

      assert.include(yield* ask("What will the weather be tomorrow?"), "“Sunny”")
      const found = yield* ask("Where is order number 17?", "demo")
      assert.include(found, 'I called shop_find with {"number":17}, which I made up from its schema')
      assert.include(found, "“On its way”")
      // The other tool fits better.
      assert.include(yield* ask("Ask shop to refund and delete the order 17"), "I called shop_find")
      // Nothing fits: an agent is asked, in plain words. None of the demo's waits for ever.
      assert.include(yield* ask("Hello", "demo"), "“Sunny”")
      const schema = { type: "object", properties: { knot: { type: "string" } }, required: ["knot"] }
      const { body } = yield* post(`${url}/plan`, {
        question: "Which Bowline holds?",
        preferences: { response_format: { type: "json_schema", schema } }
      })
      assert.deepInclude(body["final"], { output: { knot: "Bowline" } })
      assert.include(yield* ask("Ask prompt, please", "demo"), "given at once")
      const waits = yield* post(`${url}/plan`, {
        question: "Wait until 2026-01-02T03:04:05Z.",
        preferences: { may_wait: true }
      })
      assert.match(JSON.stringify(waits.body["final"]), /I called wait with .*timer/)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
)
