import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { EgressPolicy } from "@bowline/runtime/egress/Egress"
import type { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import { defaultLoopLimits, type PlansConfig } from "@bowline/runtime/config/PlansConfig"
import type { Identity } from "@bowline/a2a/identity/GatewayIdentity"
import { ConfigProvider, Context, type Duration, Effect, type LogLevel, Option, Redacted, Result } from "effect"
import type { CallerKey } from "../setting/CallerKeys.ts"
import * as ConfigFile from "../file/ConfigFile.ts"
import * as EffectiveConfig from "./EffectiveConfig.ts"
import * as IdentitySettings from "../setting/IdentitySettings.ts"
import * as ModelSettings from "../file/ModelSettings.ts"
import type { PeerTls } from "../file/PeerTls.ts"
import * as ProviderSettings from "../file/ProviderSettings.ts"
import { InvalidConfiguration, isLoopback, readSettings } from "../setting/Settings.ts"
import { type Environment, merge } from "./Sources.ts"

/** Where plans and sessions are kept. */
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

/** All that an operator sets. The variables are those of `docs/reference/configuration.md`. */
export class GatewayConfig extends Context.Service<
  GatewayConfig,
  {
    readonly host: string
    readonly port: number
    /** None: the gateway is open. */
    readonly callerKeys: ReadonlyArray<CallerKey>
    readonly isAdmin: (caller: CallerName) => boolean
    readonly database: Database
    /** Who answers the planner. Without any the gateway runs its demo. */
    readonly providers: ReadonlyArray<ProviderSettings.ProviderSettings>
    readonly plans: PlansConfig["Service"]
    /** What a request's `env_var` may name. */
    readonly secrets: typeof EnvironmentSecrets.Service
    /** What it encrypts the secrets of running plans with. */
    readonly secretKey: Option.Option<Redacted.Redacted<Uint8Array>>
    /** Who it is to its peers. */
    readonly identity: Option.Option<Identity>
    /** Where callers may make it connect to. */
    readonly egress: EgressPolicy
    /** What it shows to peers, and believes of them. */
    readonly peerTls: PeerTls
    /** As `provider/model`: those that the configuration itself names. */
    readonly configuredModels: ReadonlySet<string>
    /** Of the body of a request, in bytes. */
    readonly maxBody: number
    readonly sessionTtl: Duration.Duration
    readonly log: { readonly level: LogLevel.LogLevel; readonly format: "json" | "pretty" }
    /** All of it, as people read it: without secrets. */
    readonly effective: object
    /** Variables that are set, and that this version does not honour. */
    readonly ignored: ReadonlyArray<string>
    /** Variables that are set, and that others win over. */
    readonly overruled: ReadonlyArray<string>
  }
>()("@bowline/gateway/config/GatewayConfig") {}

/** Reads an environment, and the file that it names or that is there. Fails with every problem of both at once. */
export const fromEnvironment = (environment: Environment, isTerminal: boolean) =>
  Effect.gen(function* () {
    const file = yield* ConfigFile.load((name) => environment[name])
    const { isSet, label, variables } = merge(environment, file)
    const { values, ignored } = yield* readSettings(Object.keys(environment), file.problems, label).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables))
    )
    const { DATABASE_URL, BOWLINE_DATA_DIR, BOWLINE_FALLBACK_MODELS: fallbackModels } = values
    const summaryModel = values.BOWLINE_SUMMARY_MODEL
    const { BOWLINE_API_KEYS: callerKeys, BOWLINE_ADMIN_CALLERS: admins } = values
    const isAllowed = values.BOWLINE_ENV_ALLOW
    const providers = ProviderSettings.fromValues(values, file.providers)
    const model = values.BOWLINE_MODEL ?? providers[0]?.defaultModel ?? "openai/demo"
    const configuredModels = new Set([model, ...fallbackModels, ...file.providers.flatMap(ProviderSettings.modelsOf)])
    const isNamed = values.BOWLINE_ALLOWED_MODELS ?? ((name: string) => configuredModels.has(name))
    const names: ReadonlyArray<string> = providers.length === 0 ? ["openai"] : providers.map(({ name }) => name)
    const isOffered = (name: string) =>
      names.some((provider) => name.length > provider.length + 1 && name.startsWith(`${provider}/`))
    const identity = IdentitySettings.fromValues(values)
    const misnamed = [
      ...(isOffered(model) ? [] : ["BOWLINE_MODEL"]),
      ...(fallbackModels.every(isOffered) ? [] : ["BOWLINE_FALLBACK_MODELS"]),
      ...(summaryModel === undefined || isOffered(summaryModel) ? [] : ["BOWLINE_SUMMARY_MODEL"])
    ].map((name) => `${name}: Expected models of a provider that is configured: ${names.join(", ")}`)
    const problems = [...misnamed, ...(Result.isFailure(identity) ? identity.failure : [])].map(label)
    if (problems.length > 0) return yield* new InvalidConfiguration({ problems })
    return GatewayConfig.of({
      host: values.BOWLINE_HOST,
      port: values.BOWLINE_PORT,
      callerKeys,
      isAdmin: (caller) => admins?.has(caller) ?? callerKeys.length === 0,
      database:
        DATABASE_URL !== undefined
          ? { _tag: "Postgres", url: DATABASE_URL }
          : BOWLINE_DATA_DIR === "memory:"
            ? { _tag: "Memory" }
            : { _tag: "Embedded", dataDir: BOWLINE_DATA_DIR },
      providers,
      plans: {
        model,
        fallbackModels,
        summaryModel,
        allowsModel: (name) => isOffered(name) && isNamed(name),
        models: ModelSettings.fromFile(file.models, file.providers),
        providerTimers: ProviderSettings.timersOf(file.providers, isSet),
        maxPlans: values.BOWLINE_MAX_PLANS,
        leaseTtl: values.BOWLINE_LEASE_TTL,
        shutdownGrace: values.BOWLINE_SHUTDOWN_GRACE,
        resume: values["plans.resume"],
        streamGrace: values["streams.grace"],
        takeoverGrace: values["streams.takeover_grace"],
        contextWindow: values.BOWLINE_CONTEXT_WINDOW,
        firstTokenTimeout: values.BOWLINE_FIRST_TOKEN_TIMEOUT,
        idleTimeout: values.BOWLINE_IDLE_TIMEOUT,
        attemptTimeout: values.BOWLINE_ATTEMPT_TIMEOUT,
        retryBase: values.BOWLINE_RETRY_BASE,
        maxRetries: values.BOWLINE_MAX_RETRIES,
        loop: defaultLoopLimits
      },
      secrets: {
        isAllowed,
        get: (name) =>
          Effect.succeed(
            Option.map(Option.fromNullishOr(isAllowed(name) ? environment[name] : undefined), Redacted.make)
          )
      },
      secretKey: Option.fromNullishOr(values.BOWLINE_SECRET_KEY),
      identity: Result.getOrElse(identity, Option.none),
      egress: {
        allow: values.BOWLINE_EGRESS_ALLOW,
        deny: values.BOWLINE_EGRESS_DENY,
        allowsLocal: isLoopback(values.BOWLINE_HOST)
      },
      peerTls: file.peerTls,
      configuredModels: summaryModel === undefined ? configuredModels : configuredModels.union(new Set([summaryModel])),
      maxBody: values.BOWLINE_MAX_BODY,
      sessionTtl: values.BOWLINE_SESSION_TTL,
      log: { level: logLevels[values.LOG_LEVEL], format: values.LOG_FORMAT ?? (isTerminal ? "pretty" : "json") },
      effective: EffectiveConfig.describe(values, variables, providers, file),
      ignored,
      overruled: ProviderSettings.overruled(values)
    })
  })

/** The environment of this process; `flags` of the command line win over its variables. */
export const fromProcess = (flags: Environment) =>
  Effect.suspend(() => fromEnvironment({ ...process.env, ...flags }, process.stderr.isTTY))
