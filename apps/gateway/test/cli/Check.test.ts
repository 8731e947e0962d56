import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { bowline } from "../plan/GatewayProcess.ts"

/** The command, in a folder with these files. */
const check = Effect.fnUntraced(function* (
  files: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string>> = {}
) {
  const cwd = yield* folderOf(files)
  const env = { PATH: process.env["PATH"], ...environment }
  return yield* Effect.callback<{ readonly code: number; readonly stdout: string; readonly stderr: string }>(
    (resume, signal) => {
      const child = execFile(process.execPath, [bowline, "check"], { cwd, env, signal }, (_, stdout, stderr) =>
        resume(Effect.succeed({ code: child.exitCode ?? -1, stdout, stderr }))
      )
    }
  )
}, Effect.scoped)

describe("bowline check", () => {
  it.live("names the key of a provider that is missing where something says production", () =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* check({}, { BOWLINE_MODEL: "anthropic/claude-sonnet-4-5" })
      assert.deepStrictEqual([code, stdout], [78, ""])
      assert.match(stderr, /^ANTHROPIC_API_KEY: Expected the key of a provider, [^\n]+ BOWLINE_MODEL is set[^\n]+\n$/)
    })
  )

  it.live("prints the settings in effect, from the file and the environment, without secrets", () =>
    Effect.gen(function* () {
      const file = `
server: { port: 1, max_body: 1MiB, api_keys: { ann: planted-secret-1 } }
database: { url: "postgres://user:planted-secret-2@host/db" }
identity: { seed: "$SEED", author: ann, name: gate }
plans: { resume: false }
streams: { takeover_grace: 5m }
permissions: { ann: { tools: { deny: ["shell_*"] } } }
budgets: { "*": { tokens_per_day: 9 } }
providers:
  - name: local
    wire: openai-chat
    base_url: http://user:planted-secret-3@127.0.0.1:9/v1?key=planted-secret-4
    api_keys: [planted-secret-5]
    headers: { x-key: planted-secret-6 }
    models: { small: { context_window: 1000 } }
mcp_servers:
  - { name: files, command: files-server, args: [--key, planted-secret-8], env: { API_KEY: "$SEED" }, required: true }
  - name: docs
    url: https://docs.example/mcp?key=planted-secret-9
    auth: { type: bearer, token: planted-secret-10 }
    headers: { x-key: planted-secret-11 }
    allowed_tools: [search]
`
      const seed = "5e".repeat(32)
      const secretKey = Buffer.alloc(32, 0xfb).toString("base64")
      const { code, stderr, stdout } = yield* check(
        { "bowline.config.yaml": file },
        { BOWLINE_PORT: "2", SEED: seed, OPENAI_API_KEY: "planted-secret-7", BOWLINE_SECRET_KEY: secretKey }
      )
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.notMatch(stdout, /planted-secret/)
      assert.notInclude(stdout, seed)
      assert.notInclude(stdout, secretKey)
      const shown = JSON.parse(stdout) as Readonly<Record<string, unknown>>
      const { database, identity, mcp_servers, plans, providers, server, streams } = shown
      assert.deepStrictEqual(shown["permissions"], { ann: { tools: { deny: ["shell_*"] } } })
      assert.deepStrictEqual(shown["budgets"], { "*": { tokens_per_day: 9 } })
      assert.deepInclude(server, { host: "127.0.0.1", port: "2", max_body: "1MiB", api_keys: { ann: ["<redacted>"] } })
      assert.deepInclude(database, { url: "<redacted>" })
      assert.deepStrictEqual(identity, { seed: "<redacted>", author: "ann", name: "gate" })
      assert.deepInclude(plans, { resume: "false", secret_key: "<redacted>" })
      assert.deepStrictEqual(streams, { grace: "0s", takeover_grace: "5m" })
      assert.deepInclude((providers as ReadonlyArray<unknown>)[0], {
        name: "local",
        base_url: "http://127.0.0.1:9/v1",
        api_keys: ["<redacted>"],
        headers: { "x-key": "<redacted>" },
        models: { small: { context_window: 1_000 } }
      })
      assert.deepStrictEqual(mcp_servers, [
        {
          name: "files",
          required: true,
          command: "files-server",
          args: ["<redacted>", "<redacted>"],
          env: { API_KEY: "<redacted>" }
        },
        {
          name: "docs",
          allowed_tools: ["search"],
          url: "https://docs.example/mcp",
          auth: { type: "bearer" },
          headers: { "x-key": "<redacted>" }
        }
      ])
    })
  )

  it.live("prints presets without secrets", () =>
    Effect.gen(function* () {
      const rigger = { name: "rigger", endpoint: "https://rigger.example/a2a?key=planted-secret-1" }
      const knots = {
        description: "Knows ropes",
        agents: [{ ...rigger, auth: { type: "bearer", token: "$TOKEN" } }],
        mcp_servers: [{ name: "files", command: "files-server", args: ["planted-secret-3"] }],
        model: "openai/knots-1",
        instructions: "Speak like a sailor.",
        webhooks: [{ url: "https://hooks.example/in?key=planted-secret-4", secret: "whsec_cGxhbnRlZC1zZWNyZXQ=" }]
      }
      const file = JSON.stringify({ agents: [rigger], presets: { knots } })
      const { code, stdout } = yield* check({ "bowline.config.json": file }, { TOKEN: "planted-secret-2" })
      assert.strictEqual(code, 0)
      assert.notInclude(stdout, "planted-secret")
      const { agents, presets } = JSON.parse(stdout) as Readonly<Record<string, unknown>>
      const shown = { name: "rigger", dialect: "auto", endpoint: "https://rigger.example/a2a" }
      assert.deepStrictEqual(agents, [{ ...shown, auth: { type: "none" } }])
      assert.deepStrictEqual(presets, {
        knots: {
          description: "Knows ropes",
          agents: [{ ...shown, auth: { type: "bearer" } }],
          mcp_servers: [{ name: "files", command: "files-server", args: ["<redacted>"], env: {} }],
          preferences: { model: "openai/knots-1" },
          instructions: "Speak like a sailor.",
          webhooks: [{ url: "https://hooks.example/in", secret: "<redacted>" }]
        }
      })
    })
  )

  it.live("names the folder of the recipes and the file of the planner, and each recipe that cannot be used", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "bad.md": "bad", "planner.md": "Plan." })
      const environment = { BOWLINE_RECIPES_DIR: folder, BOWLINE_PLANNER_FILE: join(folder, "planner.md") }
      const { code, stderr, stdout } = yield* check({}, environment)
      assert.strictEqual(code, 0)
      const faults = stderr.trimEnd().split("\n")
      const reason = "Expected a front matter between two lines ---, with name and description"
      assert.deepStrictEqual(
        faults,
        ["bad.md", "planner.md"].map((file) => `A recipe that cannot be used: ${join(folder, file)}: ${reason}`)
      )
      const { plans } = JSON.parse(stdout) as Readonly<Record<string, unknown>>
      assert.deepInclude(plans, { recipes_dir: folder, planner_file: environment.BOWLINE_PLANNER_FILE })
      const usual = JSON.parse((yield* check({})).stdout) as Readonly<Record<string, unknown>>
      assert.deepInclude(usual["plans"], { recipes_dir: "recipes", planner_file: null })
    }).pipe(Effect.scoped)
  )

  it.live("lists every mistake with its place, and exits with 78", () =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* check(
        { "bowline.config.jsonc": '{ "server": { "port": 70000, "prot": 1 }, "streams": { "grace": 5 } } // oh' },
        { BOWLINE_MAX_RETRIES: "11", BOWLINE_SECRET_KEY: "c2hvcnQ=" }
      )
      assert.deepStrictEqual([code, stdout], [78, ""])
      assert.deepStrictEqual(
        stderr.split("\n").map((line) => line.split(":")[0]),
        [
          "bowline.config.jsonc server.prot",
          "bowline.config.jsonc server.port",
          "BOWLINE_MAX_RETRIES",
          "BOWLINE_SECRET_KEY",
          "bowline.config.jsonc streams.grace",
          ""
        ]
      )
    })
  )

  it.live("names the variables that have no effect, beside the settings in effect", () =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* check(
        {},
        {
          OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: "planted-secret-3",
          OPENAI_API_KEY: "planted-secret-1",
          OPENAI_API_KEYS: "planted-secret-2"
        }
      )
      assert.strictEqual(code, 0)
      assert.containsAllKeys(JSON.parse(stdout), ["server", "providers"])
      assert.deepStrictEqual(stderr.split("\n"), [
        "Set, and not honoured by this version: OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
        "Set, and another variable wins over it: OPENAI_API_KEY",
        ""
      ])
    })
  )

  it.live("reads no file where there are two", () =>
    Effect.gen(function* () {
      const { code, stderr } = yield* check({ "bowline.config.json": "{}", "bowline.config.yaml": "{}" })
      assert.deepStrictEqual(
        [code, stderr],
        [78, "bowline.config.json, bowline.config.yaml: Expected one of them only, or BOWLINE_CONFIG\n"]
      )
    })
  )
})
