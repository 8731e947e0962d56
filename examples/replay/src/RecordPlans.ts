// Writes plans.bowline, as `bowline export` does on a gateway: run it when the plans of the example are to be others.
import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest, Plans } from "@bowline/runtime"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { linesOf } from "@bowline/runtime/unstable/record/PlanExport"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { Effect, Layer, Stream } from "effect"
import { writeFileSync } from "node:fs"
import { gzipSync } from "node:zlib"
import * as ShopOrders from "./ShopOrders.ts"

const Model = ScriptedProvider.layer([
  [callTool("find_order", { order_id: 7 })],
  [say("Order 7 is on its way, "), say("and arrives on Friday.")],
  [callTool("find_order", { order_id: 3 }), callTool("find_order", { order_id: 7 })],
  [say("Order 3 was delivered yesterday, order 7 arrives on Friday.")]
])

const App = Plans.layer.pipe(
  Layer.provide([
    CredentialPool.layerProvider,
    PlansConfig.layer({ model: "scripted/clerk" }),
    PeerClient.layerNone,
    McpClient.layerNone
  ]),
  Layer.provideMerge(MemoryStore.layer),
  Layer.provide([Model, ShopOrders.layer])
)

const program = Effect.gen(function* () {
  const plans = yield* Plans
  const stores = {
    store: yield* PlanStore,
    sessions: yield* SessionStore,
    inboxes: yield* InboxStore,
    files: yield* FileStore
  }
  const lines: Array<object> = []
  for (const question of ["Where is my order 7?", "Where are my orders 3 and 7?"]) {
    const { events, plan_id } = yield* plans.start({ caller: anonymous, request: PlanRequest.make({ question }) })
    yield* Stream.runDrain(events)
    lines.push(...(yield* linesOf(stores, anonymous, plan_id)))
  }
  const path = new URL("plans.bowline", import.meta.url)
  writeFileSync(path, gzipSync(lines.map((line) => `${JSON.stringify(line)}\n`).join("")))
})

await program.pipe(Effect.scoped, Effect.provide(App), Effect.runPromise)
