import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import * as SdkMcpClient from "@bowline/mcp/server/SdkMcpClient"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Effect, Layer, Schema, Stream } from "effect"
import assert from "node:assert/strict"

// Stands in for a real provider: asks for the forecast, then says what it has read.
const Model = ScriptedProvider.layer([
  [callTool("weather_forecast", { city: "Oslo" })],
  [say("The sky over Oslo is clear.")]
])

const App = Plans.layer.pipe(
  Layer.provide([
    CredentialPool.layerProvider,
    MemoryStore.layer,
    PlansConfig.layer({ model: "scripted/clerk" }),
    PeerClient.layerNone,
    Layer.provide(SdkMcpClient.layer, NodeHttpClient.layerUndici)
  ]),
  Layer.provide(Model),
  Layer.provideMerge(LoopbackNetwork.layer)
)

const forecast = {
  name: "forecast",
  inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
}

const program = Effect.gen(function* () {
  // Stands in for a real server of MCP.
  const server = yield* ScriptedMcpServer.serve({
    list: () => ({ tools: [forecast] }),
    call: (request) => Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear" }] }))
  })

  const plans = yield* Plans
  const request = yield* Schema.decodeEffect(PlanRequest)({
    question: "What will the weather be in Oslo?",
    mcp_servers: [{ name: "weather", url: `${server.url}/mcp`, allowed_tools: ["forecast"], required: true }]
  })
  const { events } = yield* plans.start({ caller: CallerName.make("clerk"), request })
  const seen = yield* events.pipe(
    Stream.tap(({ event, data }) => Effect.sync(() => console.log(event, JSON.stringify(data)))),
    Stream.runCollect
  )

  const [started, artifact, final] = ["task.started", "task.artifact", "final"].map((name) =>
    seen.find(({ event }) => event === name)
  )
  assert.partialDeepStrictEqual(started?.data, { tool: "weather_forecast", kind: "mcp", agent: "weather" })
  assert.partialDeepStrictEqual(artifact?.data, { content: "clear" })
  assert.partialDeepStrictEqual(final?.data, { text: "The sky over Oslo is clear.", tool_calls: 1 })
})

await program.pipe(Effect.scoped, Effect.provide(App), Effect.runPromise)
