import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { fromEnvironment } from "../../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../../src/config/setting/ConfigProblem.ts"
import { load, problems } from "./ConfigFolder.ts"

/** Whoever has callers has a provider. */
const provider = { OPENAI_API_KEY: "key" }

describe("a wrong configuration file", () => {
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
        "bad.yaml server.prot: There is no such key. Did you mean port?",
        "bad.yaml server.max_body: Expected text or a number",
        "bad.yaml sessions: Expected object",
        "bad.yaml plans.resume: Expected true or false",
        "bad.yaml streams.grase: There is no such key. Did you mean grace?",
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
        "BOWLINE_PROT: There is no such variable. Did you mean BOWLINE_PORT?"
      ])
      assert.notInclude(found.join(), "planted-secret")
    }).pipe(Effect.scoped)
  )

  it.effect("says where it names a variable that is not set or is empty", () =>
    Effect.gen(function* () {
      const server = '{"api_keys": {"ann": ["$NONE", "${EMPTY}", "$$NONE"]}}'
      const text = `{"server": ${server}, "log": {"level": "$NONE"}, "providers": [{"name": "openai", "api_keys": ["$KEY"]}]}`
      assert.deepStrictEqual(yield* problems("a.json", text, { EMPTY: "" }), [
        "a.json server.api_keys.ann[0]: The variable NONE is not set",
        "a.json server.api_keys.ann[1]: The variable EMPTY is not set",
        "a.json log.level: The variable NONE is not set",
        "a.json providers[0].api_keys[0]: The variable KEY is not set"
      ])
      const config = yield* load("a.json", '{"server": {"api_keys": {"ann": "$$NONE"}}}', provider)
      assert.deepStrictEqual(Redacted.value(config.callerKeys[0]?.key ?? Redacted.make("")), "$NONE")
    }).pipe(Effect.scoped)
  )

  it.effect("refuses a key of a caller that is a slip", () =>
    Effect.gen(function* () {
      const expected = "Expected keys of 3 characters at least; that of entry 2 is shorter"
      const text = '{"server": {"api_keys": {"ann": "key", "bob": "k2"}}}'
      assert.deepStrictEqual(yield* problems("a.json", text, {}), [`a.json server.api_keys: ${expected}`])
    }).pipe(Effect.scoped)
  )

  it.effect("does not quote what may be a piece of a secret with a $ in it", () =>
    Effect.gen(function* () {
      const file = { plans: { model: "pa$sword", summary_model: "a${Planted}b" }, database: { url: "$planted" } }
      const expected = "A $ begins the name of a variable, and that one is not set. Write $$ for a dollar"
      assert.deepStrictEqual(yield* problems("a.json", JSON.stringify(file), { planted: " " }), [
        `a.json plans.model: ${expected}`,
        `a.json plans.summary_model: ${expected}`,
        `a.json database.url: ${expected}`
      ])
      const config = yield* load("a.json", '{"server": {"api_keys": {"ann": "$lower"}}}', { ...provider, lower: "key" })
      assert.deepStrictEqual(Redacted.value(config.callerKeys[0]?.key ?? Redacted.make("")), "key")
    }).pipe(Effect.scoped)
  )

  it.effect("says which key its providers lack, and lets a local server be without one", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* problems("a.yaml", "providers: [{ name: anthropic, models: { x: {} } }]"), [
        "ANTHROPIC_API_KEY: Expected the key of a provider, since this is no demo: a.yaml providers is set. A demo on purpose has --demo"
      ])
      const local =
        "providers: [{ name: local, wire: openai-chat, base_url: 'http://127.0.0.1:9/v1', models: { x: {} } }]"
      assert.strictEqual((yield* load("a.yaml", local)).plans.model, "local/x")
      assert.strictEqual(
        (yield* load("a.yaml", "agents: [{ name: a, endpoint: 'http://127.0.0.1:9' }]")).plans.model,
        "openai/demo"
      )
    }).pipe(Effect.scoped)
  )

  it.effect("reports what is wrong with every MCP server", () =>
    Effect.gen(function* () {
      const auth = { type: "bearer_env", env_var: "NONE" }
      const found = yield* problems(
        "bad.json",
        JSON.stringify({
          mcp_servers: [
            { name: "a", url: "https://mcp.example/", args: ["planted-secret"], auth },
            { name: "a", command: "planted-secret", headers: { "x-key": "planted-secret" }, auth },
            { name: "b" },
            { name: "c", url: "https://mcp.example/", command: "planted-secret" }
          ]
        })
      )
      assert.deepStrictEqual(found, [
        "bad.json mcp_servers[0].args: Expected none with a url",
        "bad.json mcp_servers[0].auth.env_var: The variable NONE is not set",
        "bad.json mcp_servers[1].name: Expected each name once",
        "bad.json mcp_servers[1].headers: Expected none with a command",
        "bad.json mcp_servers[1].auth: Expected none with a command",
        "bad.json mcp_servers[1].auth.env_var: The variable NONE is not set",
        "bad.json mcp_servers[2]: Expected either a url or a command",
        "bad.json mcp_servers[3]: Expected either a url or a command"
      ])
      const misshapen = { name: "-", url: "planted-secret", required: "planted-secret", env: { "a b": "c" }, cmd: "" }
      assert.deepStrictEqual(yield* problems("bad.json", JSON.stringify({ mcp_servers: [misshapen] })), [
        "bad.json mcp_servers[0].cmd: There is no such key",
        "bad.json mcp_servers[0].name: Expected 1..64 characters of A-Z a-z 0-9 . _ -, the first one a letter or a digit",
        "bad.json mcp_servers[0].required: Expected boolean",
        "bad.json mcp_servers[0].url: Expected an http or https URL",
        'bad.json mcp_servers[0].env["a b"]: There is no such key'
      ])
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

  it.effect("reports models and identities that do not fit beside a key that does not exist", () =>
    Effect.gen(function* () {
      const text = `
server: { prot: 1 }
plans: { model: other/m, fallback_models: [local/m] }
identity: { seed: "${"5e".repeat(32)}", name: gate }
providers: [{ name: local, wire: openai-chat }]
`
      assert.deepStrictEqual(yield* problems("a.yaml", text), [
        "a.yaml server.prot: There is no such key. Did you mean port?",
        "a.yaml providers[0].base_url: Expected an http or https URL",
        "a.yaml plans.model: Expected models of a provider that is configured: local",
        "a.yaml identity.author: Expected with a.yaml identity.seed, a.yaml identity.name, or none of them"
      ])
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    [
      "files: { s3: { bucket: a/b, endpoint: ftp://a, region: a b, prefix: '?' } }",
      {},
      [
        "files.s3.bucket: Expected the name of a bucket",
        "files.s3.region: Expected a region such as eu-central-1",
        "files.s3.endpoint: Expected an http or https URL",
        "files.s3.prefix: Expected letters, digits and any of _ ! . * ' ( ) / -"
      ]
    ],
    ["identity: { seed: [x], author: ann, name: gate }", {}, ["identity.seed: Expected text or a number"]],
    ['identity: { seed: "", author: ann, name: gate }', {}, ["identity.seed: Expected text that is not empty"]],
    ["identity: ~", { BOWLINE_DID_NAME: "gate" }, ["identity: Expected object"]],
    ["plans: { model: [x] }\nproviders: [{ name: openai }]", {}, ["plans.model: Expected text or a number"]],
    ["providers: { name: local }", { BOWLINE_MODEL: "local/one" }, ["providers: Expected array"]]
  ] as const)("reports nothing that only follows from another mistake, in %s", ([text, environment, expected]) =>
    Effect.gen(function* () {
      const found = yield* problems("a.yaml", text, environment)
      assert.deepStrictEqual(
        found,
        expected.map((problem) => `a.yaml ${problem}`)
      )
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["a.json", "", "a.json: It is not valid JSON: value expected at line 1, column 1"],
    ["a.json", '{"a": 1,}', "a.json: It is not valid JSON: property name expected at line 1, column 9"],
    ["a.json", "{\n  // planted-secret\n}", "a.json: It is not valid JSON: invalid comment token at line 2, column 3"],
    [
      "a.jsonc",
      '{"a": "planted-secret}',
      "a.jsonc: It is not valid JSON: unexpected end of string at line 1, column 7"
    ],
    ["a.yaml", "a:\n\tb: planted-secret", "a.yaml: Tabs cannot be used for YAML indentation at line 2"],
    ["a.yaml", "a: *planted-secret", "a.yaml: Unknown YAML alias after * at line 1"],
    ["a.yaml", "server:\n  allow: [a,\n    b]\nlog: { level: info\n", "a.yaml: Expected ',' at line 4"],
    ["a.yaml", 'server:\n  port: 1\n  host: "x\n', "a.yaml: Unterminated quoted YAML scalar at line 3"],
    ["a.toml", "", "a.toml: Expected a file whose name ends in .json, .jsonc, .yaml or .yml"],
    ["a.yaml", "- a", "a.yaml: Expected object"],
    ["a.yaml", "streams: { grace: [1s] }", "a.yaml streams.grace: Expected text or a number"],
    ["a.yaml", 'streams: { takeover_grace: "" }', "a.yaml streams.takeover_grace: Expected text that is not empty"],
    ["a.yaml", 'database: { data_dir: " " }', "a.yaml database.data_dir: Expected text that is not empty"],
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
      assert.deepStrictEqual(problems.map(formatProblem), ["/nowhere/a.yaml: It does not exist"])
    })
  )
})
