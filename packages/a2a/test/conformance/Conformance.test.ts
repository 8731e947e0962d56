import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { describe, it } from "@effect/vitest"
import type { PeerClient } from "@bowline/runtime/remote/PeerClient"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import type { Network } from "@bowline/testing/http/Network"
import { Effect, Layer, Logger, type Scope } from "effect"
import * as A2aPeerClient from "../../src/peer/A2aPeerClient.ts"
import { cases } from "./Cases.ts"
import { questionCases } from "./QuestionCases.ts"
import * as ScriptedServer from "./ScriptedServer.ts"
import * as Sdk03Server from "./Sdk03Server.ts"
import * as Sdk10Server from "./Sdk10Server.ts"
import type { Server, ServerScript } from "./Server.ts"

const sockets = A2aPeerClient.layer.pipe(
  Layer.provideMerge(NodeHttpClient.layerUndici),
  Layer.provideMerge(Logger.layer([])),
  Layer.provideMerge(LoopbackNetwork.layer)
)

type Serve = (script: ServerScript) => Effect.Effect<Server, never, Network | PeerClient | Scope.Scope>

const servers: ReadonlyArray<readonly [name: string, serve: Serve]> = [
  ["the SDK 1.x", Sdk10Server.serve],
  ["the SDK 0.3.x", Sdk03Server.serve],
  ["the test kit in A2A 1.0", ScriptedServer.serve("a2a-1.0")],
  ["the test kit in A2A 0.3", ScriptedServer.serve("a2a-0.3")],
  ["the test kit in bindu", ScriptedServer.serve("bindu")]
]

// They wait for most of their time.
describe.concurrent.each(servers)("a call of a server of %s", (_, serve) => {
  describe.each([
    ["polls", false],
    ["streams", true]
  ] as const)("that %s", (_, streams) => {
    for (const { test, title } of [...cases, ...questionCases]) {
      it.live(title, () =>
        Effect.clockWith((real) => test((acts, clock = real) => serve({ acts, clock, streams }))).pipe(
          Effect.provide(sockets)
        )
      )
    }
  })
})
