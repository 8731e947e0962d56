import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import type { Provider } from "@bowline/runtime/provider/Provider"
import { Providers } from "@bowline/runtime/provider/Providers"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Duration, Effect, Layer, Predicate, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import type * as Script from "./provider/Script.ts"
import { ScriptedProvider } from "./provider/ScriptedProvider.ts"

/** A peer with an empty card. */
const noCard: PeerClient["Service"]["discover"] = () => Effect.succeed({ skills: [], did: null })

interface Surroundings {
  /** Without a client no peer can be called. */
  readonly peers?: Partial<PeerClient["Service"]>
  /** Without a client no MCP server can be reached. */
  readonly mcp?: Layer.Layer<McpClient>
  readonly config?: Partial<PlansConfig["Service"]>
}

interface Options extends Surroundings {
  readonly script: Script.Script
}

const layerOnPool = <Out, E, In>(
  pool: Layer.Layer<CredentialPool | Out, E, In>,
  { peers = {}, mcp = McpClient.layerNone, config }: Surroundings
) =>
  Plans.layer.pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        pool,
        PlansConfig.layer({ model: "scripted/model", ...config }),
        mcp,
        Layer.mock(PeerClient, { discover: noCard, ...peers })
      )
    )
  )

/** The runtime with a scripted provider, on the given stores. */
export const layerOnStore = ({ script, ...surroundings }: Options) =>
  layerOnPool(Layer.provideMerge(CredentialPool.layerProvider, ScriptedProvider.layer(script)), surroundings)

/** In memory, with one adapter for each credential. */
export const layerOfCredentials = (adapters: ReadonlyArray<Layer.Layer<Provider>>, surroundings: Surroundings = {}) =>
  layerOnPool(Layer.provide(CredentialPool.layer, Providers.layer(adapters)), surroundings).pipe(
    Layer.provideMerge(MemoryStore.layer)
  )

interface MemoryOptions extends Options {
  /** Puts faults between the plans and their store. */
  readonly disturb?: (store: PlanStore["Service"]) => Partial<PlanStore["Service"]>
}

/** The same in memory, for `TestClock`. */
export const layer = ({ disturb = () => ({}), ...options }: MemoryOptions) =>
  layerOnStore(options).pipe(
    Layer.provideMerge(
      Layer.effect(
        PlanStore,
        Effect.map(PlanStore, (store) => ({ ...store, ...disturb(store) }))
      )
    ),
    Layer.provideMerge(MemoryStore.layer)
  )

/** Lets virtual time pass in steps. Between two steps every fiber runs to its next wait. */
export const pass = Effect.fnUntraced(function* (duration: Duration.Input, step: Duration.Input = "100 millis") {
  const steps = Duration.toMillis(duration) / Duration.toMillis(step)
  for (let taken = 0; taken < steps; taken++) {
    yield* Effect.repeat(Effect.yieldNow, { times: 50 })
    yield* TestClock.adjust(step)
  }
})

const decode = Schema.decodeUnknownEffect(PlanRequest)

/** Posts a question as the only caller of an open gateway, and reads its stream while the scope is open. */
export const post = Effect.fnUntraced(function* (body: unknown) {
  const streams = yield* PlanStreams
  return yield* streams.start({ caller: anonymous, request: yield* Effect.orDie(decode(body)) })
})

/** The same for a reader that follows the plan to its end. */
export const follow = Effect.fnUntraced(function* (body: unknown) {
  const { follow } = yield* PlanFollower
  return follow(anonymous, yield* post(body))
})

const decodeEvent = Schema.decodeUnknownSync(PlanEvent, { onExcessProperty: "error" })

/** What a reader got: comments, and events that match the contract exactly. */
export const seen = (items: ReadonlyArray<ReaderItem>): ReadonlyArray<PlanEvent | "ping" | "reconnect"> =>
  items.map((item) =>
    typeof item === "string" ? item : decodeEvent({ event: item.event, data: JSON.parse(item.payload) as unknown })
  )

/** Reads a plan to its end. */
export const readAll = <E>(frames: Stream.Stream<ReaderItem, E>) => Effect.map(Stream.runCollect(frames), seen)

type Payloads = { readonly [Event in PlanEvent as Event["event"]]: Event["data"] }

const isNamed =
  <Name extends PlanEvent["event"]>(name: Name) =>
  (event: unknown): event is { readonly event: Name; readonly data: Payloads[Name] } =>
    Predicate.hasProperty(event, "event") && event.event === name

/** The payloads of all events of this name. */
export const all = <Name extends PlanEvent["event"]>(
  events: ReturnType<typeof seen>,
  name: Name
): ReadonlyArray<Payloads[Name]> => {
  const unknown: ReadonlyArray<unknown> = events
  return unknown.filter(isNamed(name)).map(({ data }) => data)
}

/** The payload of the only event of this name. */
export const single = <Name extends PlanEvent["event"]>(events: ReturnType<typeof seen>, name: Name) => {
  const [first, ...others] = all(events, name)
  if (first === undefined || others.length > 0) throw new Error(`Expected one event ${name}`)
  return first
}
