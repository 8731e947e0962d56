import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServer } from "effect/http"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import * as Gateway from "../../src/Gateway.ts"
import { databases } from "../plan/Databases.ts"
import * as KeptRecords from "../plan/KeptRecords.ts"

/** The whole gateway in this process, in memory, on a free port, with a scripted provider on another one. */
export const start = Effect.fnUntraced(function* (
  script: Script,
  environment: Readonly<Record<string, string>> = {},
  plans: typeof Plans.layer = Plans.layer
) {
  const network = yield* Network
  const provider = yield* network.serve(yield* ChatHost.make(script))
  const config = yield* fromEnvironment(
    {
      BOWLINE_PORT: "0",
      BOWLINE_DATA_DIR: "memory:",
      LOG_LEVEL: "none",
      OPENAI_BASE_URL: `${provider.url}/v1`,
      ...environment
    },
    false
  )
  const context = yield* Layer.build(Gateway.layer(config, plans))
  const { address } = Context.get(context, HttpServer.HttpServer)
  const url = HttpServer.formatAddress(address)
  yield* KeptRecords.whenOver((folder) => Effect.provideContext(KeptRecords.keep(folder), context))
  return { url, provider }
}, Effect.provide(LoopbackNetwork.layer))

export type RunningGateway = Effect.Success<ReturnType<typeof start>>

/** The settings of stores that a gateway has to be the same on. */
export const stores = { memory: databases.memory, postgres: Effect.orDie(databases.postgres) }

export const startOn =
  (store: Effect.Effect<Readonly<Record<string, string>>, never, Scope.Scope>): typeof start =>
  (script, environment) =>
    Effect.flatMap(store, (settings) => start(script, { ...settings, ...environment }))

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body, where it is JSON. */
  readonly body: Readonly<Record<string, unknown>>
}

const parse = (text: string): Answer["body"] => {
  try {
    return JSON.parse(text) as Answer["body"]
  } catch {
    return {}
  }
}

/** One request and its whole answer. */
export const send = (url: string, init: RequestInit = {}): Effect.Effect<Answer> =>
  Effect.promise(async (signal) => {
    const response = await fetch(url, { ...init, signal })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: parse(text) }
  })

const json = { "content-type": "application/json" }

/** Posts a body, as JSON unless it is text already, and wants one object unless the headers say otherwise. */
export const post = (url: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  send(url, {
    method: "POST",
    headers: { ...json, accept: "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body)
  })

/** The payloads of the events of this name in the text of a stream. */
export const payloads = (text: string, event: string): ReadonlyArray<unknown> =>
  Array.from(
    text.matchAll(new RegExp(`^event: ${event}\ndata: (.+)$`, "gm")),
    ([, data = "{}"]) => JSON.parse(data) as unknown
  )

/** The names of a stream's events, in order. */
export const eventsOf = (text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(/^event: (.+)$/gm), ([, name = ""]) => name)
