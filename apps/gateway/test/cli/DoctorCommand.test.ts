import { type Host, json } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { run } from "../../src/cli/doctor/Finding.ts"
import { machineChecks } from "../../src/cli/doctor/MachineChecks.ts"
import { networkChecks } from "../../src/cli/doctor/NetworkChecks.ts"
import { mutual, pem, terminate } from "../egress/MutualTls.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { databases } from "../plan/Databases.ts"
import { mutePort } from "../http/MutePort.ts"
import { start } from "../http/RunningGateway.ts"
import { bowline } from "./Bowline.ts"
import { findings } from "./doctor/Findings.ts"

interface Finding {
  readonly check: string
  readonly state: string
  readonly detail: string
  readonly advice?: string
}

/** What the command finds, as `state check: detail`, and its exit code. */
const examine = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>) {
  const { code, stderr, stdout } = yield* (yield* bowline(["doctor", "--json"], environment)).ended
  assert.strictEqual(stderr, "")
  const { findings: found, ok } = JSON.parse(stdout) as {
    readonly findings: ReadonlyArray<Finding>
    readonly ok: boolean
  }
  assert.deepStrictEqual([code, ok], found.some(({ state }) => state === "fail") ? [1, false] : [0, true])
  for (const { advice = "", state } of found) assert.strictEqual(advice === "", state === "ok")
  const of = (name: string) =>
    found.filter(({ check }) => check === name).map(({ detail, state }) => `${state} ${detail}`)
  return { code, stdout, of, advice: (name: string) => found.find(({ check }) => check === name)?.advice ?? "" }
}, Effect.scoped)

/** A provider that lists its models to those who have the key. */
const lister =
  (key: string, headers: Readonly<Record<string, string>> = {}): Host =>
  ({ headers: { authorization } }) => {
    const answer =
      authorization === `Bearer ${key}`
        ? json(200, { data: [{ id: "scripted" }, { id: "other" }] })
        : json(401, { error: "no" })
    return Effect.succeed({ ...answer, headers: { ...answer.headers, ...headers } })
  }

const memory = { BOWLINE_DATA_DIR: "memory:", BOWLINE_PORT: "0" }

describe("bowline doctor", () => {
  it.live("finds nothing wrong where a gateway runs as it should", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const provider = yield* network.serve(lister("right"))
      const mcp = yield* ScriptedMcpServer.serve({ list: () => ({ tools: [] }) })
      const settings = yield* databases.postgres
      const { url } = yield* start([], settings)
      const file = JSON.stringify({
        mcp_servers: [
          { name: "docs", url: `${mcp.url}/mcp` },
          { name: "files", command: "node" }
        ]
      })
      const { advice, code, of } = yield* examine({
        ...settings,
        BOWLINE_CONFIG: join(yield* folderOf({ "gateway.json": file }), "gateway.json"),
        BOWLINE_PORT: new URL(url).port,
        BOWLINE_MODEL: "openai/scripted",
        OPENAI_API_KEY: "right",
        OPENAI_BASE_URL: `${provider.url}/v1`,
        OTEL_EXPORTER_OTLP_ENDPOINT: provider.url
      })
      assert.strictEqual(code, 0, advice("provider openai"))
      const { host: providerHost } = new URL(provider.url)
      const { host: databaseHost, pathname } = new URL(settings.DATABASE_URL)
      assert.deepStrictEqual(of("provider openai"), [`ok openai-1 at ${providerHost} is accepted`])
      assert.deepStrictEqual(
        new Set(of("clock")),
        new Set([`ok the server of the database agrees`, `ok ${providerHost} agrees`])
      )
      assert.match(
        of("database").join("\n"),
        new RegExp(`^ok Postgres [0-9.]+ at ${databaseHost}${pathname}\\nok \\d+ of`)
      )
      assert.match(of("migrations").join(), /^ok \d+ migrations, none is pending$/)
      assert.deepStrictEqual(of("port"), [`ok a gateway listens on 127.0.0.1:${new URL(url).port}, and is ready`])
      assert.deepStrictEqual(of("mcp docs"), [`ok ${new URL(mcp.url).host} answers`])
      assert.match(of("mcp files").join(), /^ok \/.*\/node is there; it is not started$/)
      assert.deepStrictEqual(of("telemetry"), [`ok ${providerHost} answers`])
      assert.match(of("node").join(), /^ok v\d+/)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live(
    "names every key that is refused, every name that does not resolve, and each clock that is wrong, and shows no secret",
    () =>
      Effect.gen(function* () {
        const network = yield* Network
        const skewed = new Date(Date.UTC(2020, 0)).toUTCString()
        const provider = yield* network.serve(lister("planted-right", { date: skewed }))
        const sick = yield* network.serve(() => Effect.succeed(json(503, {})))
        const other = yield* network.serve(() => Effect.succeed(json(200, { hello: "world" })))
        const wire = "openai-chat"
        const file = JSON.stringify({
          providers: [
            {
              name: "local",
              wire,
              base_url: `${provider.url}/v1`,
              api_keys: ["planted-right", "planted-wrong"],
              models: { gone: {} }
            },
            { name: "open", wire, base_url: `${provider.url}/v1` },
            // No name server is asked for such a name: one that is away would say something else.
            { name: "nowhere", wire, base_url: "http://user:planted-1@-nowhere.invalid/v1?key=planted-2" },
            { name: "closed", wire, base_url: "http://127.0.0.1:1/v1" },
            { name: "sick", wire, base_url: `${sick.url}/v1`, headers: { "x-key": "planted-3" } }
          ],
          http: { max_connections: 1_000_000 },
          server: { host: "0.0.0.0", api_keys: { ann: "planted-4" } },
          egress: { allow: ["*"] },
          mcp_servers: [
            { name: "docs", url: "http://127.0.0.1:1/mcp?key=planted-5" },
            { name: "files", command: "no-such-program", args: ["planted-6"] }
          ]
        })
        const { advice, of, stdout } = yield* examine({
          BOWLINE_CONFIG: join(yield* folderOf({ "gateway.json": file }), "gateway.json"),
          BOWLINE_DATA_DIR: "memory:",
          BOWLINE_PORT: new URL(other.url).port,
          HTTPS_PROXY: "http://user:planted-7@proxy.example:3128",
          OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1"
        })
        const { host } = new URL(provider.url)
        assert.deepStrictEqual(of("provider local"), [
          `ok local-1 at ${host} is accepted`,
          "warn it does not list local/gone",
          `fail local-2 at ${host} is refused (401)`
        ])
        assert.deepStrictEqual(of("provider open"), [`fail ${host} asks for a key (401)`])
        assert.deepStrictEqual(of("provider nowhere"), [
          "fail -nowhere.invalid: getaddrinfo ENOTFOUND -nowhere.invalid"
        ])
        assert.match(advice("provider nowhere"), /^The name does not resolve/)
        assert.deepStrictEqual(of("provider closed"), ["fail 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1"])
        assert.match(advice("provider closed"), /^Nothing listens there/)
        assert.deepStrictEqual(of("provider sick"), [
          `warn sick-1 at ${new URL(sick.url).host} answers 503`.replace("sick-1 at ", "")
        ])
        assert.match(of("clock").join("\n"), new RegExp(`^fail ${host} is \\d+d.* behind$`, "m"))
        assert.match(of("port").join(), /^fail another program listens on 0\.0\.0\.0:\d+$/)
        assert.match(of("open files").join(), /^(warn \d+ at most|ok .*)$/)
        assert.match(
          of("egress").join(),
          /^warn callers reach public addresses only, besides 1 rule to allow and 0 rules to deny$/
        )
        assert.match(of("proxy").join(), /^warn the gateway uses no proxy/)
        assert.deepStrictEqual(of("mcp docs"), ["fail 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1"])
        assert.match(of("mcp files").join(), /^fail no-such-program is no program/)
        assert.match(of("telemetry").join(), /^fail 127\.0\.0\.1:1: /)
        assert.notInclude(stdout, "planted")
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("asks an MCP server with the TLS configuration of its host, as the gateway does", () =>
    Effect.gen(function* () {
      const server = yield* ScriptedMcpServer.serve({ list: () => ({ tools: [] }) })
      const { port } = yield* terminate(server.url, "localhost")
      const host = `localhost:${port}`
      const file = {
        mcp_servers: [{ name: "docs", url: `https://${host}/mcp` }],
        peers: { hosts: { [host]: { tls: mutual } } }
      }
      const files = Object.fromEntries(Object.values(mutual).map((name) => [name, pem(name.replace(".pem", ""))]))
      const folder = yield* folderOf({ ...files, "gateway.json": JSON.stringify(file) })
      const { of } = yield* findings({ BOWLINE_CONFIG: join(folder, "gateway.json") }, (config, http) =>
        networkChecks(http, config)
      )
      assert.deepStrictEqual(of("mcp docs"), [`ok ${host} answers`])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live.each(["HTTPS_PROXY", "http_proxy", "all_proxy"])("says that the proxy of %s is not used", (name) =>
    Effect.gen(function* () {
      const { of } = yield* findings({}, (config, http) => networkChecks(http, config))
      assert.match(of("proxy").join(), /^warn the gateway uses no proxy/)
    }).pipe(
      Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { [name]: "http://proxy.example" } }))),
      Effect.scoped
    )
  )

  it.live("says when the disk of the embedded database is full", () =>
    Effect.gen(function* () {
      // A file system without any space, on every machine of the tests.
      const { of } = yield* findings({ BOWLINE_DATA_DIR: "/proc/bowline" }, machineChecks)
      assert.deepStrictEqual(of("disk"), ["fail 0 MiB free for /proc/bowline"])
    }).pipe(Effect.scoped)
  )

  it.live("asks the gateway that listens on its port whether it is ready", () =>
    Effect.gen(function* () {
      const unready = yield* (yield* Network).serve(() =>
        Effect.succeed(json(503, { status: 503, failed: ["leases"] }))
      )
      const { of } = yield* findings({ BOWLINE_PORT: new URL(unready.url).port }, (config, http) =>
        networkChecks(http, config)
      )
      assert.match(of("port").join(), /^fail the gateway on 127\.0\.0\.1:\d+ is not ready: leases$/)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("prints one plain line for each finding where nobody watches", () =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* (yield* bowline(["doctor"], memory)).ended
      assert.deepStrictEqual([code, stderr], [0, ""])
      const lines = stdout.trimEnd().split("\n")
      for (const line of lines) assert.match(line, /^(ok  |warn)  [a-z ]+: .+$/)
      assert.notInclude(stdout, "\u001b")
      assert.include(lines, "ok    database: none: memory: keeps nothing")
      assert.match(stdout, /^warn  provider: none is configured: .* demo\. Set a key, such as OPENAI_API_KEY$/m)
    }).pipe(Effect.scoped)
  )

  it.live("lists what is wrong with the configuration, as check does, and looks at nothing else", () =>
    Effect.gen(function* () {
      const ended = yield* (yield* bowline(["doctor"], { BOWLINE_MAX_RETRIES: "11" })).ended
      assert.deepInclude(ended, { code: 78, stdout: "" })
      assert.match(ended.stderr, /^BOWLINE_MAX_RETRIES: Expected .*\n$/)
    }).pipe(Effect.scoped)
  )

  it.live("ends at once with Ctrl-C, though a server does not answer", () =>
    Effect.gen(function* () {
      const { asked, port } = yield* mutePort
      const { child, ended } = yield* bowline(["doctor"], {
        BOWLINE_PORT: "0",
        DATABASE_URL: `postgres://ann:x@127.0.0.1:${port}/x`,
        OPENAI_BASE_URL: "http://127.0.0.1:1/v1"
      })
      yield* asked
      child.kill("SIGINT")
      assert.deepStrictEqual(yield* ended, { stdout: "", stderr: "", code: 130, signal: null })
    }).pipe(Effect.scoped)
  )

  it.effect("waits for a check for 10 s, also for one that cannot be interrupted", () =>
    Effect.gen(function* () {
      const running = yield* Effect.forkChild(run({ name: "stuck", find: Effect.uninterruptible(Effect.never) }))
      yield* TestClock.adjust("10 seconds")
      const [finding] = yield* Fiber.join(running)
      assert.deepInclude(finding, { check: "stuck", state: "fail", detail: "No answer within 10 seconds" })
    })
  )

  it.effect("reports a check that breaks, and the others", () =>
    Effect.gen(function* () {
      const [finding] = yield* run({ name: "broken", find: Effect.die(new Error("oh")) })
      assert.deepInclude(finding, { check: "broken", state: "fail", detail: "The check failed: oh" })
    })
  )
})
