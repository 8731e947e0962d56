import { CallerName } from "@bowline/domain/caller/CallerName"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option, Redacted } from "effect"
import { inspect } from "node:util"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"

const load = (environment: Readonly<Record<string, string>>) => fromEnvironment(environment, false)
const problems = (environment: Readonly<Record<string, string>>) =>
  load(environment).pipe(
    Effect.flip,
    Effect.map((error) => error.problems.map(formatProblem))
  )

describe("GatewayConfig", () => {
  it.effect("names every variable that is wrong at once, without its value", () =>
    Effect.gen(function* () {
      const wrong = {
        BOWLINE_HOST: "0.0.0.0",
        BOWLINE_PORT: "70000",
        DATABASE_URL: "mysql://planted-secret@host/db",
        BOWLINE_MODEL: "gpt-5",
        BOWLINE_FALLBACK_MODELS: "openai/gpt-5,o3",
        BOWLINE_ALLOWED_MODELS: "openai/*,",
        BOWLINE_CONTEXT_WINDOW: "128k",
        BOWLINE_FIRST_TOKEN_TIMEOUT: "90",
        BOWLINE_LEASE_TTL: "500ms",
        BOWLINE_MAX_BODY: "8 megabytes",
        BOWLINE_MAX_PLANS: "0",
        BOWLINE_MAX_RETRIES: "11",
        BOWLINE_SECRET_KEY: "planted-secret",
        OPENAI_BASE_URL: "ftp://planted-secret",
        OPENAI_API: "messages",
        OPENAI_API_KEYS: "planted-secret,planted-secret",
        BOWLINE_ADMIN_CALLERS: "ann,",
        BOWLINE_ENV_ALLOW: "PEER_[",
        BOWLINE_EGRESS_ALLOW: "10.0.0.0/99",
        BOWLINE_EGRESS_DENY: "http://planted-secret/",
        LOG_LEVEL: "loud",
        BOWLINE_PROT: "planted-secret"
      }
      const found = yield* problems(wrong)
      assert.strictEqual(found.length, Object.keys(wrong).length)
      for (const name of Object.keys(wrong)) {
        // The host is right: what is wrong is that there are no keys.
        assert.include(found.join("\n"), `${name === "BOWLINE_HOST" ? "BOWLINE_API_KEYS" : name}: `)
      }
      assert.notInclude(found.join(), "planted-secret")
      const keys = yield* problems({ BOWLINE_API_KEYS: "ann=planted-secret,bob" })
      assert.deepStrictEqual(keys, [
        "BOWLINE_API_KEYS: Expected name=key,name2=key2 of printable ASCII; entry 2 is not"
      ])
    })
  )

  it.effect("names models without a provider and half an identity beside what else is wrong", () =>
    Effect.gen(function* () {
      const wrong = {
        BOWLINE_PORT: "70000",
        BOWLINE_MODEL: "gpt-5",
        BOWLINE_FALLBACK_MODELS: "openai/a,other/b",
        BOWLINE_DID_SEED: "short",
        BOWLINE_DID_NAME: "gate",
        OPENAI_BASE_URL: "ftp://x",
        ANTHROPIC_API_KEY: "key"
      }
      assert.deepStrictEqual(yield* problems(wrong), [
        "BOWLINE_PORT: Expected an integer between 0 and 65535",
        "BOWLINE_MODEL: Expected provider/model",
        "BOWLINE_DID_SEED: Expected 32 bytes in base64, or in hex",
        "OPENAI_BASE_URL: Expected an http or https URL",
        "BOWLINE_FALLBACK_MODELS: Expected models of a provider that is configured: openai, anthropic",
        "BOWLINE_DID_AUTHOR: Expected with BOWLINE_DID_SEED, BOWLINE_DID_NAME, or none of them"
      ])
    })
  )

  it.effect("reads every variable", () =>
    Effect.gen(function* () {
      const config = yield* load({
        BOWLINE_HOST: "0.0.0.0",
        BOWLINE_PORT: "0",
        BOWLINE_API_KEYS: "ann=one==, bob=two,ann=three",
        DATABASE_URL: "postgres://user:password@host/db",
        BOWLINE_MODEL: "openai/gpt-5",
        BOWLINE_ALLOWED_MODELS: "openai/gpt-*",
        BOWLINE_CONTEXT_WINDOW: "32768",
        BOWLINE_FIRST_TOKEN_TIMEOUT: "90s",
        BOWLINE_IDLE_TIMEOUT: "500ms",
        BOWLINE_ATTEMPT_TIMEOUT: "2m",
        BOWLINE_RETRY_BASE: "20ms",
        BOWLINE_MAX_RETRIES: "0",
        BOWLINE_LEASE_TTL: "1.5s",
        BOWLINE_SHUTDOWN_GRACE: "0s",
        BOWLINE_MAX_BODY: "512KiB",
        BOWLINE_MAX_PLANS: "3",
        BOWLINE_ENV_ALLOW: "PEER_*,OTHER",
        BOWLINE_SESSION_TTL: "7d",
        BOWLINE_SECRET_KEY: "+/".repeat(21) + "8=",
        BOWLINE_ADMIN_CALLERS: "ann, root",
        BOWLINE_EGRESS_ALLOW: "*.example, 10.0.0.0/8",
        BOWLINE_EGRESS_DENY: "peer.example",
        OPENAI_API_KEY: "key",
        OPENAI_API_KEYS: "key-1, key-2",
        OPENAI_BASE_URL: "http://127.0.0.1:9/v1",
        OPENAI_API: "responses",
        LOG_LEVEL: "WARN",
        LOG_FORMAT: "pretty",
        OTEL_BSP_MAX_QUEUE_SIZE: "9"
      })
      assert.deepStrictEqual(
        config.callerKeys.map(({ name, key }) => [name, Redacted.value(key)]),
        [
          ["ann", "one=="],
          ["bob", "two"],
          ["ann", "three"]
        ]
      )
      assert.deepStrictEqual(
        [config.host, config.port, config.maxBody, config.plans.maxPlans, config.plans.contextWindow],
        ["0.0.0.0", 0, 524_288, 3, 32_768]
      )
      const { attemptTimeout, firstTokenTimeout, idleTimeout, leaseTtl, retryBase, shutdownGrace } = config.plans
      assert.deepStrictEqual(
        [firstTokenTimeout, idleTimeout, attemptTimeout, retryBase, leaseTtl, shutdownGrace, config.sessionTtl].map(
          (duration) => duration && Duration.toMillis(duration)
        ),
        [90_000, 500, 120_000, 20, 1_500, 0, 604_800_000]
      )
      assert.deepStrictEqual([config.plans.model, config.plans.maxRetries], ["openai/gpt-5", 0])
      assert.strictEqual(Option.getOrThrow(Option.map(config.secretKey, Redacted.value)).length, 32)
      assert.deepStrictEqual(["openai/gpt-5-mini", "openai/o3", "other/gpt-5"].map(config.plans.allowsModel), [
        true,
        false,
        false
      ])
      assert.deepStrictEqual(["PEER_A", "PATH", "OTHER"].map(config.secrets.isAllowed), [true, false, true])
      assert.strictEqual(config.database._tag, "Postgres")
      const [openai] = config.providers
      assert.strictEqual(openai?.wire, "responses")
      assert.deepStrictEqual(openai?.apiKeys.map(Redacted.value), ["key-1", "key-2"])
      assert.deepStrictEqual(config.overruled, ["OPENAI_API_KEY"])
      assert.deepStrictEqual(
        ["ann", "bob"].map((name) => config.isAdmin(CallerName.make(name))),
        [true, false]
      )
      assert.deepStrictEqual(
        [config.egress.allow.length, config.egress.deny, config.egress.allowsLocal],
        [2, [{ _tag: "Host", pattern: "peer.example" }], false]
      )
      assert.deepStrictEqual(config.log, { level: "Warn", format: "pretty" })
      assert.deepStrictEqual(config.ignored, ["OTEL_BSP_MAX_QUEUE_SIZE"])
    })
  )

  it.effect("runs the demo, open to its own machine and embedded, when nothing is set", () =>
    Effect.gen(function* () {
      const config = yield* load({ BOWLINE_PORT: "" })
      assert.deepStrictEqual([config.host, config.port, config.callerKeys.length], ["127.0.0.1", 3774, 0])
      assert.deepStrictEqual(config.providers, [])
      assert.deepStrictEqual(config.database, { _tag: "Embedded", dataDir: ".bowline/data" })
      assert.deepStrictEqual([config.plans.model, "openai/other"].map(config.plans.allowsModel), [true, false])
      assert.isFalse(config.secrets.isAllowed("PATH"))
      const { contextWindow, firstTokenTimeout, idleTimeout, resume, streamGrace, takeoverGrace } = config.plans
      assert.deepStrictEqual([contextWindow, firstTokenTimeout, idleTimeout], [128_000, undefined, undefined])
      assert.deepStrictEqual(
        [resume, Duration.toSeconds(streamGrace), Duration.toSeconds(takeoverGrace), config.secretKey],
        [true, 0, 60, Option.none()]
      )
    })
  )

  it.effect("keeps events as long as sessions, 30 days at most unless it is set, and never longer than those", () =>
    Effect.gen(function* () {
      const daysOf = Effect.fnUntraced(function* (environment: Record<string, string>) {
        return Duration.toDays((yield* load(environment)).eventsTtl)
      })
      assert.strictEqual(yield* daysOf({}), 30)
      assert.strictEqual(yield* daysOf({ BOWLINE_SESSION_TTL: "7d" }), 7)
      assert.strictEqual(yield* daysOf({ BOWLINE_SESSION_TTL: "90d" }), 30)
      assert.strictEqual(yield* daysOf({ BOWLINE_SESSION_TTL: "90d", BOWLINE_EVENTS_TTL: "90d" }), 90)
      assert.deepStrictEqual(yield* problems({ BOWLINE_SESSION_TTL: "7d", BOWLINE_EVENTS_TTL: "8d" }), [
        "BOWLINE_EVENTS_TTL: Expected no longer than BOWLINE_SESSION_TTL (7d): the events of a plan go with its session"
      ])
    })
  )

  it.effect("takes a blank variable or flag as not set, and names none of them as without effect", () =>
    Effect.gen(function* () {
      const blank = {
        BOWLINE_CONFIG: " ",
        BOWLINE_DATA_DIR: " ",
        BOWLINE_PORT: "\t",
        DATABASE_URL: "\n",
        BOWLINE_RATE_LIMIT: " ",
        OPENAI_API_KEY: " ",
        OPENAI_API_KEYS: "  "
      }
      const config = yield* fromEnvironment(blank, false, { flags: { port: " " } })
      assert.deepStrictEqual(config.database, { _tag: "Embedded", dataDir: ".bowline/data" })
      assert.deepStrictEqual([config.port, config.providers, config.ignored], [3774, [], []])
    })
  )

  it.effect("accepts a local server that needs no key, a database in memory, and any model of the provider", () =>
    Effect.gen(function* () {
      const config = yield* load({
        OPENAI_BASE_URL: "http://127.0.0.1:9/v1",
        BOWLINE_DATA_DIR: "memory:",
        BOWLINE_ALLOWED_MODELS: "*"
      })
      assert.deepStrictEqual(
        config.providers.map(({ name, wire, baseUrl, apiKeys }) => [name, wire, baseUrl, apiKeys.length]),
        [["openai", "chat", "http://127.0.0.1:9/v1", 0]]
      )
      assert.deepStrictEqual(config.database, { _tag: "Memory" })
      assert.deepStrictEqual(["openai/any/depth", "openai/", "other/x"].map(config.plans.allowsModel), [
        true,
        false,
        false
      ])
    })
  )

  it.effect("asks the first provider that has a key, and falls back only on what is configured", () =>
    Effect.gen(function* () {
      const keys = { ANTHROPIC_API_KEY: "a", OPENROUTER_API_KEYS: "b,c" }
      const { plans, providers } = yield* load({ ...keys, BOWLINE_FALLBACK_MODELS: "openrouter/openai/gpt-5-mini" })
      assert.deepStrictEqual(
        providers.map(({ name, wire, apiKeys }) => [name, wire, apiKeys.length]),
        [
          ["anthropic", "messages", 1],
          ["openrouter", "chat", 2]
        ]
      )
      assert.match(plans.model, /^anthropic\//)
      assert.deepStrictEqual([plans.model, ...plans.fallbackModels].map(plans.allowsModel), [true, true])
      const wrong = {
        ...keys,
        BOWLINE_MODEL: "openai/gpt-5",
        BOWLINE_FALLBACK_MODELS: "anthropic/a,openai/b",
        BOWLINE_SUMMARY_MODEL: "openai/c"
      }
      const expected = "Expected models of a provider that is configured: anthropic, openrouter"
      assert.deepStrictEqual(yield* problems(wrong), [
        `BOWLINE_MODEL: ${expected}`,
        `BOWLINE_FALLBACK_MODELS: ${expected}`,
        `BOWLINE_SUMMARY_MODEL: ${expected}`
      ])
    })
  )

  it.effect.each([
    [{}, "responses"],
    [{ OPENAI_BASE_URL: "https://api.openai.com/v1" }, "responses"],
    [{ OPENAI_BASE_URL: "https://eu.api.openai.com/v1" }, "responses"],
    [{ OPENAI_BASE_URL: "https://my-api.openai.com.example/v1" }, "chat"],
    [{ OPENAI_BASE_URL: "https://openrouter.ai/api/v1" }, "chat"],
    [{ OPENAI_API: "chat" }, "chat"],
    [{ OPENAI_BASE_URL: "http://127.0.0.1:9/v1", OPENAI_API: "responses" }, "responses"]
  ] as const)(
    "speaks to the server of %j by the API that it knows best, or the one that is set",
    ([environment, api]) =>
      Effect.gen(function* () {
        const { providers } = yield* load({ OPENAI_API_KEY: "key", ...environment })
        assert.strictEqual(providers[0]?.wire, api)
      })
  )

  it.effect.each(["c2hvcnQ=", "ab".repeat(32), "no base64", Buffer.alloc(33).toString("base64")])(
    "refuses a secret key that is %s, and does not show it",
    (text) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* problems({ BOWLINE_SECRET_KEY: text }), [
          "BOWLINE_SECRET_KEY: Expected 32 bytes in base64"
        ])
      })
  )

  it.effect("does not show the secret key in what it shows of itself", () =>
    Effect.gen(function* () {
      const config = yield* load({ BOWLINE_SECRET_KEY: Buffer.alloc(32, 0xfb).toString("base64") })
      assert.notMatch(inspect(config, { depth: 9, showHidden: true }), /fb ?fb|251, ?251|\+\/v7/i)
    })
  )
})

describe("a gateway without a provider that can answer", () => {
  const missing = (first: string, others: string, why: string) =>
    `${first}: Expected the key of a provider${others}, since this is no demo: ${why} set. A demo on purpose has --demo`
  const any = ", or one of ANTHROPIC_API_KEY, OPENROUTER_API_KEY, OPENAI_BASE_URL"
  const production: ReadonlyArray<readonly [environment: Readonly<Record<string, string>>, problem: string]> = [
    [{ BOWLINE_API_KEYS: "ann=key" }, missing("OPENAI_API_KEY", any, "BOWLINE_API_KEYS is")],
    [{ DATABASE_URL: "postgres://db/bowline" }, missing("OPENAI_API_KEY", any, "DATABASE_URL is")],
    [
      { BOWLINE_HOST: "0.0.0.0", BOWLINE_API_KEYS: "ann=key" },
      missing("OPENAI_API_KEY", any, "BOWLINE_API_KEYS, BOWLINE_HOST are")
    ],
    [{ BOWLINE_PUBLIC_HOSTS: "bowline.example" }, missing("OPENAI_API_KEY", any, "BOWLINE_PUBLIC_HOSTS is")],
    [{ BOWLINE_PUBLIC_URL: "https://bowline.example" }, missing("OPENAI_API_KEY", any, "BOWLINE_PUBLIC_URL is")],
    [{ BOWLINE_MODEL: "anthropic/claude-sonnet-4-5" }, missing("ANTHROPIC_API_KEY", "", "BOWLINE_MODEL is")],
    [{ BOWLINE_MODEL: "openai/gpt-5-mini" }, missing("OPENAI_API_KEY", "", "BOWLINE_MODEL is")],
    [{ BOWLINE_MODEL: "local/llama" }, missing("OPENAI_API_KEY", any, "BOWLINE_MODEL is")]
  ]

  for (const [environment, problem] of production) {
    it.effect(`names the missing variable instead of running the demo: ${Object.keys(environment).join(", ")}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* problems(environment), [problem])
        const config = yield* fromEnvironment(environment, false, { isDemo: true })
        assert.deepStrictEqual([config.providers, config.plans.model], [[], "openai/demo"])
      })
    )
  }

  it.effect("runs the demo with --demo, whatever providers and models are set", () =>
    Effect.gen(function* () {
      const environment = {
        OPENAI_API_KEY: "key",
        BOWLINE_MODEL: "openai/gpt-5-mini",
        BOWLINE_FALLBACK_MODELS: "openai/gpt-5",
        BOWLINE_SUMMARY_MODEL: "openai/gpt-5"
      }
      const { configuredModels, plans, providers } = yield* fromEnvironment(environment, false, { isDemo: true })
      assert.deepStrictEqual(
        [providers, plans.model, plans.fallbackModels, plans.summaryModel, [...configuredModels]],
        [[], "openai/demo", [], undefined, ["openai/demo"]]
      )
    })
  )
})
