import * as GatewayProcess from "@bowline/testing/unstable/GatewayProcess"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { Effect } from "effect"
import { join } from "node:path"

const bowline = process.env["BOWLINE_TEST_BUNDLE"] ?? join(import.meta.dirname, "../../../gateway/bin/bowline.mjs")

/** What a test sets unless it says otherwise: it asks as one caller what many would ask. */
const usual = {
  PATH: process.env["PATH"] ?? "",
  BOWLINE_PORT: "0",
  BOWLINE_DATA_DIR: "memory:",
  BOWLINE_RATE_LIMIT: "1000000/1s",
  BOWLINE_MODEL: "openai/scripted",
  LOG_FORMAT: "json"
}

type Settings = Readonly<Record<string, string>>

/** Starts gateways that ask one scripted provider, each as a process of its own. */
export const withProvider = Effect.fnUntraced(function* (script: Script) {
  const provider = yield* (yield* Network).serve(yield* ChatHost.make(script))
  return (settings: Settings = {}) =>
    GatewayProcess.start(bowline, { ...usual, OPENAI_BASE_URL: `${provider.url}/v1`, ...settings })
}, Effect.provide(LoopbackNetwork.layer))

/** A gateway of its own process with a scripted provider. It ends with the scope. */
export const start = (script: Script, settings: Settings = {}) =>
  Effect.flatMap(withProvider(script), (startOne) => startOne(settings))

/** The demo: a gateway that nothing is configured for. */
export const startDemo = GatewayProcess.start(bowline, {
  BOWLINE_PORT: "0",
  BOWLINE_DATA_DIR: "memory:",
  LOG_FORMAT: "json"
})
