import { PlanId } from "@bowline/domain/plan/Plan"
import * as Usage from "@bowline/domain/plan/Usage"
import { SessionId } from "@bowline/domain/session/Session"
import { encoder } from "@bowline/protocol/stream/SseFrame"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { text } from "@bowline/testing/http/Host"
import { cut, stall, toStream, until, write } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { error, finish, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { once } from "node:events"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { send, start } from "../http/RunningGateway.ts"
import { bowline, outputOf } from "./Bowline.ts"

const ask = (url: string, ...args: ReadonlyArray<string>) => outputOf(["ask", ...args], { BOWLINE_URL: url })

const askAsProcess = (url: string, ...args: ReadonlyArray<string>) => bowline(["ask", ...args], { BOWLINE_URL: url })

const at = "2026-01-02T03:04:05.678Z"
const frame = encoder({
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
})

describe("bowline ask", () => {
  it.live("prints the answer and nothing else, and continues a session", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) => [say(`answer ${asked.messages.length}`)])
      const first = yield* ask(url, "What?", "--session", "s")
      assert.deepStrictEqual(first, { stdout: "answer 1\n", stderr: "", code: 0, signal: null })
      const second = yield* ask(url, "And?", "--session", "s", "--json")
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
      const answered = yield* ask(url, "What?", "--preset", "knots")
      assert.deepStrictEqual(answered, { stdout: "true\n", stderr: "", code: 0, signal: null })
      const refused = yield* ask(url, "What?", "--preset", "ropes")
      const stderr = 'invalid_request: preset: Expected default or knots, got "ropes"\n'
      assert.deepStrictEqual(refused, { stdout: "", stderr, code: 1, signal: null })
    })
  )

  it.live("asks about files, and says which one cannot be read or is refused", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "knot.txt": "left over right", "fake.png": "no picture" })
      const { url } = yield* start((asked) => [say(JSON.stringify(asked.messages.at(-1)))])
      const { code, stdout } = yield* ask(url, "What?", "--file", join(folder, "knot.txt"))
      assert.strictEqual(code, 0)
      assert.match(stdout, /What\?.*\[file knot\.txt, text\/plain, file_.*left over right/)
      const away = yield* ask(url, "What?", "--file", join(folder, "away.txt"))
      assert.match(away.stderr, /^Cannot read .*away\.txt: .*\n$/)
      const whole = yield* ask(url, "What?", "--file", folder)
      assert.strictEqual(whole.stderr, `Cannot read ${folder}: it is not a file\n`)
      const limited = yield* start([], { BOWLINE_MAX_FILE: "5" })
      const refused = yield* ask(limited.url, "What?", "--file", join(folder, "fake.png"))
      assert.match(refused.stderr, /^\/.*fake\.png: payload_too_large: .+\n$/)
      assert.deepStrictEqual([away.code, refused.code], [1, 1])
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
          ask("http://127.0.0.1:2", "What?"),
          1,
          /^Cannot reach http:\/\/127\.0\.0\.1:2: .+ECONNREFUSED.+bowline serve.+BOWLINE_URL\n$/
        ],
        [
          ask(`${provider.url}/v1`, "What?"),
          1,
          /^What answers at .+ is not a gateway of this version\. .+BOWLINE_URL\n$/
        ],
        [ask(closed.url, "What?"), 1, /^unauthorized: .+BOWLINE_API_KEY.+\n$/],
        [
          Effect.flatMap(askAsProcess(url), ({ ended }) => ended),
          64,
          /^Expected a question, as an argument or on stdin \(see bowline ask --help\)\n$/
        ],
        [ask(url, "What?", "--agnet", "ann=http://127.0.0.1:9/"), 64, /^.+--agnet.+ \(see bowline ask --help\)\n$/]
      ] as const
      const ended = yield* Effect.forEach(cases, ([run]) => run)
      for (const [index, [, code, line]] of cases.entries()) {
        assert.match(ended[index]?.stderr ?? "", line)
        assert.deepInclude(ended[index], { stdout: "", code })
      }
    })
  )

  it.live("ends only when a slow reader has everything", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("x".repeat(1_000_000)), finish("content_filter")]])
      const { child, ended, output } = yield* askAsProcess(url, "What?")
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
        frame({ seq: 1, at, event: "session", payload: '{"external_session_id":null,"created":true}' }),
        frame({ seq: 2, at, event: "final", payload: JSON.stringify(final) }),
        frame({ seq: 3, at, event: "done", payload: "{}" })
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
      const { stdout, stderr, code } = yield* ask(host.url, "What?")
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

  it.live("repeats a request whose stream breaks before its first event as the same one, and not for ever", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(() =>
        Effect.succeed({ status: 200, headers: { "content-type": "text/event-stream" }, body: toStream([cut]) })
      )
      for (let round = 0; round < 2; round++) {
        const { stdout, stderr, code } = yield* ask(host.url, "What?")
        assert.deepStrictEqual([stdout, code], ["", 1])
        assert.match(stderr, /^The stream broke before its first event, each time\. Try again later; [^\n]+\n$/)
      }
      const keys = (yield* host.requests.all).map(({ headers, method }) => [method, headers["idempotency-key"]])
      assert.lengthOf(keys, 6)
      const [first, other] = [keys[0], keys[3]]
      assert.match(first?.[1] ?? "", /^[0-9a-f-]{36}$/)
      assert.deepStrictEqual(keys, [first, first, first, other, other, other])
      assert.notDeepEqual(first, other)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("does not take a page for a stream of events", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(() => Effect.succeed(text(200, "<p>Hello", { "content-type": "text/html" })))
      const { stdout, stderr, code } = yield* ask(host.url, "What?")
      assert.deepStrictEqual([stdout, code], ["", 1])
      assert.match(stderr, /^What answers at .+ is not a gateway of this version\. [^\n]+\n$/)
      assert.lengthOf(yield* host.requests.all, 1)
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
      const call = { task_id, tool: "pay", input: { to: "\u001b[2J" } }
      const asked = { ...call, expires_at: "soon", why: "maybe_done", data: { at } }
      const final = {
        stop_reason: "stop",
        text: "a\u001b[2J",
        usage: Usage.empty,
        steps: 1,
        tool_calls: 0,
        duration_ms: 1
      }
      const frames = [
        frame({ seq: 1, at, event: "approval.requested", payload: JSON.stringify(asked) }),
        frame({ seq: 2, at, event: "final", payload: JSON.stringify(final) }),
        frame({ seq: 3, at, event: "done", payload: "{}" })
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
      assert.deepStrictEqual(stderr.split("\n"), [
        String.raw`? pay waits for an approval until soon: {"to":"\u001b[2J"}. ` +
          `An earlier call may have done the same, approve if it has not: {"at":"${at}"}`,
        `  approve, or --reject: bowline answer plan_00000000-0000-4000-8000-000000000001 ${task_id} --approve`,
        ""
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("says on stderr what the plan waits for, with the command that helps, and what it warns of", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const task = { task_id: "00000000-0000-4000-8000-000000000003", remote_task_id: null, remote_context_id: null }
      const started = { ...task, tool: "ann_pay", kind: "peer", agent: "ann", skill: "pay", agent_did: null, input: {} }
      const final = { stop_reason: "stop", text: "a", usage: Usage.empty, steps: 1, tool_calls: 0, duration_ms: 1 }
      const events = [
        ["session", { external_session_id: "Ann's", created: false }],
        ["queued", { position: 2, reason: "session_busy" }],
        ["queued", { position: 1, reason: "session_busy" }],
        ["plan", { model: "demo/model", deadline_at: at }],
        ["notice", { code: "card_unavailable", message: "The card of ann \u001b[2J cannot be read" }],
        ["step", { step: 1, attempt: 1 }],
        ["task.started", { ...started, agent_did_source: null }],
        [
          "task.finished",
          { ...task, state: "input-required", duration_ms: 7, error: { code: "x", message: "Which?" } }
        ],
        ["task.finished", { ...task, state: "auth-required", duration_ms: 7 }],
        ["task.finished", { ...task, state: "completed", duration_ms: 7 }],
        ["final", final],
        ["done", {}]
      ] as const
      const moves = events.map(([event, payload], index) =>
        write(frame({ seq: index + 1, at, event, payload: JSON.stringify(payload) }))
      )
      const host = yield* network.serve(() =>
        Effect.succeed({ status: 200, headers: { "content-type": "text/event-stream" }, body: toStream(moves) })
      )
      for (const flags of [[], ["--json"]]) {
        const { code, stderr } = yield* ask(host.url, "What?", ...flags)
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(stderr.split("\n"), [
          String.raw`… waits for its session, place 2. Who has it: bowline plans --session 'Ann'\''s' --state running`,
          "! The card of ann ␛[2J cannot be read",
          "✗ ann_pay input-required: Which? (7ms)",
          String.raw`  answer: bowline ask "…" --session 'Ann'\''s'`,
          "✗ ann_pay auth-required (7ms)",
          String.raw`  when that is done: bowline ask "…" --session 'Ann'\''s'`,
          ""
        ])
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("cancels its plan on Ctrl-C", () =>
    Effect.gen(function* () {
      const { url, provider } = yield* start([[stall]])
      const { child, ended } = yield* askAsProcess(url, "What?")
      yield* provider.requests.awaitCount(1)
      child.kill("SIGINT")
      assert.deepStrictEqual(yield* ended, { stdout: "", stderr: "Cancelled\n", code: 130, signal: null })
      const { body } = yield* send(`${url}/plans`)
      const [plan] = body["plans"] as ReadonlyArray<{ readonly error: unknown }>
      assert.deepInclude(plan?.error, { code: "aborted", reason: "cancelled" })
    })
  )

  it.live("cancels its plan on Ctrl-C before the first event, too", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const proceed = yield* Deferred.make<void>()
      const cancelled = yield* Deferred.make<void>()
      const failure = { code: "aborted", reason: "cancelled", message: "Cancelled", retryable: false, stage: null }
      const moves = [
        until(Deferred.await(proceed)),
        write(frame({ seq: 1, at, event: "session", payload: '{"external_session_id":null,"created":true}' })),
        until(Deferred.await(cancelled)),
        write(frame({ seq: 2, at, event: "error", payload: JSON.stringify(failure) })),
        write(frame({ seq: 3, at, event: "done", payload: "{}" }))
      ]
      const host = yield* network.serve(({ url }) =>
        url.pathname.endsWith("/cancel")
          ? Effect.andThen(Deferred.succeed(cancelled, undefined), Effect.never)
          : Effect.succeed({ status: 200, headers: { "content-type": "text/event-stream" }, body: toStream(moves) })
      )
      const { child, ended } = yield* askAsProcess(host.url, "What?")
      yield* host.requests.awaitCount(1)
      child.kill("SIGINT")
      yield* Deferred.succeed(proceed, undefined)
      assert.deepStrictEqual(yield* ended, { stdout: "", stderr: "Cancelled\n", code: 130, signal: null })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("says that it was interrupted also where its plan ends before the cancel is answered", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const asked = yield* Deferred.make<void>()
      const failure = { code: "aborted", reason: "cancelled", message: "Cancelled", retryable: false, stage: null }
      const session = write(
        frame({ seq: 1, at, event: "session", payload: '{"external_session_id":null,"created":true}' })
      )
      const end = [
        until(Deferred.await(asked)),
        write(frame({ seq: 2, at, event: "error", payload: JSON.stringify(failure) })),
        write(frame({ seq: 3, at, event: "done", payload: "{}" }))
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
      const { child, ended } = yield* askAsProcess(host.url, "What?")
      // It has read the first frame: it reads on behind it.
      yield* host.requests.awaitCount(2)
      child.kill("SIGINT")
      assert.deepStrictEqual(yield* ended, { stdout: "", stderr: "Cancelled\n", code: 130, signal: null })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
