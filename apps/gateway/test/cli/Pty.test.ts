import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { encoder } from "@bowline/protocol/stream/SseFrame"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { reset, stall, toStream, until, write } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { callTool, finish, say, type Turn } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule } from "effect"
import { databases } from "../plan/Databases.ts"
import * as GatewayProcess from "../plan/GatewayProcess.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { bowline } from "./Bowline.ts"
import { hasPty, interrupt, onPty } from "./Pty.ts"

/** The first lines of a plan. On a narrow terminal its ids have lines of their own, so that none is cut in two. */
const assertName = (lines: ReadonlyArray<string>, columns = 80) => {
  const id = "plan_[0-9a-f-]{36}"
  const session = "in session session_[0-9a-f-]{36}"
  assert.match(lines.join("\n"), new RegExp(columns < 100 ? `^${id}\n${session}(?:\n|$)` : `^${id} ${session}(?:\n|$)`))
}
const retracted = "↺ The text above is retracted: the answer begins again"

const at = "2026-01-02T03:04:05.678Z"
const frame = encoder({
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
})

/** The stream of a plan that says nothing behind its first frame. */
const stalledPlan = {
  status: 200,
  headers: { "content-type": "text/event-stream" },
  body: toStream([
    write(frame({ seq: 1, at, event: "session", payload: '{"external_session_id":null,"created":true}' })),
    stall
  ])
}

/** Plans of the one caller. */
const plansOf = (url: string) =>
  Effect.map(send(`${url}/plans`), ({ body }) => body["plans"] as ReadonlyArray<Record<string, unknown>>)

describe.skipIf(!hasPty)("bowline on a terminal (skipped without `script` of util-linux)", () => {
  it.live("shows in one line of status what the plan does, cut to the terminal, and leaves the answer", () =>
    Effect.forEach(
      [20, 80, 200],
      Effect.fnUntraced(function* (columns) {
        const proceed = yield* Deferred.make<void>()
        const { url } = yield* start([[until(Deferred.await(proceed)), say("日本語 answer")]])
        const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: url }, { columns })
        const status = columns === 20 ? "asking the …" : "asking the model · step 1"
        // Three drawings, each in the place of the one before.
        for (let draws = 0, sign = " "; draws < 3; draws++) {
          const lines = yield* terminal.shows(new RegExp(`^[^${sign}] \\d+s · ${status}$`, "mu"))
          assert.lengthOf(lines, columns === 200 ? 2 : 3)
          sign = lines.at(-1)?.slice(0, 1) ?? ""
        }
        yield* Deferred.succeed(proceed, undefined)
        const { code, lines, wraps } = yield* terminal.ended
        assert.strictEqual(code, 0)
        assertName(lines, columns)
        assert.deepStrictEqual(lines.slice(columns === 200 ? 1 : 2), ["日本語 answer"])
        if (columns >= 80) assert.strictEqual(wraps, 0)
      }),
      { concurrency: 2, discard: true }
    )
  )

  it.live("begins a text again that is retracted, and shows what a model says without obeying it", () =>
    Effect.gen(function* () {
      const { url } = yield* start(
        [
          [say("half\u001b[2J"), reset],
          [say("whole\u001b]0;title\u0007 \u009b31m"), say("\nline two")]
        ],
        { BOWLINE_RETRY_BASE: "10ms" }
      )
      const { code, lines } = yield* (yield* onPty(["ask", "What?"], { BOWLINE_URL: url })).ended
      assert.strictEqual(code, 0)
      assertName(lines)
      const [half, ...rest] = lines.slice(2)
      assert.deepStrictEqual(
        [half, ...rest.filter((line) => !line.startsWith("↻"))],
        ["half␛[2J", retracted, String.raw`whole␛]0;title␇ \u009b31m`, "line two"]
      )
      assert.match(rest.find((line) => line.startsWith("↻")) ?? "", /^↻ provider_\w+: .+; asks openai\/\S+ in \d+ms$/)
    })
  )

  it.live("shows the text again that stays, where only its continuation is retracted", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("one "), finish("length")], [say("two"), reset], [say("three")]], {
        BOWLINE_RETRY_BASE: "10ms"
      })
      const { code, lines } = yield* (yield* onPty(["ask", "What?"], { BOWLINE_URL: url })).ended
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(
        lines.slice(2).filter((line) => !line.startsWith("↻")),
        ["one two", retracted, "one three"]
      )
    })
  )

  it.live("keeps stdout for the answer alone, has no colours with NO_COLOR, and draws nothing with TERM=dumb", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("answer")])
      const environment = { BOWLINE_URL: url }
      const coloured = yield* onPty(["ask", "What?"], environment, { redirect: ">/dev/null" })
      const ended = yield* coloured.ended
      assert.lengthOf(ended.lines, 2)
      assertName(ended.lines)
      assert.include(coloured.output.text, "\u001b[2mplan_")
      const plain = yield* onPty(["plans"], { ...environment, NO_COLOR: "1" })
      const [titles] = (yield* plain.ended).lines
      assert.match(titles ?? "", /^PLAN +STATE +CREATED +QUESTION/)
      assert.notInclude(plain.output.text, "\u001b[")
      const dumb = yield* onPty(["ask", "What?"], { ...environment, TERM: "dumb" })
      assert.deepStrictEqual((yield* dumb.ended).lines.slice(2), ["answer"])
      assert.notInclude(dumb.output.text, "\u001b[")
    })
  )

  it.live("fits a list to the terminal, with relative times, and cuts no id", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("answer")])
      yield* post(`${url}/plan`, { question: `日本語 ${"long ".repeat(40)}`, session_id: "s" })
      const list = (columns: number) =>
        Effect.flatMap(onPty(["plans"], { BOWLINE_URL: url }, { columns }), ({ ended }) => ended)
      const [narrow, usual, wide] = yield* Effect.all([list(20), list(80), list(200)], { concurrency: 2 })
      const id = "plan_[0-9a-f-]{36}"
      assert.match(narrow.lines.join("\n"), new RegExp(`^PLAN\n${id}$`))
      assert.match(
        usual.lines.join("\n"),
        new RegExp(`^PLAN +STATE +CREATED  QUESTION\n${id}  completed  \\d+s ago  +日本語 long long…$`, "u")
      )
      assert.match(
        wide.lines.join("\n"),
        new RegExp(`QUESTION +WHY  SESSION\n${id}  completed  \\d+s ago  +日本語 [long ]{50,}… +s$`, "u")
      )
      assert.deepStrictEqual([narrow.wraps, usual.wraps, wide.wraps], [2, 0, 0])
      yield* post(`${url}/plan`, { question: "In a session without a name" })
      const sessions = yield* (yield* onPty(["sessions"], { BOWLINE_URL: url })).ended
      assert.match(sessions.lines[1] ?? "", /^session_[0-9a-f-]{36} {2}\d+s ago /)
      assert.strictEqual(sessions.wraps, 0)
    })
  )

  it.live("prints an error once, on a line of its own", () =>
    Effect.gen(function* () {
      const { code, lines } = yield* (yield* onPty(["ask", "What?"], { BOWLINE_URL: "http://127.0.0.1:2" })).ended
      assert.strictEqual(code, 1)
      assert.lengthOf(lines, 1)
      assert.match(lines[0] ?? "", /^Cannot reach http:\/\/127\.0\.0\.1:2: .+ECONNREFUSED/)
    })
  )

  it.live("cancels the plan on Ctrl-C, and says so", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("half"), stall]])
      const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: url })
      yield* terminal.shows(/^half$/m)
      yield* terminal.type(interrupt)
      const { code, lines } = yield* terminal.ended
      assert.strictEqual(code, 130)
      assert.match(lines[2] ?? "", /^half(?:\^C)?$/)
      assert.deepStrictEqual(lines.slice(3), ["Cancelling the plan. Ctrl-C quits at once", "Cancelled"])
      const [plan] = yield* plansOf(url)
      assert.deepInclude(plan?.["error"], { code: "aborted", reason: "cancelled" })
    })
  )

  it.live("quits at once on a second Ctrl-C, though the cancel is not answered", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(({ url }) =>
        url.pathname.endsWith("/cancel") ? Effect.never : Effect.succeed(stalledPlan)
      )
      const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: host.url })
      yield* terminal.shows(/in session /)
      yield* terminal.type(interrupt)
      yield* host.requests.awaitCount(2)
      // Within half a second a signal is the echo of the first one.
      yield* Effect.raceFirst(terminal.ended, Effect.repeat(terminal.type(interrupt), Schedule.spaced("100 millis")))
      const { lines } = yield* terminal.ended
      const said = lines.map((line) => line.replaceAll("^C", "")).filter((line) => line !== "")
      assert.deepStrictEqual(said.slice(2), ["Cancelling the plan. Ctrl-C quits at once"])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("resumes the plan after the gateway was killed and started again", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const turns: Array<Turn> = [[say("half\n"), stall], [say("whole")]]
      const provider = yield* network.serve(yield* ChatHost.make(turns))
      const settings = {
        ...(yield* databases.postgres),
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted",
        BOWLINE_LEASE_TTL: "1s"
      }
      const first = yield* GatewayProcess.start(settings)
      const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: first.url })
      yield* terminal.shows(/^half$/m)
      yield* first.kill("SIGKILL")
      yield* terminal.shows(/ · reconnecting · step 1$/m)
      yield* GatewayProcess.start({ ...settings, BOWLINE_PORT: new URL(first.url).port })
      const { code, lines } = yield* terminal.ended
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(
        lines.slice(2).filter((line) => !line.startsWith("↻")),
        ["half", retracted, "whole"]
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("tail shows a call that waits, how it is answered, and its end, and Ctrl-C leaves the plan", () =>
    Effect.gen(function* () {
      const skills = [{ id: "pay", description: "Pays", approval: "always" }]
      const agents = [{ name: "ann", endpoint: "http://127.0.0.1:1/", dialect: "a2a-0.3", skills }]
      const { url } = yield* start([[callTool("ann_pay", { input: "hi" })], [say("not paid")]])
      const asked = yield* Effect.forkChild(
        post(`${url}/plan`, { question: "?", agents, preferences: { on_disconnect: "continue" } })
      )
      const [plan] = yield* Effect.repeat(plansOf(url), { until: ([plan]) => plan?.["stage"] === "approval" })
      const tail = onPty(["tail", String(plan?.["plan_id"])], { BOWLINE_URL: url }, { columns: 200 })
      const left = yield* tail
      yield* left.shows(/waiting for an approval: ann_pay/)
      yield* left.type(interrupt)
      assert.strictEqual((yield* left.ended).code, 130)

      const terminal = yield* tail
      const shown = yield* terminal.shows(/waiting for an approval: ann_pay/)
      const [, ...words] = /: bowline (answer) (\S+) (\S+) --approve/.exec(shown.join("")) ?? []
      yield* (yield* bowline([...words, "--reject"], { BOWLINE_URL: url })).ended
      const { code, lines } = yield* terminal.ended
      assert.strictEqual(code, 0)
      assert.match(lines[1] ?? "", /^\? ann_pay waits for an approval until .{24}: {"input":"hi"}$/)
      assert.match(lines[3] ?? "", /^✗ reject by \S+$/)
      assert.match(lines[4] ?? "", /^✗ ann_pay rejected: .+ \(\d+ms\)$/)
      assert.deepStrictEqual(lines.slice(5), ["not paid"])
      yield* Fiber.join(asked)
    })
  )
})
