import * as A2aPeerClient from "@bowline/a2a/peer/A2aPeerClient"
import * as AnthropicProvider from "@bowline/provider-anthropic/provider/AnthropicProvider"
import * as SdkMcpClient from "@bowline/mcp/server/SdkMcpClient"
import * as OpenAiProvider from "@bowline/provider-openai/provider/OpenAiProvider"
import { PlanId } from "@bowline/domain/plan/Plan"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import type { McpClient } from "@bowline/runtime/remote/McpClient"
import type { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Providers } from "@bowline/runtime/provider/Providers"
import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import type { PgClient } from "@effect/sql-pg/PgClient"
import { Cause, Context, Effect, Exit, Layer, Redacted, Scope } from "effect"
import { HttpClient } from "effect/http"
import type { Database, Stores } from "../world/Database.ts"
import * as ReplicaClient from "./ReplicaClient.ts"
import { Link } from "../world/Link.ts"
import { across, Process } from "../process/Process.ts"
import * as Tools from "../world/Tools.ts"
import type { Wires } from "../world/Wires.ts"
import type { Open, World } from "../world/World.ts"
import type { ObservedReplica } from "../scenario/Observed.ts"

/** Where the providers are. */
export const providerUrls = {
  openai: "http://openai.test",
  anthropic: "http://anthropic.test",
  responses: "http://responses.test"
} as const

/** A model for each wire. Only the first one, and where it fails the second one, answer what names no model. */
export const models = ["openai/sim", "anthropic/sim", "responses/sim"] as const

/** What every replica is configured with, besides what is given. A few long questions fill the window of its models. */
export const configOf = (given: Partial<PlansConfig["Service"]>): PlansConfig["Service"] => {
  const layer = PlansConfig.layer({
    model: models[0],
    fallbackModels: [models[1]],
    allowsModel: () => true,
    contextWindow: 8_000,
    // Its rules know when a plan ends by its deadline alone.
    parkAfter: undefined,
    // Nobody delivers what it is told: it is looked at in the store.
    webhooks: [{ url: "http://hook.test/" }],
    ...given
  })
  return Context.get(Effect.runSync(Effect.scoped(Layer.build(layer))), PlansConfig)
}

/** What the graph of a replica brings. */
export type Inside =
  | Layer.Success<typeof Plans.layer>
  | CredentialPool
  | PeerClient
  | McpClient
  | HttpClient.HttpClient
  | Stores

/** How callers reach a replica, on its graph. */
export type MakeReplicaClient = (site: ReplicaClient.Site) => Layer.Layer<ReplicaClient.ReplicaClient, never, Inside>

/** What a test puts in the place of parts of every replica. */
export interface Overrides {
  /** Wraps the stores as one replica sees them, in front of what happens to its connection. */
  readonly stores?: (stores: Context.Context<Stores>, replica: string) => Context.Context<Stores>
  /** Wraps the HTTP client of every replica. */
  readonly network?: (client: HttpClient.HttpClient) => HttpClient.HttpClient
  /** Wraps the client of the database that all replicas share, where the store is `pglite`. */
  readonly sqlClient?: (client: PgClient) => PgClient
  /** What every replica is configured with, though the rules expect what is configured. */
  readonly config?: Partial<PlansConfig["Service"]>
  /** In the place of `Plans.layer`. */
  readonly plans?: typeof Plans.layer
}

export interface Surroundings {
  readonly world: World
  readonly wires: Wires
  readonly database: Database
  readonly config: PlansConfig["Service"]
  readonly overrides: Overrides
  readonly client: MakeReplicaClient
  /** The local tools of every replica: each builds its own. */
  readonly tools: Layer.Layer<never>
}

/** One process of the gateway: the real graph, on the store and the network of the world. */
export class Replica {
  readonly name: string
  readonly process: Process
  readonly link: Link
  /** What resets the connections of callers: see `Site`. */
  readonly connections = new Set<() => void>()
  readonly observed: Open<ObservedReplica>
  /** Undefined until it has started. */
  client: ReplicaClient.ReplicaClient["Service"] | undefined
  readonly #world: World
  readonly #scope = Scope.makeUnsafe()
  #drain: Effect.Effect<void> = Effect.void

  /** `failed` is called when it could not start, and has ended. */
  constructor(
    name: string,
    { config, database, client, overrides, tools, wires, world }: Surroundings,
    failed: () => void
  ) {
    this.name = name
    this.#world = world
    this.process = new Process(name, world.loop, world.random.of(name), (line, plan) =>
      world.tell(name, plan === "" ? "" : database.nameOf(PlanId.make(plan)), line)
    )
    this.link = new Link(world, this.process)
    this.observed = {
      replica: name,
      started: world.moment(),
      ended: undefined,
      pauses: [],
      cutOff: [],
      deaf: []
    }
    world.replicas.push(this.observed)
    database.board.links.add(this.link)
    this.process.onKill(() => {
      if (this.observed.ended === undefined) {
        this.observed.ended = { ...world.moment(), how: "killed" }
        world.tell(name, "", "is killed")
      }
      database.board.links.delete(this.link)
      for (const call of world.calls) if (call.replica === name && call.ended === undefined) call.ended = world.moment()
    })
    const stores = database.of(name, this.link)
    const wire = wires.clientOf(this.process)
    const http = overrides.network?.(wire) ?? wire
    const graph = client({ process: this.process, world, connections: this.connections }).pipe(
      Layer.provideMerge(overrides.plans ?? Plans.layer),
      Layer.provideMerge(CredentialPool.layer),
      Layer.provide([
        Providers.layer(adapters),
        Layer.succeed(PlansConfig, { ...config, ...overrides.config }),
        Layer.effect(
          LocalTools,
          Effect.gen(function* () {
            return (yield* LocalTools).map((tool) => Tools.noted(world, database, name, tool))
          })
        ).pipe(Layer.provide(tools))
      ]),
      Layer.provideMerge(Layer.merge(A2aPeerClient.layer, SdkMcpClient.layer)),
      Layer.provideMerge(Layer.succeed(HttpClient.HttpClient, http)),
      Layer.provideMerge(Layer.succeedContext(overrides.stores?.(stores, name) ?? stores))
    )
    this.process.fork(
      Effect.matchCause(Layer.buildWithScope(graph, this.#scope), {
        onFailure: (cause) => {
          world.tell(name, "", `did not start: ${String(Cause.squash(cause))}`)
          this.process.kill()
          failed()
        },
        onSuccess: (context) => {
          this.client = Context.get(context, ReplicaClient.ReplicaClient)
          this.#drain = Context.get(context, Plans).drain
          world.tell(name, "", "is up")
        }
      })
    )
    world.tell(name, "", "starts")
  }

  get isUp(): boolean {
    return this.process.isAlive && this.client !== undefined && this.observed.ended === undefined
  }

  /** Shuts it down in order, as on SIGTERM. */
  drain(): Effect.Effect<void> {
    const closing = Effect.suspend(() => this.#drain).pipe(Effect.andThen(Scope.close(this.#scope, Exit.void)))
    return Effect.map(across(this.#world.process, this.process, closing, Effect.void), () => {
      if (!this.process.isAlive) return
      this.observed.ended = { ...this.#world.moment(), how: "drained" }
      this.#world.tell(this.name, "", "has shut down")
      this.process.kill()
    })
  }
}

const adapters = [
  ...["key-1", "key-2"].map((key) =>
    OpenAiProvider.layerChat({ baseUrl: `${providerUrls.openai}/v1`, apiKey: Redacted.make(key) })
  ),
  AnthropicProvider.layer({ baseUrl: providerUrls.anthropic, apiKey: Redacted.make("key-1") }),
  OpenAiProvider.layerResponses({
    name: "responses",
    baseUrl: `${providerUrls.responses}/v1`,
    apiKey: Redacted.make("key-1")
  })
]
