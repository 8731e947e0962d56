import { stall, until } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { join } from "node:path"
import { toSaid } from "../../src/cli/TypedTexts.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { send, start } from "../http/RunningGateway.ts"
import { hasPty, interrupt, onPty } from "./Pty.ts"

it("takes a line for what is said at the next step, and with ! in front for what is said at once", () => {
  for (const [line, said] of [
    ["The red one ", { text: "The red one", when: "boundary" }],
    [" ! stop", { text: "stop", when: "now" }],
    ["!now!", { text: "now!", when: "now" }],
    ["  ", undefined],
    ["!", undefined]
  ] as const) {
    assert.deepStrictEqual(toSaid(line), said, line)
  }
})

const columns = 160

const short = "presets: { short: { preferences: { max_steps: 1 } } }"
const bank = `
presets:
  bank:
    agents:
      - name: ann
        endpoint: http://127.0.0.1:1/
        dialect: a2a-0.3
        skills:
          - { id: pay, description: Pays, approval: always }
`

describe.skipIf(!hasPty)("a line that is typed into bowline ask on a terminal (skipped without `script`)", () => {
  it.live("is said to the plan at its next step; the text that comes meanwhile is shown behind the line", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start((asked) =>
        question(asked) === "What?"
          ? [say("first half, "), until(Deferred.await(proceed)), say("second half")]
          : [say(`heard: ${question(asked)}`)]
      )
      const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: url }, { columns })
      yield* terminal.shows(/^first half, $/m)
      yield* terminal.type("The red o")
      yield* terminal.shows(/^> The red o$/m)
      yield* terminal.type("ne\r")
      yield* terminal.shows(/^» \S+: The red one$/m)
      yield* terminal.type("And")
      yield* terminal.shows(/^> And$/m)
      yield* Deferred.succeed(proceed, undefined)
      // The line that was begun is taken back.
      yield* terminal.type("\u0015")
      const { code, lines } = yield* terminal.ended
      assert.strictEqual(code, 0)
      const shown = lines.join("\n")
      assert.match(shown, /^✓ taken in step 2: The red one$/m)
      assert.match(shown, /^second half$/m)
      assert.notMatch(shown, /And/)
      assert.strictEqual(lines.at(-1), "heard: The red one")
    })
  )

  it.live("is said at once with ! in front, and the answer that came is retracted", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        question(asked) === "What?" ? [say("half"), stall] : [say(`heard: ${question(asked)}`)]
      )
      for (const environment of [{}, { TERM: "dumb" }]) {
        const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: url, ...environment }, { columns })
        yield* terminal.shows(/^half$/m)
        yield* terminal.type("!stop\r")
        const { code, lines } = yield* terminal.ended
        assert.deepStrictEqual([code, lines.at(-1)], [0, "heard: stop"])
        assert.match(lines.join("\n"), /^↺ The text above is retracted/m)
      }
    })
  )

  it.live("is asked by a new plan, which is shown, where the plan completes without it", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start(
        (asked) =>
          question(asked) === "What?"
            ? [say("half"), until(Deferred.await(proceed))]
            : [say(`heard: ${question(asked)}`)],
        { BOWLINE_CONFIG: join(yield* folderOf({ "gateway.yaml": short }), "gateway.yaml") }
      )
      const terminal = yield* onPty(["ask", "What?", "--preset", "short"], { BOWLINE_URL: url }, { columns })
      yield* terminal.shows(/^half$/m)
      yield* terminal.type("And now?\r")
      yield* terminal.shows(/^» \S+: And now\?$/m)
      yield* Deferred.succeed(proceed, undefined)
      const { code, lines } = yield* terminal.ended
      assert.deepStrictEqual([code, lines.at(-1)], [0, "heard: And now?"])
      assert.lengthOf(
        lines.filter((line) => / in session /.test(line)),
        2
      )
    })
  )

  it.live("comes back behind the question about a call that was asked meanwhile", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const isBack = yield* Deferred.make<void>()
      const folder = yield* folderOf({ "gateway.yaml": bank })
      const { url } = yield* start(
        (asked) =>
          results(asked).length > 0
            ? [until(Deferred.await(isBack)), say(`heard: ${question(asked)}`)]
            : [until(Deferred.await(proceed)), callTool("ann_pay", { input: "hi" })],
        { BOWLINE_CONFIG: join(folder, "gateway.yaml") }
      )
      const terminal = yield* onPty(["ask", "What?", "--preset", "bank"], { BOWLINE_URL: url }, { columns })
      yield* terminal.shows(/asking the model/)
      yield* terminal.type("The red")
      yield* terminal.shows(/^> The red$/m)
      yield* Deferred.succeed(proceed, undefined)
      yield* terminal.shows(/Approve ann_pay\?.*: $/m)
      yield* terminal.type("n\r")
      yield* terminal.shows(/^> The red$/m)
      yield* Deferred.succeed(isBack, undefined)
      const { lines } = yield* terminal.ended
      assert.notInclude(lines.join("\n"), "> The red")
    })
  )

  it.live("does not keep Ctrl-C from cancelling the plan, and leaves the terminal as it was", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("half"), stall]])
      const terminal = yield* onPty(["ask", "What?"], { BOWLINE_URL: url }, { columns, after: "stty -a" })
      yield* terminal.shows(/^half$/m)
      yield* terminal.type("not yet")
      yield* terminal.shows(/^> not yet$/m)
      yield* terminal.type(interrupt)
      const { lines } = yield* terminal.ended
      const shown = lines.join("\n")
      assert.match(shown, /^half\nCancelling the plan\. Ctrl-C quits at once\nCancelled$/m)
      assert.match(shown, / icanon /)
      assert.include((yield* send(`${url}/plans`)).text, '"reason":"cancelled"')
    })
  )
})
