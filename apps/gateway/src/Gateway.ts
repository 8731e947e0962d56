import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
import * as A2aPeerClient from "@bowline/a2a/peer/A2aPeerClient"
import * as SdkConfiguredServers from "@bowline/mcp/server/SdkConfiguredServers"
import * as SdkMcpClient from "@bowline/mcp/server/SdkMcpClient"
import * as AnthropicProvider from "@bowline/provider-anthropic/provider/AnthropicProvider"
import * as OpenAiProvider from "@bowline/provider-openai/provider/OpenAiProvider"
import * as CallerTokens from "@bowline/runtime/unstable/auth/CallerTokens"
import { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import * as NamedModels from "@bowline/runtime/unstable/config/NamedModels"
import { Permissions } from "@bowline/runtime/unstable/config/Permissions"
import { defaultPreset, noPreset, type Preset, Presets } from "@bowline/runtime/unstable/config/Presets"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as FileFetch from "@bowline/runtime/unstable/file/FileFetch"
import * as FileLinks from "@bowline/runtime/unstable/file/FileLinks"
import { FilesConfig } from "@bowline/runtime/unstable/config/FilesConfig"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { ConfiguredServers } from "@bowline/runtime/unstable/remote/ConfiguredServers"
import * as PlannerText from "@bowline/runtime/prompt/PlannerText"
import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { Providers } from "@bowline/runtime/provider/Providers"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import * as Firings from "@bowline/runtime/unstable/schedule/Firings"
import { Schedules } from "@bowline/runtime/unstable/schedule/Schedules"
import * as GenAi from "@bowline/runtime/unstable/telemetry/GenAi"
import * as Instrument from "@bowline/runtime/unstable/telemetry/Instrument"
import * as Spans from "@bowline/runtime/unstable/telemetry/Spans"
import * as NodeChildProcessSpawner from "@effect/platform-node/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Effect, Layer, Option, Record, Redacted, References } from "effect"
import { HttpClient, HttpMiddleware, HttpServer } from "effect/http"
import { flushCompileCache } from "node:module"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { PushNotifications } from "./edge/a2a/PushNotifications.ts"
import * as ConfigReload from "./config/ConfigReload.ts"
import { demoProvider } from "./config/DemoMode.ts"
import * as S3Chunks from "./bucket/S3Chunks.ts"
import { GatewayConfig, settingsWithoutEffect } from "./config/GatewayConfig.ts"
import type { ProviderSettings } from "./config/file/ProviderSettings.ts"
import * as HttpGateway from "./route/HttpGateway.ts"
import { Targets } from "./push/Targets.ts"
import { Webhooks } from "./push/Webhooks.ts"
import * as FiringCallers from "./http/FiringCallers.ts"
import * as ListeningServer from "./http/ListeningServer.ts"
import * as Outbound from "./egress/Outbound.ts"
import * as PageFiles from "./page/PageFiles.ts"
import * as Log from "./telemetry/Log.ts"
import * as LookedUp from "./telemetry/LookedUp.ts"
import * as ProcessMetrics from "./telemetry/ProcessMetrics.ts"

type Config = GatewayConfig["Service"]

/** Connections of this process to a Postgres server. */
const maxConnections = 10

// Loaded only if needed: the embedded database alone costs more memory and time than everything else.
const SqlStore = Effect.promise(() => import("@bowline/storage-sql/SqlStore"))
const Demo = Effect.promise(() => import("./demo/Demo.ts"))
const DemoModel = Effect.promise(() => import("./demo/DemoModel.ts"))
const TokenIssuers = Effect.promise(() => import("./http/TokenIssuers.ts"))
const OidcProvider = Effect.promise(() => import("./http/OidcProvider.ts"))
const AccountDiscovery = Effect.promise(() => import("./http/AccountDiscovery.ts"))
const GrantedAccounts = Effect.promise(() => import("./http/GrantedAccounts.ts"))
const OtlpExport = Effect.promise(() => import("./telemetry/OtlpExport.ts"))

const storesOf = ({ database, eventsTtl, sessionTtl }: Config) => {
  const kept = { eventsTtl, sessionTtl }
  switch (database._tag) {
    case "Memory":
      return Layer.merge(MemoryStore.layerWith(kept), RateLimiter.layerStoreMemory)
    case "Embedded":
      return Layer.unwrap(
        Effect.map(SqlStore, ({ layerEmbedded }) => layerEmbedded({ dataDir: database.dataDir, ...kept }))
      )
    case "Postgres":
      return Layer.unwrap(
        Effect.map(SqlStore, ({ layerPostgres }) => layerPostgres({ url: database.url, maxConnections, ...kept }))
      )
  }
}

/** The stores, with the bytes of files in a bucket if the operator names one. */
const stores = (config: Config) =>
  config.fileBucket === undefined || config.database._tag === "Memory"
    ? storesOf(config)
    : Layer.provide(storesOf(config), S3Chunks.layer(config.fileBucket))

/** One adapter for each credential, or one adapter without a credential if the provider needs none. */
const adapters = ({ apiKeys, headers, wire, ...server }: ProviderSettings) => {
  const layer = wires[wire]
  const options = { ...server, headers: Record.map(headers, Redacted.value) }
  return apiKeys.length === 0 ? [layer(options)] : apiKeys.map((apiKey) => layer({ ...options, apiKey }))
}

const wires = {
  chat: OpenAiProvider.layerChat,
  responses: OpenAiProvider.layerResponses,
  messages: AnthropicProvider.layer
}

const providers = (config: Config) => {
  if (!isDemo(config)) return Providers.layer(config.providers.flatMap(adapters))
  const { isAlways, isSensitive } = config.plans.approvals
  const isForbidden = (tool: string) => isAlways(tool) || isSensitive(tool)
  return Layer.unwrap(Effect.map(DemoModel, ({ layer }) => Providers.layer([layer(demoProvider, isForbidden)])))
}

const isDemo = ({ providers }: Config): boolean => providers.length === 0

/** The names of the agents and the MCP servers that every plan may use. */
const ownNames = ({ mcpServers: { servers }, presets }: Config): ReadonlyArray<string> => [
  ...(presets.find(({ name }) => name === defaultPreset)?.agents ?? []).map(({ name }) => name),
  ...(servers.get(defaultPreset) ?? []).map(({ name }) => name)
]

const announcement = (config: Config) => {
  if (!isDemo(config)) return Layer.empty
  return Layer.unwrap(
    Effect.map(Demo, ({ announce, Demo }) =>
      Layer.effectDiscard(announce(config.callerKeys.length + config.issuers.length > 0, ownNames(config))).pipe(
        Layer.provide(Demo.layer)
      )
    )
  )
}

/** The operator's texts. The configuration has read both, so they can be read unless they went away since then. */
const texts = ({ texts: { plannerFile, recipes } }: Config) =>
  Layer.merge(
    RecipeFolder.layer(recipes),
    plannerFile === undefined ? Layer.empty : PlannerText.layerFile(plannerFile)
  ).pipe(Layer.orDie)

/** The MCP servers of the presets. The operator names them, so neither the egress rules nor the list of allowed variables hold for them. */
const mcpServers = ({ mcpServers: { environment, secrets, servers }, peerTls }: Config) =>
  servers.size === 0
    ? Layer.empty
    : SdkConfiguredServers.layer({ servers, environment }).pipe(
        Layer.provide([
          Outbound.layerAnywhere(peerTls),
          NodeChildProcessSpawner.layer.pipe(Layer.provide([NodeFileSystem.layer, NodePath.layer])),
          Layer.succeed(EnvironmentSecrets, secrets)
        ])
      )

const presets = (config: Config) => {
  const configured = Effect.map(ConfiguredServers, ({ ofPreset }): ReadonlyArray<Preset> =>
    config.presets.map((preset) => ({ ...preset, servers: ofPreset(preset.name) }))
  )
  const byName = (all: ReadonlyArray<Preset>) => new Map(all.map((preset) => [preset.name, preset]))
  if (!isDemo(config)) return Layer.effect(Presets, Effect.map(configured, byName))
  return Layer.unwrap(
    Effect.map(Demo, ({ Demo, preset }) =>
      Layer.effect(
        Presets,
        Effect.gen(function* () {
          const all = yield* configured
          return byName([yield* preset(all.find(({ name }) => name === defaultPreset) ?? noPreset), ...all])
        })
      ).pipe(Layer.provide(Demo.layer))
    )
  )
}

/** What finds the accounts that the configuration does not name. Servers name the places, so the egress rules hold. */
const discovery = (config: Config) =>
  config.accountsDiscovered
    ? Layer.provide(
        Layer.unwrap(Effect.map(AccountDiscovery, ({ layer }) => layer(config))),
        Outbound.layerWithin(config.egress, config.peerTls)
      )
    : Layer.empty

/** What callers have granted at accounts. The operator names the servers of those of the configuration, so the egress rules do not hold for them. */
const accounts = (config: Config) =>
  config.accounts.size === 0 && !config.accountsDiscovered
    ? Layer.empty
    : Layer.unwrap(Effect.map(GrantedAccounts, ({ layer }) => layer(config))).pipe(
        Layer.provide(Outbound.layerAnywhere(config.peerTls)),
        Layer.provide(discovery(config))
      )

/** The plans with their stores, providers, peers and MCP servers. */
const runtime = (config: Config, plans: typeof Plans.layer) =>
  plans.pipe(
    Layer.provideMerge(CredentialPool.layer),
    Layer.provideMerge(presets(config)),
    Layer.provideMerge(mcpServers(config)),
    Layer.provideMerge(
      Layer.provide(
        Layer.merge(A2aPeerClient.layer, SdkMcpClient.layer),
        Outbound.layerWithin(config.egress, config.peerTls)
      )
    ),
    Layer.provideMerge(accounts(config)),
    Layer.provideMerge(CallerTokens.layer),
    Layer.provideMerge(stores(config)),
    Layer.provide(Layer.provide(providers(config), Outbound.layer)),
    Layer.provideMerge(texts(config)),
    Layer.provide([
      Layer.succeed(PlansConfig, config.plans),
      Layer.succeed(EnvironmentSecrets, config.secrets),
      Layer.succeed(Permissions, config.permissions),
      Layer.succeed(SecretKey, config.secretKey)
    ])
  )

/** The notifications of clients, and webhooks. Callers name the places, so the egress rules hold. */
const push = (config: Config) =>
  Layer.merge(PushNotifications.layer, Webhooks.layer).pipe(
    Layer.provide(Targets.layer),
    Layer.provide([
      Outbound.layerWithin(config.egress, config.peerTls),
      Layer.succeed(SecretKey, config.secretKey),
      Layer.succeed(EnvironmentSecrets, config.secrets)
    ])
  )

/** What fetches the files that questions name. Callers name the places, so the egress rules hold. */
const fileFetch = (config: Config) =>
  Layer.effect(FileFetch.FileFetch, FileFetch.make).pipe(
    Layer.provide([Outbound.layerWithin(config.egress, config.peerTls), Layer.succeed(FilesConfig, config.fileLimits)])
  )

/** The schedules of callers, and what fires them. */
const schedules = ({ plans }: Config) =>
  Layer.merge(Schedules.layer, Layer.provide(Firings.layer, FiringCallers.layer)).pipe(
    Layer.provide(Layer.succeed(PlansConfig, plans))
  )

/**
 * Ends the plans while their callers are still connected. It is built on top of the server, so it closes first: the server
 * would cut the streams.
 */
const draining = Layer.effectDiscard(
  Effect.gen(function* () {
    const plans = yield* Plans
    const lastResponses = yield* ListeningServer.LastResponses
    yield* Effect.addFinalizer(() => Effect.all([Effect.logInfo("draining"), plans.drain, lastResponses]))
  })
)

/** Says which variables have no effect. */
const ineffective = (config: Config) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      for (const reason of settingsWithoutEffect(config)) {
        yield* Effect.annotateLogs(Effect.logWarning("setting_without_effect"), { reason })
      }
      const { serviceLinks } = config
      if (serviceLinks.length > 0) yield* Effect.logDebug(`Ignored service links: ${serviceLinks.join(", ")}`)
    })
  )

/**
 * Keeps what is compiled for the next start; Node.js does so by itself only when it ends in order. At once when the gateway
 * listens: the first time blocks the process for a quarter of a second, which no stream should feel.
 */
const compiled = Layer.effectDiscard(Effect.sync(flushCompileCache))

/** Says where the gateway is, to people first. */
const addresses = ({ consoleEnabled }: Config) =>
  Layer.effectDiscard(
    HttpServer.addressFormattedWith((url) =>
      Effect.andThen(
        consoleEnabled && PageFiles.isBuilt("console") ? Effect.logInfo(`The console is at ${url}/`) : Effect.void,
        Effect.logInfo(`Listening on ${url}`)
      )
    )
  )

/** What is measured besides the plans, and the series that can be shown before anything has happened. */
const metrics = Layer.mergeAll(ProcessMetrics.layer, LookedUp.layer, Layer.effectDiscard(Instrument.showAll))

/**
 * What nobody reads costs nothing: without a collector there are no spans. Those of Effect's own client and server are never recorded,
 * since they show every header, which may be a secret.
 */
const telemetry = ({ log: logged, telemetry: { content, exports, isLatest } }: Config) =>
  Layer.mergeAll(
    Option.match(exports, {
      onNone: () => Layer.succeed(References.TracerEnabled, false),
      onSome: (given) =>
        Layer.provide(
          Layer.unwrap(Effect.map(OtlpExport, ({ layer }) => layer(given, logged.level))),
          Outbound.layerOfTelemetry
        )
    }),
    Layer.succeed(Spans.Content, content),
    Layer.succeed(GenAi.Latest, isLatest),
    Layer.succeed(HttpClient.TracerDisabledWhen, () => true),
    Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)
  ).pipe(Layer.provideMerge(Log.layer(logged)))

/** What verifies tokens of identity providers. The operator names them, so the egress rules do not hold for them. */
const tokens = (config: Config) =>
  config.issuers.length === 0
    ? Layer.empty
    : Layer.mergeAll(
        Layer.unwrap(Effect.map(TokenIssuers, ({ layer }) => layer)),
        config.consoleOidc === undefined ? Layer.empty : Layer.unwrap(Effect.map(OidcProvider, ({ layer }) => layer))
      ).pipe(Layer.provide(Outbound.layerAnywhere(config.peerTls)))

/** The plans alone, for a command that runs some in its own process: nothing listens, and nothing of it is kept. */
export const local = (given: Config, plans: typeof Plans.layer = Plans.layer) => {
  const config: Config = { ...given, database: { _tag: "Memory" } }
  return runtime(config, plans).pipe(
    Layer.provide([Layer.succeed(GatewayIdentity, config.identity), Layer.succeed(FilesConfig, config.fileLimits)]),
    Layer.provide(NamedModels.layer(config.configuredModels)),
    // The plans run in fibers of the command, which has to log them as a gateway does.
    Layer.provideMerge(telemetry(config))
  )
}

/** The whole gateway, listening. With another planner its `plans` run that one. */
export const layer = (config: Config, plans: typeof Plans.layer = Plans.layer) =>
  Layer.mergeAll(draining, announcement(config), ineffective(config), compiled, metrics).pipe(
    Layer.provideMerge(Layer.provideMerge(addresses(config), HttpGateway.server)),
    Layer.provide(tokens(config)),
    Layer.provideMerge(ListeningServer.layer(config)),
    Layer.provideMerge(push(config)),
    Layer.provideMerge(schedules(config)),
    Layer.provideMerge(runtime(config, plans)),
    Layer.provide([
      Layer.succeed(GatewayConfig, config),
      Layer.succeed(GatewayIdentity, config.identity),
      Layer.succeed(FilesConfig, config.fileLimits),
      fileFetch(config),
      Layer.provide(FileLinks.layer(config.a2a.publicUrl), Layer.succeed(SecretKey, config.secretKey))
    ]),
    Layer.provide(NamedModels.layer(config.configuredModels)),
    // A SIGHUP that comes while the gateway starts is heeded, too.
    Layer.provide(ConfigReload.layer(config)),
    Layer.provide(telemetry(config))
  )
