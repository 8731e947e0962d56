import * as BinduIdentity from "@bowline/a2a/identity/BinduIdentity"
import type { Identity } from "@bowline/runtime/auth/GatewayIdentity"
import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { variablesOf } from "@bowline/domain/peer/Agent"
import { anonymous, type CallerName } from "@bowline/domain/caller/CallerName"
import type { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import type { Permissions } from "@bowline/runtime/unstable/config/Permissions"
import type { FileLimits } from "@bowline/runtime/unstable/config/FilesConfig"
import type { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import type { EgressPolicy } from "@bowline/runtime/unstable/egress/Egress"
import { Context, Duration, Effect, type LogLevel, Option, Redacted } from "effect"
import type { FileAccount } from "./file/AccountSchema.ts"
import type { ConfigFile } from "./file/ConfigFile.ts"
import type { FileS3 } from "./file/BucketSchema.ts"
import { type FileIssuer, issuerOf } from "./file/IssuerSchema.ts"
import type { PeerTls } from "./file/PeerTls.ts"
import * as ProviderSettings from "./file/ProviderSettings.ts"
import type { CallerKey } from "./setting/CallerKeys.ts"
import type { Place, Problem } from "./setting/ConfigProblem.ts"
import { InvalidConfiguration, isLoopback, isSet, placeOf, type Texts } from "./setting/ReadSettings.ts"
import type { SettingName, Values } from "./setting/Settings.ts"
import { isUnheeded } from "./setting/TelemetrySettings.ts"
import { type CommandLine, noCommandLine } from "./CommandLine.ts"
import { budgetsOf, effectsOf } from "./CallerRules.ts"
import { changeableOf, type Changeable, needRestart, read, type Reading } from "./ConfigReading.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import { type ConfiguredPreset, presetsOf } from "./ConfiguredPresets.ts"
import * as EffectiveConfig from "./EffectiveConfig.ts"
import { type TelemetryConfig, telemetryOf } from "./TelemetryConfig.ts"

/** Where plans and sessions are stored. */
export type Database =
  | { readonly _tag: "Memory" }
  | { readonly _tag: "Embedded"; readonly dataDir: string }
  | { readonly _tag: "Postgres"; readonly url: Redacted.Redacted }

const logLevels = {
  trace: "Trace",
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error",
  fatal: "Fatal",
  none: "None"
} as const

/** By which names the gateway may be called, and whose pages may call it. */
export interface EntryRules {
  /** Without any, loopback names only, unless any host is right. */
  readonly publicHosts: ReadonlyArray<string>
  /** Whether callers have to have a key: then no name of the gateway is wrong by itself. */
  readonly anyHost: boolean
  readonly corsOrigins: ReadonlyArray<string>
}

/** What bounds the connections of the gateway's server. */
export interface HttpLimits {
  readonly maxConnections: number
  readonly headersTimeout: Duration.Duration
  readonly requestTimeout: Duration.Duration
  readonly keepAliveTimeout: Duration.Duration
}

/** What came of another reading: what is wrong, or the keys whose change needs a restart. `apply` makes the rest hold. */
export interface Reread {
  readonly problems: ReadonlyArray<Problem>
  readonly needRestart: ReadonlyArray<string>
  readonly apply: () => void
}

/** An account as the file has it, with its client. */
export interface ConfiguredAccount extends Omit<
  FileAccount,
  "client_id" | "client_metadata_url" | "client_secret_env_var"
> {
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted | undefined
}

/** Everything that an operator configures, see `docs/reference/configuration.md`. */
export class GatewayConfig extends Context.Service<
  GatewayConfig,
  {
    readonly host: string
    readonly port: number
    /** How many processes serve the port. */
    readonly workers: number
    readonly http: HttpLimits
    /** Whose pages and which names of the gateway a request may come from and go to. */
    readonly entry: EntryRules
    /** How many requests a caller may make in this time. */
    readonly rateLimit: readonly [requests: number, window: Duration.Duration] | undefined
    /** Without any the gateway is open. */
    readonly callerKeys: ReadonlyArray<CallerKey>
    /** Whose tokens are good. */
    readonly issuers: ConfigFile["issuers"]
    readonly isAdmin: (caller: CallerName) => boolean
    /** Whether the metrics need no key. */
    readonly hasPublicMetrics: boolean
    readonly database: Database
    /** The planner's providers: none in the demo. */
    readonly providers: ReadonlyArray<ProviderSettings.ProviderSettings>
    readonly plans: PlansConfig["Service"]
    /** The operator's texts for the system prompt. */
    readonly texts: Reading["texts"]
    /** The variables that a request's `env_var` may name, and those that the agents of presets do. */
    readonly secrets: typeof EnvironmentSecrets.Service
    /** Who may use which tools, hosts, models and recipes. */
    readonly permissions: typeof Permissions.Service
    /** Encrypts the secrets of running plans. */
    readonly secretKey: Option.Option<Redacted.Redacted<Uint8Array>>
    /** The gateway's identity towards its peers. */
    readonly identity: Option.Option<Identity>
    /** Which hosts and addresses callers may make the gateway connect to. */
    readonly egress: EgressPolicy
    /** Certificates and authorities for connections to peers, as they are now. */
    readonly peerTls: () => PeerTls
    /** What plans get besides what their requests name. */
    readonly presets: ReadonlyArray<ConfiguredPreset>
    /** The MCP servers of the presets, by their names. */
    readonly mcpServers: {
      readonly servers: ReadonlyMap<string, ReadonlyArray<ConfiguredMcpServer>>
      /** The variables that their processes get besides their own. */
      readonly environment: Readonly<Record<string, string>>
      /** The variables that their `auth` may name: all, since the operator names them. */
      readonly secrets: typeof EnvironmentSecrets.Service
    }
    /** The models that the configuration names, as `provider/model`. */
    readonly configuredModels: ReadonlySet<string>
    /** How streams of Chat Completions show tools, and text that is taken back. */
    readonly openai: { readonly showsProgress: boolean; readonly onRetract: Values["openaiOnRetract"] }
    /** Whether the web console is shown. */
    readonly consoleEnabled: boolean
    /** With which identity provider people log in to it. */
    readonly consoleOidc:
      | {
          readonly issuer: FileIssuer
          readonly clientId: string
          readonly clientSecret: Redacted.Redacted | undefined
        }
      | undefined
    /** Where callers let the gateway act as them, by name. */
    readonly accounts: ReadonlyMap<string, ConfiguredAccount>
    /** Whether agents and MCP servers may have accounts of their own, which they name. */
    readonly accountsDiscovered: boolean
    readonly a2a: { readonly publicUrl: string | undefined; readonly hasPush: boolean }
    /** The largest body of a request, in bytes. */
    readonly maxBody: number
    readonly fileLimits: FileLimits
    /** Where the bytes of files are, if not in the database. */
    readonly fileBucket: FileS3 | undefined
    readonly sessionTtl: Duration.Duration
    /** How long the events of a plan are kept after its end. */
    readonly eventsTtl: Duration.Duration
    readonly log: { readonly level: LogLevel.LogLevel; readonly format: "json" | "pretty" }
    readonly telemetry: TelemetryConfig
    /** Where a setting is set, or would be. */
    readonly placeOf: (name: SettingName) => Place
    /** Reads everything again. What may change holds from then on, in `plans` and `permissions`, too; if anything is wrong, nothing changes. */
    readonly reread: Effect.Effect<Reread>
    /** The files that `reread` reads, after the last reading. */
    readonly files: () => ReadonlyArray<string>
    /** The whole configuration for people to read, without secrets. */
    readonly effective: object
    /** Variables that are set, but that this version does not honour. */
    readonly ignored: ReadonlyArray<string>
    /** Variables that are set, but that another variable wins over. */
    readonly overruled: ReadonlyArray<string>
    /** Variables that Kubernetes has set, and that mean nothing here. */
    readonly serviceLinks: ReadonlyArray<string>
  }
>()("@bowline/gateway/config/GatewayConfig") {}

const databaseOf = ({ databaseUrl, dataDir }: Values): Database => {
  if (databaseUrl !== undefined) return { _tag: "Postgres", url: databaseUrl }
  return dataDir === "memory:" ? { _tag: "Memory" } : { _tag: "Embedded", dataDir }
}

/** How long events are kept, unless it is set. */
const usualEventsTtl = Duration.days(30)

/** What a caller may ask who has a key. On an open gateway there is one caller, the person at the machine. */
const usualRate = [600, Duration.minutes(1)] as const

/** The gateway's identity, if all three settings are set. */
const identityOf = ({ didAuthor: author, didName: name, didSeed: seed }: Values) =>
  seed === undefined || author === undefined || name === undefined
    ? Option.none()
    : Option.some(BinduIdentity.fromSeed({ seed, author, name }))

/** Requests may name the variables that are allowed, and nothing gets others, but for those that the operator names. */
const secretsOf = (
  isAllowed: (name: string) => boolean,
  environment: Texts,
  named: ReadonlySet<string> = new Set()
): typeof EnvironmentSecrets.Service => ({
  isAllowed,
  get: (name) => {
    const value = isAllowed(name) || named.has(name) ? environment[name] : undefined
    return Effect.succeed(Option.map(Option.fromNullishOr(value), Redacted.make))
  }
})

/** The variables that the agents of presets and the webhooks name. */
const variablesOfFile = ({ presets, webhooks: ofAll }: ConfigFile): ReadonlySet<string> =>
  new Set([
    ...presets.flatMap(({ agents }) => agents.flatMap(({ auth }) => variablesOf(auth).map(([, name]) => name))),
    ...[...ofAll, ...presets.flatMap(({ webhooks }) => webhooks)].flatMap(({ secret_env_var = [] }) => secret_env_var)
  ])

/** What a process needs to find programs and files, and to write in the operator's language. It contains no key of a provider. */
const inherited = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"]

const mcpServersOf = ({ presets }: ConfigFile, environment: Texts) => ({
  servers: new Map(presets.flatMap(({ name, servers }) => (servers.length === 0 ? [] : [[name, servers] as const]))),
  environment: Object.fromEntries(
    inherited.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]] as const]))
  ),
  secrets: secretsOf(() => true, environment)
})

const oidcOf = ({ issuers, oidc }: ConfigFile, environment: Texts) => {
  const issuer = oidc && issuerOf(oidc, issuers)
  if (issuer === undefined) return undefined
  const secret = environment[oidc?.client_secret_env_var ?? ""]
  return {
    issuer,
    clientId: oidc?.client_id ?? "",
    clientSecret: secret === undefined ? undefined : Redacted.make(secret)
  }
}

const accountsOf = ({ accounts }: ConfigFile, environment: Texts): ReadonlyMap<string, ConfiguredAccount> =>
  new Map(
    Object.entries(accounts).map(([name, { client_id, client_metadata_url, client_secret_env_var, ...account }]) => {
      const secret = environment[client_secret_env_var ?? ""]
      const clientSecret = secret === undefined ? undefined : Redacted.make(secret)
      return [name, { ...account, clientId: client_id ?? client_metadata_url ?? "", clientSecret }]
    })
  )

const plansOf = ({ file, models, sources, values }: Reading, changeable: () => Changeable): PlansConfig["Service"] => ({
  model: models.model,
  fallbackModels: models.fallbackModels,
  summaryModel: models.summaryModel,
  allowsModel: (model) => changeable().allowsModel(model),
  models: () => changeable().models,
  providerTimers: ProviderSettings.timersOf(file.providers, sources),
  maxPlans: values.maxPlans,
  maxQueue: values.maxQueue,
  leaseTtl: values.leaseTtl,
  shutdownGrace: values.shutdownGrace,
  resume: values.resume,
  streamGrace: values.streamGrace,
  takeoverGrace: values.takeoverGrace,
  parkAfter: values.parkAfter,
  scheduleMin: values.scheduleMin,
  contextWindow: values.contextWindow,
  firstTokenTimeout: values.firstTokenTimeout,
  idleTimeout: values.idleTimeout,
  attemptTimeout: values.attemptTimeout,
  retryBase: values.retryBase,
  maxRetries: values.maxRetries,
  toolConcurrency: values.toolConcurrency,
  declareAtMost: values.declareAtMost,
  toolTimeout: values.toolTimeout,
  budgetOf: budgetsOf(file),
  unknownPrice: values.unknownPrice,
  effectOf: effectsOf(file),
  webhooks: file.webhooks,
  loop: { failures: values.loopFailures, repeats: values.loopRepeats, pairs: values.loopPairs },
  approvals: {
    isAlways: ConfiguredModels.anyOf(values.approvedTools),
    isSensitive: ConfiguredModels.anyOf(values.sensitiveTools)
  }
})

/** Reads the command line, the environment and the file. Fails with every problem of all three, but for those that may only follow from another. */
export const fromEnvironment = Effect.fnUntraced(function* (
  environment: Texts,
  isTerminal: boolean,
  given: Partial<CommandLine> = {}
) {
  const commandLine = { ...noCommandLine, ...given }
  const started = yield* read(environment, commandLine)
  const { file, links, models, problems, providers, sources, texts, values } = started
  if (problems.length > 0) return yield* new InvalidConfiguration({ problems })
  let current = changeableOf(started, file)
  let { files, name } = file
  const reread = Effect.map(read(environment, commandLine), (now): Reread => {
    files = now.file.files
    const isGone = name !== "" && now.file.name === "" && now.problems.length === 0
    const gone: Problem = { place: { _tag: "File", file: name, path: [] }, expected: "The file is gone" }
    return {
      problems: isGone ? [gone] : now.problems,
      needRestart: needRestart(started, now),
      apply: () => {
        name = now.file.name
        current = changeableOf(started, now.file)
      }
    }
  })
  const { adminCallers, apiKeys, host, logFormat = isTerminal ? "pretty" : "json" } = values
  const isOpen = apiKeys.length === 0 && file.issuers.length === 0
  return GatewayConfig.of({
    host,
    port: values.port,
    workers: values.workers,
    http: {
      maxConnections: values.maxConnections,
      headersTimeout: values.headersTimeout,
      requestTimeout: values.requestTimeout,
      keepAliveTimeout: values.keepAliveTimeout
    },
    entry: { publicHosts: values.publicHosts, anyHost: !isOpen, corsOrigins: values.corsOrigins },
    rateLimit: values.rateLimit ?? (isOpen ? undefined : usualRate),
    callerKeys: apiKeys,
    issuers: file.issuers,
    isAdmin: (caller) => adminCallers?.includes(caller) ?? (isOpen && caller === anonymous),
    hasPublicMetrics: values.publicMetrics,
    database: databaseOf(values),
    providers,
    plans: plansOf(started, () => current),
    texts,
    secrets: secretsOf(ConfiguredModels.anyOf(values.envAllow), environment, variablesOfFile(file)),
    permissions: { forCaller: (caller, groups) => current.permissions.forCaller(caller, groups) },
    secretKey: Option.fromNullishOr(values.secretKey),
    identity: identityOf(values),
    egress: { allow: values.egressAllow, deny: values.egressDeny, allowsLocal: isLoopback(host) },
    peerTls: () => current.peerTls,
    presets: presetsOf(file),
    mcpServers: mcpServersOf(file, environment),
    configuredModels: models.configured,
    openai: { showsProgress: values.openaiProgress === "text", onRetract: values.openaiOnRetract },
    consoleEnabled: values.consoleEnabled,
    consoleOidc: values.consoleEnabled ? oidcOf(file, environment) : undefined,
    accounts: accountsOf(file, environment),
    accountsDiscovered: file.accountsDiscovered,
    a2a: { publicUrl: values.publicUrl, hasPush: values.pushNotifications },
    maxBody: values.maxBody,
    fileLimits: {
      maxFile: values.maxFile,
      sessionQuota: values.sessionQuota,
      callerQuota: values.callerQuota,
      ttl: values.filesTtl
    },
    fileBucket: file.s3,
    sessionTtl: values.sessionTtl,
    eventsTtl: values.eventsTtl ?? Duration.min(usualEventsTtl, values.sessionTtl),
    log: { level: logLevels[values.logLevel], format: logFormat },
    telemetry: telemetryOf(values),
    placeOf: (name) => placeOf(sources, name),
    reread,
    files: () => files,
    effective: EffectiveConfig.describe(values, sources, providers, file),
    ignored: Object.keys(environment).filter((name) => isUnheeded(name) && isSet(environment[name])),
    overruled: ProviderSettings.overruled(sources),
    serviceLinks: links
  })
})

/** Reads the configuration of this process. */
export const fromProcess = (commandLine: Partial<CommandLine> = {}) =>
  Effect.suspend(() => fromEnvironment(process.env, process.stderr.isTTY, commandLine))

const line = (names: ReadonlyArray<string>, what: string): ReadonlyArray<string> =>
  names.length === 0 ? [] : [`Set, and ${what}: ${names.join(", ")}`]

/** The variables that are set and have no effect: one line for each reason why they have none. */
export const settingsWithoutEffect = ({
  database,
  fileBucket,
  ignored,
  overruled
}: Pick<GatewayConfig["Service"], "database" | "fileBucket" | "ignored" | "overruled">): ReadonlyArray<string> => [
  ...line(ignored, "not honoured by this version"),
  ...line(overruled, "another variable wins over it"),
  ...line(
    database._tag === "Memory" && fileBucket !== undefined ? ["files.s3"] : [],
    "with BOWLINE_DATA_DIR=memory: files are in the memory of the process"
  )
]
