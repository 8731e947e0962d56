import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import type { PlanFrame } from "@bowline/client"
import { BowlineError } from "@bowline/client"
import { Deferred, Effect, Option, Queue } from "effect"
import { join } from "node:path"
import * as Approvals from "../../src/cli/TypedDecisions.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { bowline } from "./Bowline.ts"
import { hasPty, interrupt, onPty } from "./Pty.ts"

/** A preset whose one agent, which nobody reaches, is asked only behind an approval. */
const gateway = `
presets:
  bank:
    agents:
      - name: ann
        endpoint: http://127.0.0.1:1/
        dialect: a2a-0.3
        skills:
          - { id: pay, description: Pays, approval: always }
`

const end = "\u0004"

const withCalls = Effect.fnUntraced(function* (...inputs: ReadonlyArray<string>) {
  const folder = yield* folderOf({ "gateway.yaml": gateway })
  const calls = inputs.map((input) => callTool("ann_pay", { input }))
  const { url } = yield* start([calls, [say("done")]], { BOWLINE_CONFIG: join(folder, "gateway.yaml") })
  return {
    url,
    ask: (options = {}, environment = {}) =>
      onPty(["ask", "What?", "--preset", "bank"], { BOWLINE_URL: url, ...environment }, options)
  }
})

const asked = /^ {2}Approve ann_pay\? y or n, and a note if you like: $/m

interface Waiting {
  readonly plan_id: string
  readonly task_id: string
  readonly input: { readonly input: string }
}

/** Where the call with this input is decided. */
const routeOf = (url: string, input: string) =>
  Effect.map(send(`${url}/approvals`), ({ body }) => {
    const waiting = body["approvals"] as ReadonlyArray<Waiting>
    const call = waiting.find((one) => one.input.input === input)
    return `${url}/plans/${call?.plan_id}/approvals/${call?.task_id}`
  })

it("takes an answer for a decision if it begins with y or n, and the rest for a note", () => {
  for (const [answer, decision] of [
    ["y", { decision: "approve" }],
    [" Yes ", { decision: "approve" }],
    ["NO", { decision: "reject" }],
    ["n too much", { decision: "reject", note: "too much" }],
    ["yes, but only once ", { decision: "approve", note: "but only once" }],
    ["", undefined],
    ["nobody", undefined],
    ["yep", undefined],
    ["approve", undefined]
  ] as const) {
    assert.deepStrictEqual(Approvals.toDecision(answer), decision, answer)
  }
})

it.effect("asks again where a decision could not be sent, but not where another one stands", () =>
  Effect.gen(function* () {
    const request = (task_id: string): Extract<PlanFrame, { readonly event: "approval.requested" }> => ({
      id: 1,
      event: "approval.requested",
      data: {
        plan_id: "p",
        session_id: "s",
        at: "",
        task_id,
        tool: "pay",
        agent: null,
        input: {},
        expires_at: "",
        why: "always"
      }
    })
    const refusal = (code: string, status?: number) =>
      Effect.fail(new BowlineError({ code, message: "No", retryable: false, status }))
    const lines: Array<string> = []
    const sent: Array<string> = []
    const answers = yield* Queue.unbounded<string>()
    const done = yield* Deferred.make<void>()
    const results = [
      refusal("network"),
      refusal("approval_conflict", 409),
      Effect.asVoid(Deferred.succeed(done, undefined))
    ]
    const terminal = {
      ask: () => Effect.map(Queue.take(answers), Option.some),
      line: (line: string) => void lines.push(line)
    }
    const approvals = yield* Approvals.make(terminal, ({ data }, { decision }) => {
      sent.push(`${data.task_id} ${decision}`)
      return results[sent.length - 1] ?? Effect.void
    })
    approvals.onFrame(request("one"))
    approvals.onFrame(request("two"))
    yield* Queue.offerAll(answers, ["y", "n", "y"])
    yield* Deferred.await(done)
    assert.deepStrictEqual(sent, ["one approve", "one reject", "two approve"])
    assert.deepStrictEqual(lines, ["network: No", "approval_conflict: No"])
  })
)

describe.skipIf(!hasPty)("an approval in bowline ask on a terminal (skipped without `script` of util-linux)", () => {
  it.live("is asked for, and again until the answer is one, and the decision is sent with its note", () =>
    Effect.gen(function* () {
      const { ask } = yield* withCalls("hi")
      const terminal = yield* ask({ columns: 200 })
      yield* terminal.shows(asked)
      yield* terminal.type("maybe\r")
      yield* terminal.shows(/: maybe\n {2}Approve ann_pay\?.*: $/m)
      yield* terminal.type("no, too much\r")
      const { code, lines } = yield* terminal.ended
      assert.strictEqual(code, 0)
      const question = "  Approve ann_pay? y or n, and a note if you like:"
      assert.match(lines[1] ?? "", /^\? ann_pay waits for an approval until .{24}: {"input":"hi"}$/)
      assert.deepStrictEqual(lines.slice(2, 4), [`${question} maybe`, `${question} no, too much`])
      assert.match(lines[4] ?? "", /^✗ reject by \S+: too much$/)
      assert.match(lines[5] ?? "", /^✗ ann_pay rejected: /)
      assert.deepStrictEqual(lines.slice(6), ["done"])
    })
  )

  it.live("is asked for one call after the other; what happens meanwhile stands above the answer that is typed", () =>
    Effect.gen(function* () {
      const { ask, url } = yield* withCalls("one", "two", "three")
      const reject = (input: string) =>
        Effect.flatMap(routeOf(url, input), (route) => post(route, { decision: "reject" }))
      const terminal = yield* ask({ columns: 200 })
      yield* terminal.shows(/"three"}\n {2}Approve ann_pay\?.*: $/m)
      yield* terminal.type("y but")
      yield* terminal.shows(/: y but$/m)
      yield* reject("three")
      yield* terminal.shows(/✗ reject by \S+\n(?:✗ .*\n)? {2}Approve ann_pay\?.*: y but$/m)
      // Somebody else decides about the call in question: the next one is asked about.
      yield* reject("one")
      yield* terminal.shows(/✗ reject by \S+\n(?:✗ .*\n)? {2}Approve ann_pay\?.*: $/m)
      yield* terminal.type("n\r")
      const { code, lines } = yield* terminal.ended
      assert.strictEqual(code, 0)
      assert.lengthOf(
        lines.filter((line) => line.startsWith("✗ reject by ")),
        3
      )
      assert.notInclude(lines.join("\n"), "y but")
      assert.strictEqual(lines.at(-1), "done")
    })
  )

  it.live("says at the end of its input how the call is decided elsewhere, and waits", () =>
    Effect.gen(function* () {
      const { ask, url } = yield* withCalls("hi")
      const terminal = yield* ask({ columns: 300 })
      yield* terminal.shows(asked)
      yield* terminal.type(end)
      const shown = yield* terminal.shows(/approve, or --reject: bowline answer/)
      const [, ...words] = /: bowline (answer) (\S+) (\S+) --approve/.exec(shown.join("\n")) ?? []
      const rejected = yield* bowline([...words, "--reject", "--json"], { BOWLINE_URL: url })
      assert.strictEqual((yield* rejected.ended).code, 0)
      const { code, lines } = yield* terminal.ended
      assert.deepStrictEqual([code, lines.at(-1)], [0, "done"])
    })
  )

  it.live("goes with Ctrl-C, which cancels the plan, and leaves the terminal as it was", () =>
    Effect.gen(function* () {
      const { ask, url } = yield* withCalls("hi")
      const terminal = yield* ask({ columns: 200, after: "stty -a" })
      yield* terminal.shows(asked)
      yield* terminal.type(`y${interrupt}`)
      const { lines } = yield* terminal.ended
      const said = lines.slice(2, 4)
      assert.deepStrictEqual(said, ["Cancelling the plan. Ctrl-C quits at once", "Cancelled"])
      assert.match(lines.join(" "), / icanon .* echo /)
      const { body } = yield* send(`${url}/plans`)
      assert.include(JSON.stringify(body["plans"]), '"reason":"cancelled"')
    })
  )

  it.live("is asked for without a control sequence where TERM=dumb", () =>
    Effect.gen(function* () {
      const { ask } = yield* withCalls("hi")
      const terminal = yield* ask({ columns: 200 }, { TERM: "dumb", NO_COLOR: "1" })
      yield* terminal.shows(asked)
      yield* terminal.type("n later\r")
      const { code, lines } = yield* terminal.ended
      assert.deepStrictEqual([code, lines.at(-1)], [0, "done"])
      assert.match(lines.join("\n"), /^✗ reject by \S+: later$/m)
      assert.notInclude(terminal.output.text, "\u001b[")
    })
  )

  it.live("is not asked for where stdin or stderr is no terminal: the line says how it is given", () =>
    Effect.gen(function* () {
      for (const redirect of ["</dev/null", "2>&1 | cat"]) {
        const { ask, url } = yield* withCalls("hi")
        const terminal = yield* ask({ columns: 300, redirect })
        yield* terminal.shows(/approve, or --reject: bowline answer/)
        yield* post(yield* routeOf(url, "hi"), { decision: "reject" })
        const { lines } = yield* terminal.ended
        assert.notInclude(lines.join("\n"), "y or n")
        assert.strictEqual(lines.at(-1), "done")
      }
    })
  )
})
