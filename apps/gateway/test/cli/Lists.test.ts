import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { post, start } from "../http/RunningGateway.ts"
import { bowline, outputOf, outputOfProcess } from "./Bowline.ts"

/** A command that speaks to the gateway, and has ended. */
const runAt =
  (url: string) =>
  (...args: ReadonlyArray<string>) =>
    outputOf(args, { BOWLINE_URL: url })

const rowsOf = (stdout: string) =>
  stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split("\t"))

/** A gateway with three plans: one completed, one failed, and one that runs. */
const withPlans = Effect.gen(function* () {
  const { provider, url } = yield* start([[say("x")], [], [stall]])
  const long = `tab\there, line\nthere, \u001b[31mescape ${"long ".repeat(40)}`
  yield* post(`${url}/plan`, { question: long, session_id: "first", preferences: { max_total_tokens: 100_000 } })
  yield* post(`${url}/plan`, { question: "two", session_id: "second", preferences: { max_total_tokens: 1 } })
  const controller = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
  // It is read from the start: fetch would close a stream that nobody reads at the next garbage collection.
  const running = fetch(`${url}/plan`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ question: "three", session_id: "second" }),
    signal: controller.signal
  })
    .then((response) => response.text())
    .catch(() => "")
  yield* provider.requests.awaitCount(2)
  return { url, run: runAt(url), running }
})

describe("bowline plans and sessions", () => {
  it.live("list the newest first, in a pipe with whole cells between tabs, one line each", () =>
    Effect.gen(function* () {
      const { run, url } = yield* withPlans
      const plans = yield* run("plans")
      assert.deepStrictEqual([plans.code, plans.stderr], [0, ""])
      const rows = rowsOf(plans.stdout)
      const [third, second, first] = rows
      assert.lengthOf(rows, 3)
      for (const row of rows) {
        assert.match(row[0] ?? "", /^plan_[0-9a-f-]{36}$/)
        assert.strictEqual(new Date(row[2] ?? "").toISOString(), row[2])
      }
      assert.deepStrictEqual(third?.toSpliced(2, 1).slice(1), ["running", "three", "provider", "second"])
      assert.deepStrictEqual(second?.toSpliced(2, 1).slice(1), ["failed", "two", "budget_exceeded", "second"])
      assert.match(first?.[3] ?? "", /^tab here, line there, ␛\[31mescape (?:long ){20,}.*$/)

      const sessions = yield* outputOfProcess(["sessions"], { BOWLINE_URL: url })
      assert.deepStrictEqual(
        rowsOf(sessions.stdout).map(([name, , , messages]) => [name, messages]),
        [
          ["second", "2"],
          ["first", "2"]
        ]
      )
    })
  )

  it.live("filter, and print a page and where the next one starts", () =>
    Effect.gen(function* () {
      const { run } = yield* withPlans
      for (const [flags, questions] of [
        [["--error-code", "budget_exceeded"], ["two"]],
        [["--q", "THR"], ["three"]],
        [["--model", "openai/none"], []],
        [["--since", "2999-01-01T00:00:00Z"], []],
        [["--until", "2000-01-01T00:00:00Z"], []],
        [["--caller", "somebody"], []],
        [
          ["--q", "t", "--session", "second"],
          ["three", "two"]
        ]
      ] as const) {
        const { code, stderr, stdout } = yield* run("plans", ...flags)
        assert.deepStrictEqual(
          [code, stderr, rowsOf(stdout).map((row) => row[3])],
          [0, "", [...questions]],
          flags.join()
        )
      }
      const failed = yield* run("plans", "--state", "failed")
      assert.deepStrictEqual(
        rowsOf(failed.stdout).map(([, state]) => state),
        ["failed"]
      )
      const ofFirst = yield* run("plans", "--session", "first", "--json")
      assert.lengthOf((JSON.parse(ofFirst.stdout) as { plans: ReadonlyArray<unknown> }).plans, 1)
      const [plans, page] = yield* Effect.all([run("plans"), run("plans", "--limit", "1")], { concurrency: 2 })
      const [, cursor = ""] = /^There are more plans: --cursor (\S+)\n$/.exec(page.stderr) ?? []
      const [next, json] = yield* Effect.all(
        [run("plans", "--limit", "200", "--cursor", cursor), run("sessions", "--limit", "1", "--json")],
        { concurrency: 2 }
      )
      assert.strictEqual(page.stdout + next.stdout, plans.stdout)
      assert.strictEqual(next.stderr, "")
      const { sessions, next_cursor } = JSON.parse(json.stdout) as Record<string, unknown>
      assert.deepInclude((sessions as ReadonlyArray<unknown>)[0], { external_session_id: "second" })
      const rest = yield* run("sessions", "--cursor", String(next_cursor))
      assert.deepStrictEqual(
        rowsOf(rest.stdout).map(([name]) => name),
        ["first"]
      )
      assert.strictEqual(json.stderr, "")
    })
  )

  it.live("say which flag is wrong, with the exit code 64, and which session is unknown", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const run = runAt(url)
      const cases = [
        [["plans", "--limit", "201"], 64, /^[^\n]*--limit[^\n]*Expected an integer between 1 and 200[^\n]*\n$/],
        [["plans", "--limit", "abc"], 64, /^[^\n]*--limit[^\n]*Expected an integer between 1 and 200[^\n]*\n$/],
        [["sessions", "--cursor", "?"], 64, /^[^\n]*--cursor[^\n]*Expected the next_cursor of a page[^\n]*\n$/],
        [["plans", "--state", "over"], 64, /^[^\n]*--state[^\n]*queued[^\n]*\n$/],
        [["plans", "--session", "none"], 1, /^not_found: [^\n]+\n$/]
      ] as const
      const ended = yield* Effect.forEach(cases, ([args]) => run(...args), { concurrency: 2 })
      for (const [index, [, code, line]] of cases.entries()) {
        assert.match(ended[index]?.stderr ?? "", line)
        assert.deepInclude(ended[index], { code, stdout: "" })
      }
      assert.deepInclude(yield* run("plans"), { code: 0, stdout: "", stderr: "" })
    })
  )

  it.live("refuse a gateway's URL with a password, and do not repeat it", () =>
    Effect.gen(function* () {
      for (const user of ["ann:planted@", "planted@", ":planted@"]) {
        const { code, stderr, stdout } = yield* runAt(`http://${user}127.0.0.1:1`)("plans")
        assert.deepStrictEqual([code, stdout], [78, ""])
        assert.match(stderr, /^BOWLINE_URL: Expected an http or https URL without a user and a password; [^\n]+\n$/)
        assert.notInclude(stderr, "planted")
      }
    })
  )

  it.live("end quietly when nobody reads on", () =>
    Effect.gen(function* () {
      const { url } = yield* withPlans
      const { child, ended } = yield* bowline(["plans", "--json"], { BOWLINE_URL: url })
      child.stdout.destroy()
      assert.deepInclude(yield* ended, { code: 0, stderr: "", signal: null })
    })
  )
})

describe("bowline cancel", () => {
  it.live("aborts a plan, leaves one alone that is over, and says what it is then", () =>
    Effect.gen(function* () {
      const { run, running, url } = yield* withPlans
      const [[id = ""] = []] = rowsOf((yield* run("plans", "--state", "running")).stdout)
      const [row] = rowsOf((yield* outputOfProcess(["cancel", id], { BOWLINE_URL: url })).stdout)
      assert.deepStrictEqual([row?.[0], row?.[1], row?.[4]], [id, "aborted", "cancelled"])
      assert.include(yield* Effect.promise(() => running), '"reason":"cancelled"')
      const [[over = ""] = []] = rowsOf((yield* run("plans", "--state", "completed")).stdout)
      assert.deepInclude(JSON.parse((yield* run("cancel", over, "--json")).stdout), { state: "completed" })
      const unknown = yield* run("cancel", "plan_x")
      assert.deepInclude(unknown, { code: 1, stdout: "", stderr: "not_found: There is no such plan\n" })
    })
  )
})

describe("bowline tail", () => {
  it.live("prints the frames of a plan, live to its end, as lines or as JSON, and fails with the plan", () =>
    Effect.gen(function* () {
      const { run, url } = yield* withPlans
      const [running = "", failedId = "", completed = ""] = rowsOf((yield* run("plans")).stdout).map(([id]) => id)
      const over = yield* run("tail", completed)
      assert.deepStrictEqual([over.code, over.stderr], [0, ""])
      const rows = rowsOf(over.stdout)
      assert.deepStrictEqual(
        rows.map(([seq]) => Number(seq)),
        rows.map((_, index) => index + 1)
      )
      assert.deepInclude(rows, ["4", "text.delta", '{"step":1,"attempt":1,"delta":"x"}'])
      assert.deepStrictEqual(rows.at(-1), [String(rows.length), "done", "{}"])

      const failed = yield* run("tail", failedId, "--json")
      assert.match(failed.stderr, /^budget_exceeded: [^\n]+\n$/)
      assert.strictEqual(failed.code, 1)
      const frames = failed.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, unknown>)
      assert.deepInclude(frames[0], { id: 1, event: "session" })
      assert.deepInclude(frames.at(-1), { event: "done" })

      const live = yield* bowline(["tail", running], { BOWLINE_URL: url })
      yield* Effect.repeat(
        Effect.promise(() => once(live.child.stdout, "data")),
        { until: () => live.output.stdout.includes("\tstep\t") }
      )
      yield* run("cancel", running)
      const { code, stderr } = yield* live.ended
      assert.deepStrictEqual([code, stderr], [1, "aborted: The plan was cancelled, in stage provider\n"])
      const unknown = yield* run("tail", "plan_x")
      assert.deepInclude(unknown, { code: 1, stdout: "", stderr: "not_found: There is no such plan\n" })
    })
  )
})
