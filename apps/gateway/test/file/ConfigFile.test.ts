import { CallerName } from "@bowline/domain/caller/CallerName"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Option, Redacted } from "effect"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/setting/Problem.ts"
import { folderOf } from "./ConfigFolder.ts"

type Environment = Readonly<Record<string, string>>

const load = Effect.fnUntraced(function* (name: string, text: string, environment: Environment = {}) {
  const BOWLINE_CONFIG = join(yield* folderOf({ [name]: text }), name)
  return yield* fromEnvironment({ BOWLINE_CONFIG, ...environment }, false)
})

const problems = (name: string, text: string, environment: Environment = {}) =>
  load(name, text, environment).pipe(
    Effect.flip,
    Effect.map((error) => error.problems.map(formatProblem))
  )

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
  gpt-5: { context_window: 200000, output_limit: 1000, reasoning: false, price: { input: 1, cached: 0.5, output: 2 } }
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
      assert.deepStrictEqual(plans.models.exact.get("local/one"), { contextWindow: 1_000 })
      assert.deepStrictEqual(plans.models.named.get("gpt-5"), {
        contextWindow: 200_000,
        outputLimit: 1_000,
        isReasoning: false,
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

  it.effect("reports all its mistakes at once, with those of the environment, and without its values", () =>
    Effect.gen(function* () {
      const found = yield* problems(
        "bad.yaml",
        `
server: { host: 0.0.0.0, port: 70000, api_keys: { ann: "planted-secret,x" }, prot: planted-secret, max_body: true }
plans: { model: gpt-5, fallback_models: [a, "b,c"], resume: 1, secret_key: planted-secret }
streams: { grace: soon, takeover_grace: true, grase: 1s }
sessions: ~
planted: 1
log: { level: $LOUD }
`,
        { LOUD: "planted-secret", BOWLINE_MAX_PLANS: "0", BOWLINE_PROT: "1" }
      )
      assert.deepStrictEqual(found, [
        "bad.yaml planted: There is no such key",
        "bad.yaml server.prot: There is no such key",
        "bad.yaml server.max_body: Expected text or a number",
        "bad.yaml sessions: Expected object",
        "bad.yaml plans.resume: Expected true or false",
        "bad.yaml streams.grase: There is no such key",
        "bad.yaml streams.takeover_grace: Expected text or a number",
        "bad.yaml server.api_keys: Expected a list without commas in its elements",
        "bad.yaml plans.fallback_models: Expected a list without commas in its elements",
        "bad.yaml server.port: Expected an integer between 0 and 65535",
        "bad.yaml plans.model: Expected provider/model",
        "BOWLINE_MAX_PLANS: Expected an integer between 1 and 1000000",
        "bad.yaml plans.secret_key: Expected 32 bytes in base64",
        "bad.yaml log.level: Expected one of trace, debug, info, warn, error, fatal, none",
        "bad.yaml streams.grace: Expected a duration such as 500ms, 90s or 2m, from 0s to 36500d",
        "BOWLINE_API_KEYS: Expected keys, since bad.yaml server.host can be reached from other machines",
        "BOWLINE_PROT: There is no such variable"
      ])
      assert.notInclude(found.join(), "planted-secret")
    }).pipe(Effect.scoped)
  )

  it.effect("says where it names a variable that is not set or is empty", () =>
    Effect.gen(function* () {
      const text = '{"server": {"api_keys": {"ann": ["$NONE", "${EMPTY}", "$$NONE"]}}, "log": {"level": "$NONE"}}'
      assert.deepStrictEqual(yield* problems("a.json", text, { EMPTY: "" }), [
        "a.json server.api_keys.ann[0]: The variable NONE is not set",
        "a.json server.api_keys.ann[1]: The variable EMPTY is not set",
        "a.json log.level: The variable NONE is not set",
        "a.json server.api_keys: Expected name=key,name2=key2 of printable ASCII; entry 1 is not"
      ])
      const config = yield* load("a.json", '{"server": {"api_keys": {"ann": "$$NONE"}}}')
      assert.deepStrictEqual(Redacted.value(config.callerKeys[0]?.key ?? Redacted.make("")), "$NONE")
    }).pipe(Effect.scoped)
  )

  it.effect("reports what is wrong with every provider, model and host", () =>
    Effect.gen(function* () {
      const found = yield* problems(
        "bad.jsonc",
        JSON.stringify({
          providers: [
            {
              name: "Planted Secret",
              wire: "grpc",
              base_url: "planted-secret",
              headers: { a: "planted-secret\n" },
              timeouts: { idle: "soon" },
              key: "planted-secret"
            },
            { api_keys: "planted-secret" },
            { name: "local", models: { "gpt-5.1": { context_window: 1, price: { input: -1 } } } }
          ],
          models: { a: { reasoning: "yes" } },
          peers: { hosts: { "http://planted": { tls: {} } } }
        })
      )
      assert.deepStrictEqual(found, [
        "bad.jsonc providers[0].key: There is no such key",
        "bad.jsonc providers[0].name: Expected a name such as openai or my-server",
        `bad.jsonc providers[0].wire: Expected "openai-chat" | "openai-responses" | "anthropic-messages"`,
        "bad.jsonc providers[0].base_url: Expected an http or https URL",
        "bad.jsonc providers[0].headers.a: Expected printable ASCII",
        "bad.jsonc providers[0].timeouts.idle: Expected a duration such as 500ms, 90s or 2m, from 1ms to 36500d",
        "bad.jsonc providers[1].name: Expected it to be there",
        "bad.jsonc providers[1].api_keys: Expected array",
        `bad.jsonc providers[2].models["gpt-5.1"].context_window: Expected a value between 100 and 100000000`,
        `bad.jsonc providers[2].models["gpt-5.1"].price.input: Expected a value between 0 and 1000000`,
        `bad.jsonc providers[2].models["gpt-5.1"].price.output: Expected it to be there`,
        "bad.jsonc models.a.reasoning: Expected boolean",
        `bad.jsonc peers.hosts["http://planted"]: There is no such key`
      ])
      assert.notInclude(found.join(), "planted-secret")
    }).pipe(Effect.scoped)
  )

  it.effect("reports what every provider lacks", () =>
    Effect.gen(function* () {
      const found = yield* problems(
        "a.yaml",
        "providers: [{ name: a }, { name: openai, api_keys: [x, x] }, { name: openai }]"
      )
      assert.deepStrictEqual(found, [
        "a.yaml providers[0].base_url: Expected an http or https URL",
        "a.yaml providers[0].wire: Expected the wire that it speaks",
        "a.yaml providers[1].api_keys: Expected each key once",
        "a.yaml providers[2].name: Expected each name once"
      ])
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["a.json", '{"a": 1,}', "a.json: PropertyNameExpected at line 1, column 9"],
    ["a.json", "{\n  // planted-secret\n}", "a.json: InvalidCommentToken at line 2, column 3"],
    ["a.jsonc", '{"a": "planted-secret}', "a.jsonc: UnexpectedEndOfString at line 1, column 7"],
    ["a.yaml", "a:\n\tb: planted-secret", "a.yaml: Tabs cannot be used for YAML indentation at line 2"],
    ["a.yaml", "a: *planted-secret", "a.yaml: Unknown YAML alias after *"],
    ["a.toml", "", "a.toml: Expected a file whose name ends in .json, .jsonc, .yaml or .yml"],
    ["a.yaml", "- a", "a.yaml: Expected object"],
    ["a.yaml", "streams: { grace: [1s] }", "a.yaml streams.grace: Expected text or a number"],
    ["a.yaml", 'streams: { takeover_grace: "" }', "a.yaml streams.takeover_grace: Expected text that is not empty"],
    ["a.yaml", 'plans: { fallback_models: [""] }', "a.yaml plans.fallback_models: Expected text that is not empty"],
    [
      "a.yaml",
      "streams: { grace: 99999999d }",
      "a.yaml streams.grace: Expected a duration such as 500ms, 90s or 2m, from 0s to 36500d"
    ]
  ] as const)("in %s that is %j is one problem", ([name, text, problem]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* problems(name, text), [problem])
    }).pipe(Effect.scoped)
  )

  it.effect("has to exist if it is named", () =>
    Effect.gen(function* () {
      const { problems } = yield* Effect.flip(fromEnvironment({ BOWLINE_CONFIG: "/nowhere/a.yaml" }, false))
      assert.deepStrictEqual(problems.map(formatProblem), ["/nowhere/a.yaml: The file cannot be read"])
    })
  )
})
