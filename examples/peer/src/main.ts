import * as A2aPeerClient from "@bowline/a2a/peer/A2aPeerClient"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Effect, Layer, Schema, Stream } from "effect"
import assert from "node:assert/strict"

// Stands in for a real provider: asks the peer, then says what it has read.
const Model = ScriptedProvider.layer([
  [callTool("rigger_inspect", { input: "the bowline at the bow" })],
  [say("The knot holds.")]
])

const App = Plans.layer.pipe(
  Layer.provide([
    CredentialPool.layerProvider,
    MemoryStore.layer,
    PlansConfig.layer({ model: "scripted/clerk" }),
    McpClient.layerNone,
    Layer.provide(A2aPeerClient.layer, NodeHttpClient.layerUndici)
  ]),
  Layer.provide(Model),
  Layer.provideMerge(LoopbackNetwork.layer)
)

const program = Effect.gen(function* () {
  // Stands in for a real peer.
  const peer = yield* ScriptedPeer.serve({ dialect: "a2a-1.0", acts: [completes("It holds under any load.")] })

  const plans = yield* Plans
  const request = yield* Schema.decodeEffect(PlanRequest)({
    question: "Is the knot safe?",
    agents: [
      {
        name: "rigger",
        endpoint: `${peer.url}/`,
        skills: [{ id: "inspect", description: "Inspects a knot", idempotent: true, timeout_ms: 10_000 }]
      }
    ]
  })
  const { events } = yield* plans.start({ caller: CallerName.make("clerk"), request })
  const seen = yield* events.pipe(
    Stream.tap(({ event, data }) => Effect.sync(() => console.log(event, JSON.stringify(data)))),
    Stream.runCollect
  )

  const [started, artifact, final] = ["task.started", "task.artifact", "final"].map((name) =>
    seen.find(({ event }) => event === name)
  )
  assert.partialDeepStrictEqual(started?.data, { tool: "rigger_inspect", kind: "peer", agent: "rigger" })
  assert.partialDeepStrictEqual(artifact?.data, { content: "It holds under any load." })
  assert.partialDeepStrictEqual(final?.data, { text: "The knot holds.", tool_calls: 1 })
})

await program.pipe(Effect.scoped, Effect.provide(App), Effect.runPromise)
