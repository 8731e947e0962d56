import { PlanId } from "@bowline/domain/plan/Plan"
import * as Usage from "@bowline/domain/plan/Usage"
import { SessionId } from "@bowline/domain/session/Session"
import { encoder } from "@bowline/protocol/stream/SseFrame"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut, stall, toStream, until, write } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { error, finish, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { folderOf } from "../file/ConfigFolder.ts"
import { databases } from "../plan/Databases.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { bowline } from "./Bowline.ts"

const ask = (url: string, ...args: ReadonlyArray<string>) => bowline(["ask", ...args], { BOWLINE_URL: url })

const frame = encoder({
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
})

/** A gateway that nothing is configured for, once it has said what to try. */
const demo = Effect.gen(function* () {
  const gateway = yield* bowline(["serve", "--port", "0"], { BOWLINE_DATA_DIR: "memory:", LOG_FORMAT: "json" })
  yield* Effect.repeat(
    Effect.promise(() => once(gateway.child.stderr, "data")),
    { until: () => gateway.output.stderr.includes("resumed by its session_id") }
  )
  return { ...gateway, url: /Listening on (http:[^"]+)/.exec(gateway.output.stderr)?.[1] ?? "" }
})

describe("bowline ask", () => {
  it.live("prints the answer and nothing else, and continues a session", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) => [say(`answer ${asked.messages.length}`)])
      const first = yield* (yield* ask(url, "What?", "--session", "s")).ended
      assert.deepStrictEqual(first, { stdout: "answer 1\n", stderr: "", code: 0, signal: null })
      const second = yield* (yield* ask(url, "And?", "--session", "s", "--json")).ended
      assert.strictEqual(second.code, 0)
      const result = JSON.parse(second.stdout) as Record<string, unknown>
      assert.deepInclude(result, { state: "completed" })
      assert.deepInclude(result["final"], { text: "answer 3", stop_reason: "stop" })
    })
  )

  it.live("asks with a preset", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "gateway.yaml": "presets: { knots: { instructions: Speak like a sailor. } }" })
      const { url } = yield* start((asked) => [say(String(asked.system.includes("Speak like a sailor.")))], {
        BOWLINE_CONFIG: join(folder, "gateway.yaml")
      })
      const { ended } = yield* ask(url, "What?", "--preset", "knots")
      assert.deepStrictEqual(yield* ended, { stdout: "true\n", stderr: "", code: 0, signal: null })
      const refused = yield* (yield* ask(url, "What?", "--preset", "ropes")).ended
      const stderr = 'invalid_request: preset: Expected default or knots, got "ropes"\n'
      assert.deepStrictEqual(refused, { stdout: "", stderr, code: 1, signal: null })
    })
  )

  it.live("says once, on a line of its own, why there is no answer, and fails", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[error(401, { message: "no such key" })]])
      const closed = yield* start([], { BOWLINE_API_KEYS: "ann=a-key-of-ann" })
      const cases = [
        [ask(url, "What?"), 1, /^provider_auth: .+\n$/],
        [ask(url, "What?", "--agent", "a b=http://127.0.0.1:9/"), 1, /^invalid_request: agents\[0\]\.name: .+\n$/],
        [
          ask(url, "What?", "--agent", "stuck"),
          64,
          /^Invalid value for flag --agent: "stuck". Expected name=url \(see .+\)\n$/
        ],
        [
          ask("http://127.0.0.1:1", "What?"),
          1,
          /^Cannot reach http:\/\/127\.0\.0\.1:1: .+ECONNREFUSED.+npm start.+BOWLINE_URL\n$/
        ],
        [
          ask(`${provider.url}/v1`, "What?"),
          1,
          /^What answers at .+ is not a gateway of this version\. .+BOWLINE_URL\n$/
        ],
        [ask(closed.url, "What?"), 1, /^unauthorized: .+BOWLINE_API_KEY.+\n$/],
        [ask(url), 64, /^Expected a question, as an argument or on stdin \(see bowline ask --help\)\n$/],
        [ask(url, "What?", "--agnet", "ann=http://127.0.0.1:9/"), 64, /^.+--agnet.+ \(see bowline ask --help\)\n$/]
      ] as const
      const ended = yield* Effect.forEach(cases, ([run]) => Effect.flatMap(run, ({ ended }) => ended), {
        concurrency: 2
      })
      for (const [index, [, code, line]] of cases.entries()) {
        assert.match(ended[index]?.stderr ?? "", line)
        assert.deepInclude(ended[index], { stdout: "", code })
      }
    })
  )

  it.live("ends only when a slow reader has everything", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("x".repeat(1_000_000)), finish("content_filter")]])
      const { child, ended, output } = yield* ask(url, "What?")
      child.stdout.pause()
      yield* Effect.repeat(
        Effect.promise(() => once(child.stderr, "data")),
        { until: () => output.stderr === "The answer ends early: content_filter\n" }
      )
      child.stdout.resume()
      const { code, stdout } = yield* ended
      assert.deepStrictEqual([code, stdout.length], [0, 1_000_001])
    })
  )

  it.live("resumes a stream that breaks, and shows nothing twice", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const final = { stop_reason: "stop", text: "answer", usage: Usage.empty, steps: 1, tool_calls: 0, duration_ms: 1 }
      const frames = [
        frame({ seq: 1, event: "session", payload: '{"external_session_id":null,"created":true}' }),
        frame({ seq: 2, event: "final", payload: JSON.stringify(final) }),
        frame({ seq: 3, event: "done", payload: "{}" })
      ]
      const host = yield* network.serve(({ headers, method }) => {
        const after = Number(headers["last-event-id"] ?? 0)
        const moves = frames.slice(after, after + 1).map(write)
        return Effect.succeed({
          status: 200,
          headers: { "content-type": "text/event-stream" },
          body: toStream(method === "POST" ? [...moves, cut] : moves)
        })
      })
      const { stdout, stderr, code } = yield* (yield* ask(host.url, "What?")).ended
      assert.deepStrictEqual([stdout, stderr, code], ["answer\n", "", 0])
      const requests = yield* host.requests.all
      assert.deepStrictEqual(
        requests.map(({ headers, method }) => [method, headers["last-event-id"]]),
        [
          ["POST", undefined],
          ["GET", "1"],
          ["GET", "2"]
        ]
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("reads the question from stdin, where there is none or it is -", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("x")])
      for (const args of [[], ["-"]]) {
        const { ended } = yield* bowline(["ask", ...args], { BOWLINE_URL: url }, { stdin: "Two\nlines? é\n" })
        assert.deepInclude(yield* ended, { stdout: "x\n", code: 0 })
      }
      for (const { body } of yield* provider.requests.all) assert.include(body, String.raw`"Two\nlines? é"`)
    })
  )

  it.live("says how a call that waits for an approval is answered", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const task_id = "00000000-0000-4000-8000-000000000003"
      const asked = { task_id, tool: "pay", input: { to: "\u001b[2J" }, expires_at: "soon", why: "always" }
      const final = {
        stop_reason: "stop",
        text: "a\u001b[2J",
        usage: Usage.empty,
        steps: 1,
        tool_calls: 0,
        duration_ms: 1
      }
      const frames = [
        frame({ seq: 1, event: "approval.requested", payload: JSON.stringify(asked) }),
        frame({ seq: 2, event: "final", payload: JSON.stringify(final) }),
        frame({ seq: 3, event: "done", payload: "{}" })
      ]
      const host = yield* network.serve(() =>
        Effect.succeed({
          status: 200,
          headers: { "content-type": "text/event-stream" },
          body: toStream(frames.map(write))
        })
      )
      const environment = { BOWLINE_URL: host.url, BOWLINE_API_KEY: "planted-key" }
      const { code, stderr, stdout } = yield* (yield* bowline(["ask", "What?"], environment)).ended
      assert.deepStrictEqual([code, stdout], [0, "a\u001b[2J\n"])
      const route = `${host.url}/plans/plan_00000000-0000-4000-8000-000000000001/approvals/${task_id}`
      assert.deepStrictEqual(stderr.split("\n"), [
        String.raw`? pay waits for an approval until soon: {"to":"\u001b[2J"}`,
        `  approve, or reject: curl ${route} -H "Authorization: Bearer $BOWLINE_API_KEY" -H 'Content-Type: application/json' -d '{"decision":"approve"}'`,
        ""
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("cancels its plan on Ctrl-C", () =>
    Effect.gen(function* () {
      const { url, provider } = yield* start([[stall]])
      const { child, ended } = yield* ask(url, "What?")
      yield* provider.requests.awaitCount(1)
      child.kill("SIGINT")
      assert.deepStrictEqual(yield* ended, { stdout: "", stderr: "Cancelled\n", code: 130, signal: null })
      const { body } = yield* send(`${url}/plans`)
      const [plan] = body["plans"] as ReadonlyArray<{ readonly error: unknown }>
      assert.deepInclude(plan?.error, { code: "aborted", reason: "cancelled" })
    })
  )

  it.live("says that it was interrupted also where its plan ends before the cancel is answered", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const asked = yield* Deferred.make<void>()
      const failure = { code: "aborted", reason: "cancelled", message: "Cancelled", retryable: false, stage: null }
      const session = write(frame({ seq: 1, event: "session", payload: '{"external_session_id":null,"created":true}' }))
      const end = [
        until(Deferred.await(asked)),
        write(frame({ seq: 2, event: "error", payload: JSON.stringify(failure) })),
        write(frame({ seq: 3, event: "done", payload: "{}" }))
      ]
      const host = yield* network.serve(({ method, url }) =>
        url.pathname.endsWith("/cancel")
          ? Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
          : Effect.succeed({
              status: 200,
              headers: { "content-type": "text/event-stream" },
              body: toStream(method === "POST" ? [session, cut] : end)
            })
      )
      const { child, ended } = yield* ask(host.url, "What?")
      // It has read the first frame: it reads on behind it.
      yield* host.requests.awaitCount(2)
      child.kill("SIGINT")
      assert.deepStrictEqual(yield* ended, { stdout: "", stderr: "Cancelled\n", code: 130, signal: null })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

/** Writes the built-in modules that a process has loaded as its last line. */
const listModules = 'data:text/javascript,process.on("exit",()=>console.log(process.moduleLoadList.join()))'

describe("bowline", () => {
  it.live("prints its help where nothing or help is asked for, and a completion for a shell", () =>
    Effect.gen(function* () {
      for (const args of [[], ["--help"]]) {
        const { code, stderr, stdout } = yield* (yield* bowline(args, {})).ended
        assert.deepStrictEqual([code, stderr], [0, ""])
        for (const command of [
          "serve",
          "ask",
          "tail",
          "plans",
          "cancel",
          "sessions",
          "credentials",
          "check",
          "doctor"
        ]) {
          assert.match(stdout, new RegExp(`^  ${command} `, "m"))
        }
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

  it.live("does not load the TypeScript stripper, but for its first start", () =>
    Effect.gen(function* () {
      const run = bowline(["--version"], {}, { nodeArgs: ["--import", listModules] })
      yield* (yield* run).ended
      const { stdout, code } = yield* (yield* run).ended
      assert.strictEqual(code, 0)
      assert.include(stdout, `bowline v${manifest.version}\n`)
      assert.include(stdout, "NativeModule internal/modules/typescript")
      assert.notInclude(stdout, "amaro")
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
        [["--port", "abc"], memory, 78, /^--port: Expected [^\n]+\n$/],
        [
          ["--port", "0", "--host", "127.0.0.1"],
          { ...memory, BOWLINE_PORT_X: "1", BOWLINE_HOSTS: "1" },
          78,
          /^BOWLINE_PORT_X: There is no such variable\nBOWLINE_HOSTS: There is no such variable\n$/
        ],
        [["--host", "host.invalid"], memory, 1, /^--host, BOWLINE_PORT: Cannot listen: [^\n]*host\.invalid\n$/],
        [
          [],
          { BOWLINE_DATA_DIR: relative(process.cwd(), file) },
          1,
          /^BOWLINE_DATA_DIR: [^\n]* in \/[^\n]*EEXIST[^\n]*\n$/
        ],
        [[], { DATABASE_URL: "postgres://ann:planted@127.0.0.1:1/db" }, 1, /^DATABASE_URL: [^\n]*ECONNREFUSED[^\n]*\n$/]
      ] as const
      for (const [args, environment, code, line] of cases) {
        const ended = yield* (yield* bowline(["serve", ...args], environment)).ended
        assert.match(ended.stderr, line)
        assert.notInclude(ended.stderr, "planted")
        assert.strictEqual(ended.code, code)
      }
    })
  )

  it.live("runs a demo without a provider, says so loudly, and gives three lines to paste that work", () =>
    Effect.gen(function* () {
      const { url, output } = yield* demo
      assert.include(output.stderr, "DEMO MODE")
      const lines = Array.from(
        output.stderr.matchAll(/curl -N (\S+) -H 'Content-Type: application\/json' -d '([^']+)'/g)
      )
      assert.deepStrictEqual(
        lines.map(([, target]) => target),
        Array.from({ length: 3 }, () => `${url}/plan`)
      )
      const paste = (index: number) => post(lines[index]?.[1] ?? "", lines[index]?.[2] ?? "")
      const [first, second] = yield* Effect.all([paste(0), paste(1)], { concurrency: 2 })
      assert.deepInclude(first.body, { state: "completed" })
      assert.match(JSON.stringify(first.body["final"]), /given at once.*made in two seconds/)
      assert.deepInclude(second.body["error"], { code: "aborted", reason: "deadline", stage: "tool" })
      const third = yield* paste(2)
      assert.strictEqual(third.body["session_id"], first.body["session_id"])
      assert.match(JSON.stringify(third.body["final"]), /1 earlier question/)
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

  it.live("ends at once on a second signal, but not on the echo of the first", () =>
    Effect.gen(function* () {
      const { child, ended, output, url } = yield* demo
      const body = /-d '(\{"question":"Ask stuck[^']+)'/.exec(output.stderr)?.[1]?.replace("3000", "60000") ?? ""
      yield* Effect.promise(() =>
        fetch(`${url}/plan`, { method: "POST", headers: { "content-type": "application/json" }, body })
      )
      child.kill("SIGTERM")
      child.kill("SIGINT")
      yield* Effect.sleep("600 millis")
      assert.strictEqual((yield* send(`${url}/ready`)).status, 503)
      child.kill("SIGTERM")
      assert.deepInclude(yield* ended, { code: null, signal: "SIGTERM" })
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
      const credentials = (...args: ReadonlyArray<string>) =>
        Effect.flatMap(bowline(["credentials", ...args], { BOWLINE_URL: url }), ({ ended }) => ended)
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
