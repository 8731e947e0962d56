import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { folderOf } from "../config/file/ConfigFolder.ts"
import { mutePort } from "../http/MutePort.ts"
import { databases } from "../plan/Databases.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { sources } from "../plan/GatewayProcess.ts"
import { bowline, outputOf } from "./Bowline.ts"

/** Where it listens, once it does. */
const listening = ({ child, output }: Effect.Success<ReturnType<typeof bowline>>) =>
  Effect.promise(() => once(child.stderr, "data")).pipe(
    Effect.map(() => /Listening on (http:[^\s"]+)[\s"]/.exec(output.stderr)?.[1]),
    Effect.repeat({ until: (url) => url !== undefined })
  )

/** A gateway that nothing is configured for, not even a subcommand, once it has said what to try. */
const demo = Effect.gen(function* () {
  const gateway = yield* bowline([], { BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", LOG_FORMAT: "json" })
  yield* Effect.repeat(
    Effect.promise(() => once(gateway.child.stderr, "data")),
    { until: () => /chat\/completions .+\n/.test(gateway.output.stderr) }
  )
  return { ...gateway, url: /Listening on (http:[^"]+)/.exec(gateway.output.stderr)?.[1] ?? "" }
})

/** A gateway whose collector of telemetry accepts connections, and never answers. `exports` waits for one. */
const exporter = Effect.fnUntraced(function* (under: ReadonlyArray<string> = []) {
  const { asked, port } = yield* mutePort
  const gateway = yield* bowline(
    ["serve"],
    {
      BOWLINE_PORT: "0",
      BOWLINE_DATA_DIR: "memory:",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_METRIC_EXPORT_INTERVAL: "3600000"
    },
    { under }
  )
  yield* listening(gateway)
  return { ...gateway, exports: asked }
})

/** Runs a command as the first process of its own namespace. */
const container = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
const [unshare = "", ...namespace] = container
const canUnshare = spawnSync(unshare, [...namespace, "true"]).status === 0

/** Writes the built-in modules that a process has loaded as its last line. */
const listModules = 'data:text/javascript,process.on("exit",()=>console.log(process.moduleLoadList.join()))'

describe("bowline", () => {
  it.live("prints its help, and a completion for a shell", () =>
    Effect.gen(function* () {
      const help = yield* (yield* bowline(["--help"], {})).ended
      assert.deepStrictEqual([help.code, help.stderr], [0, ""])
      for (const command of [
        "serve",
        "ask",
        "tail",
        "plans",
        "cancel",
        "sessions",
        "credentials",
        "usage",
        "check",
        "doctor"
      ]) {
        assert.match(help.stdout, new RegExp(`^  ${command} `, "m"))
      }
      const { code, stdout } = yield* (yield* bowline(["--completions", "bash"], {})).ended
      assert.strictEqual(code, 0)
      assert.include(stdout, "complete -F")
    })
  )

  it.live("says in one line, with the exit code 64, which command it does not have", () =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* (yield* bowline(["plan"], {})).ended
      assert.deepStrictEqual([code, stdout], [64, ""])
      assert.match(stderr, /^Unknown subcommand "plan" for "bowline"[^\n]* \(see bowline --help\)\n$/)
    })
  )

  it.live("loads neither the TypeScript stripper, but for its first start, nor what only a gateway needs", () =>
    Effect.gen(function* () {
      const run = bowline(["--version"], {}, { main: sources, nodeArgs: ["--import", listModules] })
      yield* (yield* run).ended
      const { stdout, code } = yield* (yield* run).ended
      assert.strictEqual(code, 0)
      assert.include(stdout, `bowline v${manifest.version}\n`)
      assert.include(stdout, "NativeModule internal/modules/typescript")
      assert.notInclude(stdout, "amaro")
      // Undici asks for it, and so do the planner and the configuration, which import it.
      assert.notInclude(stdout, "NativeModule https,")
    })
  )
})

describe("bowline serve", () => {
  it.live("does not start with a wrong configuration, and lists every mistake", () =>
    Effect.gen(function* () {
      const { ended } = yield* bowline(["serve", "--host", "0.0.0.0"], { BOWLINE_PORT: "x", OPENAI_API: "messages" })
      const { stderr, code } = yield* ended
      assert.strictEqual(code, 78)
      assert.deepStrictEqual(
        stderr.split("\n").map((line) => line.split(":")[0]),
        ["BOWLINE_PORT", "OPENAI_API", "BOWLINE_API_KEYS", ""]
      )
      assert.include(stderr, "since --host can be reached")
    })
  )

  it.live("names the flag or variable that it cannot use, and why", () =>
    Effect.gen(function* () {
      const { BOWLINE_DATA_DIR: folder } = yield* databases.embedded
      const file = join(folder, "file")
      writeFileSync(file, "")
      const memory = { BOWLINE_DATA_DIR: "memory:", BOWLINE_API_KEYS: `ann=${"k".repeat(40)}` }
      const cases = [
        [["--demo", "--port", "abc"], memory, 78, /^--port: Expected [^\n]+\n$/],
        [
          ["--demo", "--port", "0", "--host", "127.0.0.1"],
          { ...memory, BOWLINE_PORT_X: "1", BOWLINE_HOSTS: "1" },
          78,
          /^BOWLINE_PORT_X: There is no such variable. Did you mean BOWLINE_PORT\?\nBOWLINE_HOSTS: There is no such variable. Did you mean BOWLINE_HOST\?\n$/
        ],
        [
          [],
          memory,
          78,
          /^OPENAI_API_KEY: Expected the key of a provider[^\n]* BOWLINE_API_KEYS is set[^\n]*--demo\n$/
        ],
        [
          ["--demo", "--host", "host.invalid"],
          memory,
          1,
          /^--host, BOWLINE_PORT: Cannot listen: [^\n]*host\.invalid\n$/
        ],
        [
          [],
          { BOWLINE_DATA_DIR: relative(process.cwd(), file) },
          1,
          /^BOWLINE_DATA_DIR: [^\n]* in \/[^\n]*EEXIST[^\n]*\n$/
        ],
        [
          ["--demo"],
          { DATABASE_URL: "postgres://ann:planted@127.0.0.1:1/db" },
          1,
          /^DATABASE_URL: [^\n]*ECONNREFUSED[^\n]*\n$/
        ]
      ] as const
      for (const [args, environment, code, line] of cases) {
        const ended = yield* (yield* bowline(["serve", ...args], environment)).ended
        assert.match(ended.stderr, line)
        assert.notInclude(ended.stderr, "planted")
        assert.strictEqual(ended.code, code)
      }
    })
  )

  it.live(
    "serves without a subcommand, and without a provider a demo, which it says loudly, with four lines to paste that work",
    () =>
      Effect.gen(function* () {
        const { url, output } = yield* demo
        assert.include(output.stderr, "DEMO MODE")
        const lines = Array.from(
          output.stderr.matchAll(/curl -N (\S+) -H 'Content-Type: application\/json' -d '([^']+)'/g)
        )
        assert.deepStrictEqual(
          lines.map(([, target]) => target),
          [...Array.from({ length: 3 }, () => `${url}/plan`), `${url}/v1/chat/completions`]
        )
        const paste = (index: number) => post(lines[index]?.[1] ?? "", lines[index]?.[2] ?? "")
        const [first, second] = yield* Effect.all([paste(0), paste(1)], { concurrency: 2 })
        assert.deepInclude(first.body, { state: "completed" })
        assert.match(JSON.stringify(first.body["final"]), /given at once.*made in two seconds/)
        assert.deepInclude(second.body["error"], { code: "aborted", reason: "deadline", stage: "tool" })
        const third = yield* paste(2)
        assert.strictEqual(third.body["session_id"], first.body["session_id"])
        assert.match(JSON.stringify(third.body["final"]), /1 earlier question/)
        const { body } = yield* post(lines[3]?.[1] ?? "", lines[3]?.[2]?.replace('"stream":true,', "") ?? "")
        assert.match(JSON.stringify(body["choices"]), /given at once/)
      })
  )

  it.live("serves on when nobody reads its log any more", () =>
    Effect.gen(function* () {
      const { child, ended, output, url } = yield* demo
      child.stderr.destroy()
      // It logs the end of this plan.
      const body = /-d '(\{"question":"Ask stuck[^']+)'/.exec(output.stderr)?.[1]?.replace("3000", "100") ?? ""
      for (let round = 0; round < 3; round++) assert.strictEqual((yield* post(`${url}/plan`, body)).status, 200)
      child.kill("SIGTERM")
      assert.deepInclude(yield* ended, { code: 0, signal: null })
    })
  )

  it.live("drops its log while nobody reads it, and ends without a reader", () =>
    Effect.gen(function* () {
      const file = join(yield* folderOf({ "gateway.yaml": "{}" }), "gateway.yaml")
      const gateway = yield* bowline(["serve"], {
        BOWLINE_PORT: "0",
        BOWLINE_DATA_DIR: "memory:",
        BOWLINE_CONFIG: file
      })
      const { child, ended } = gateway
      const url = yield* listening(gateway)
      child.stderr.pause()
      // A line of the log names each of them.
      writeFileSync(file, Array.from({ length: 20_000 }, (_, at) => `no_such_key_${at}: true\n`).join(""))
      const metrics = Effect.promise(async () => (await fetch(`${url}/metrics`)).text())
      yield* Effect.repeat(
        Effect.andThen(
          Effect.sync(() => child.kill("SIGHUP")),
          metrics
        ),
        { until: (text) => /^bowline_log_dropped_total [1-9]/m.test(text), schedule: Schedule.spaced("20 millis") }
      )
      child.kill("SIGTERM")
      // Nobody reads, so the pipe is never at its end.
      yield* Effect.promise(() => once(child, "exit"))
      assert.strictEqual(child.exitCode, 0)
      child.stderr.resume()
      yield* ended
    }).pipe(Effect.scoped)
  )

  it.live("is not ended by a SIGHUP while it exports the rest of its telemetry", () =>
    Effect.gen(function* () {
      const { child, ended, exports } = yield* exporter()
      child.kill("SIGTERM")
      yield* exports
      child.kill("SIGHUP")
      assert.deepInclude(yield* ended, { code: 0, signal: null })
    }).pipe(Effect.scoped)
  )

  it.live.skipIf(!canUnshare)("ends at once on a second signal also as the first process of a container", () =>
    Effect.gen(function* () {
      const { child, ended, exports } = yield* exporter(container)
      const inside = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8"))
      // Of an empty file it is 0: the tests themselves.
      assert.isAbove(inside, 1)
      process.kill(inside, "SIGTERM")
      yield* exports
      // It may be gone before its parent is.
      const signalled = Effect.ignoreCause(Effect.sync(() => process.kill(inside, "SIGTERM")))
      const again = Effect.delay(signalled, "100 millis")
      const last = yield* Effect.raceFirst(ended, Effect.forever(again))
      assert.deepInclude(last, { code: 143, signal: null })
    }).pipe(Effect.scoped)
  )

  it.live("ends at once on a second signal, but not on the echo of the first", () =>
    Effect.gen(function* () {
      const { child, ended, output, url } = yield* demo
      const body = /-d '(\{"question":"Ask stuck[^']+)'/.exec(output.stderr)?.[1]?.replace("3000", "60000") ?? ""
      const answer = yield* Effect.promise(() =>
        fetch(`${url}/plan`, { method: "POST", headers: { "content-type": "application/json" }, body })
      )
      // The body of a response that nobody reads is cancelled when it is collected, and the plan with it.
      answer.body?.getReader()
      // Both are there when it runs on: a busy machine may leave any time between the two otherwise.
      for (const signal of ["SIGSTOP", "SIGTERM", "SIGINT", "SIGCONT"] as const) child.kill(signal)
      const ready = send(`${url}/ready`)
      // It has got the signals, and shuts down.
      yield* Effect.repeat(ready, { until: ({ status }) => status === 503 })
      // Signals count as an echo until one is late enough.
      const again = Effect.andThen(
        Effect.sync(() => child.kill("SIGTERM")),
        Effect.ignoreCause(ready)
      )
      const last = yield* Effect.raceFirst(ended, Effect.forever(again))
      assert.deepInclude(last, { code: null, signal: "SIGTERM" })
    })
  )
})

describe("bowline serve, embedded", () => {
  it.live("is for one process at a time, and says so with the exit code of a wrong configuration", () =>
    Effect.gen(function* () {
      const environment = { ...(yield* databases.embedded), BOWLINE_PORT: "0", LOG_FORMAT: "json" }
      const first = yield* bowline(["serve"], environment)
      yield* Effect.repeat(
        Effect.promise(() => once(first.child.stderr, "data")),
        { until: () => first.output.stderr.includes("Listening on") }
      )
      const second = yield* (yield* bowline(["serve"], environment)).ended
      assert.strictEqual(second.code, 78)
      assert.match(second.stderr, /^Another process uses the embedded database in .+\n$/)
    })
  )
})

describe("bowline credentials", () => {
  it.live("prints a line for each window, and resets a credential", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(429, { message: "Too many requests" })], [say("x")]], {
        OPENAI_API_KEYS: "planted-key-one,planted-key-two"
      })
      yield* post(`${url}/plan`, { question: "?" })
      const credentials = (...args: ReadonlyArray<string>) => outputOf(["credentials", ...args], { BOWLINE_URL: url })
      const listed = yield* credentials()
      assert.deepStrictEqual([listed.code, listed.stderr], [0, ""])
      assert.match(
        listed.stdout,
        /^openai-1\tcooldown\t.{24}\trate_limited\t.{24}\topenai\/gpt-5-mini\nopenai-2\tok\t.{24}\t\t\t\n$/
      )
      const cleared = yield* credentials("clear", "openai-1", "--json")
      assert.deepInclude(JSON.parse(cleared.stdout), { id: "openai-1", state: "ok", windows: [] })
      const unknown = yield* credentials("clear", "openai-9")
      assert.deepStrictEqual(
        [unknown.code, unknown.stdout, unknown.stderr],
        [1, "", "not_found: There is no such credential\n"]
      )
    })
  )
})
