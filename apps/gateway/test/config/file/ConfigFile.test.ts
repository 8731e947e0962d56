import { CallerName } from "@bowline/domain/caller/CallerName"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option, Redacted } from "effect"
import { load, problems } from "./ConfigFolder.ts"

const everything = `
server:
  host: 0.0.0.0
  port: 0
  api_keys: { ann: [one==, "$KEY"], bob: "\${KEY}-of-bob" }   # a comment
  admin_callers: [ann]
  max_body: 512KiB
  env_allow: [PEER_*, OTHER]
  shutdown_grace: 0s
database:
  url: postgres://user:$PASSWORD@host/db
sessions: { ttl: 7d, lease_ttl: 1.5s, max_queue: 4 }
plans:
  model: openai/gpt-5
  fallback_models: [local/one, openai/gpt-5-mini]
  summary_model: openai/gpt-5-nano
  allowed_models: openai/gpt-*
  max_plans: 3
  context_window: 32768
  first_token_timeout: 90s
  idle_timeout: 500ms
  attempt_timeout: 2m
  max_retries: 0
  retry_base: 20ms
  resume: false
  secret_key: $SECRET_KEY
streams: { grace: 5s, takeover_grace: 0s }
egress: { allow: ["*.example", 10.0.0.0/8], deny: peer.example }
identity: { seed: "$SEED", author: ann@example.com, name: gate }
log: { level: warn, format: pretty }
providers:
  - name: openai
    api_keys: [$KEY, other]
  - name: local
    wire: anthropic-messages
    base_url: http://127.0.0.1:9/
    headers: { x-tenant: $TENANT }
    models: { one: { context_window: 1000 } }
    timeouts: { first_token: 3s, idle: 2s, attempt: 1m }
models:
  gpt-5: { context_window: 200000, output_limit: 1000, reasoning: false, refuses: [stop], structured_output: false, price: { input: 1, cached: 0.5, output: 2 } }
`

const SECRET_KEY = Buffer.alloc(32, 7).toString("base64")
const variables = { KEY: "key", PASSWORD: "secret", TENANT: "acme", SEED: "00".repeat(32), SECRET_KEY }

describe("the configuration file", () => {
  it.effect("says all that the environment can say, and more", () =>
    Effect.gen(function* () {
      const config = yield* load("all.yaml", everything, variables)
      assert.deepStrictEqual(
        config.callerKeys.map(({ key, name }) => [name, Redacted.value(key)]),
        [
          ["ann", "one=="],
          ["ann", "key"],
          ["bob", "key-of-bob"]
        ]
      )
      const { database, plans, providers } = config
      assert.deepStrictEqual(
        [config.host, config.port, config.maxBody, config.isAdmin(CallerName.make("bob"))],
        ["0.0.0.0", 0, 524_288, false]
      )
      assert.deepStrictEqual(
        database._tag === "Postgres" && Redacted.value(database.url),
        "postgres://user:secret@host/db"
      )
      assert.deepStrictEqual([plans.model, plans.fallbackModels], ["openai/gpt-5", ["local/one", "openai/gpt-5-mini"]])
      assert.strictEqual(plans.summaryModel, "openai/gpt-5-nano")
      assert.deepStrictEqual([plans.maxPlans, plans.maxQueue, plans.contextWindow, plans.maxRetries], [3, 4, 32_768, 0])
      assert.deepStrictEqual(
        [
          plans.firstTokenTimeout,
          plans.idleTimeout,
          plans.attemptTimeout,
          plans.retryBase,
          plans.leaseTtl,
          plans.shutdownGrace,
          plans.streamGrace,
          plans.takeoverGrace,
          config.sessionTtl
        ].map((duration) => duration && Duration.toMillis(duration)),
        [90_000, 500, 120_000, 20, 1_500, 0, 5_000, 0, 604_800_000]
      )
      assert.isFalse(plans.resume)
      assert.deepStrictEqual(Option.map(config.secretKey, Redacted.value), Option.some(new Uint8Array(32).fill(7)))
      assert.deepStrictEqual(["openai/gpt-4", "local/one"].map(plans.allowsModel), [true, false])
      assert.deepStrictEqual(["PEER_A", "PATH", "OTHER"].map(config.secrets.isAllowed), [true, false, true])
      assert.deepStrictEqual([config.egress.allow.length, config.egress.deny.length], [2, 1])
      assert.strictEqual(config.identity._tag, "Some")
      assert.deepStrictEqual(config.log, { level: "Warn", format: "pretty" })
      assert.deepStrictEqual(
        providers.map(({ apiKeys, baseUrl, name, wire }) => [name, wire, baseUrl, apiKeys.map(Redacted.value)]),
        [
          ["openai", "responses", "https://api.openai.com/v1", ["key", "other"]],
          ["local", "messages", "http://127.0.0.1:9/", []]
        ]
      )
      assert.deepStrictEqual(providers[1]?.headers, { "x-tenant": Redacted.make("acme") })
      assert.deepStrictEqual(plans.providerTimers.get("local"), {
        firstToken: Duration.seconds(3),
        idle: Duration.seconds(2),
        total: Duration.minutes(1)
      })
      assert.deepStrictEqual(plans.models().exact.get("local/one"), { contextWindow: 1_000 })
      assert.deepStrictEqual(plans.models().named.get("gpt-5"), {
        contextWindow: 200_000,
        outputLimit: 1_000,
        isReasoning: false,
        refuses: ["stop"],
        structuredOutput: false,
        price: { input: 1, cached: 0.5, output: 2 }
      })
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["a.json", '{ "server": { "port": 1 } }'],
    ["a.jsonc", '{ // here\n "server": { "port": 1, }, /* and there */ }'],
    ["a.yaml", "server:\n  port: 1 # here\n"],
    ["a.yml", '"server": { "port": 1 }']
  ] as const)("%s is read as its name says", ([name, text]) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* load(name, text)).port, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("is overridden by the environment, value by value", () =>
    Effect.gen(function* () {
      const config = yield* load("all.yaml", everything, {
        ...variables,
        BOWLINE_PORT: "7",
        BOWLINE_MAX_BODY: "",
        BOWLINE_DATA_DIR: "memory:",
        BOWLINE_FIRST_TOKEN_TIMEOUT: "8s",
        OPENAI_API_KEY: "of the environment",
        OPENAI_API: "chat",
        ANTHROPIC_API_KEY: "another"
      })
      assert.deepStrictEqual([config.port, config.maxBody, config.database], [7, 524_288, { _tag: "Memory" }])
      assert.deepStrictEqual(
        config.providers.map(({ apiKeys, name, wire }) => [name, wire, apiKeys.map(Redacted.value)]),
        [
          ["openai", "chat", ["of the environment"]],
          ["local", "messages", []],
          ["anthropic", "messages", ["another"]]
        ]
      )
      // Set in the environment it holds for every model.
      const timers = config.plans.providerTimers.get("local")
      assert.deepStrictEqual([timers?.firstToken, timers?.idle], [undefined, Duration.seconds(2)])
      assert.deepStrictEqual(config.plans.firstTokenTimeout, Duration.seconds(8))
    }).pipe(Effect.scoped)
  )

  it.effect(
    "uses the first model of its first provider, and its other models if they are named; without models it asks which one",
    () =>
      Effect.gen(function* () {
        const provider = "providers: [{ name: local, wire: openai-chat, base_url: 'http://127.0.0.1:9/v1'"
        const config = yield* load("a.yaml", `${provider}, models: { one: {}, two: {} } }]`)
        assert.strictEqual(config.plans.model, "local/one")
        assert.deepStrictEqual(["local/two", "local/three"].map(config.plans.allowsModel), [true, false])
        assert.deepStrictEqual(yield* problems("a.yaml", `${provider} }]`), [
          "BOWLINE_MODEL: Expected models of a provider that is configured: local"
        ])
      }).pipe(Effect.scoped)
  )
})
