import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { start } from "../http/RunningGateway.ts"
import { outputOf, outputOfProcess } from "./Bowline.ts"

const runAt =
  (url: string) =>
  (...args: ReadonlyArray<string>) =>
    outputOf(["schedules", ...args], { BOWLINE_URL: url, TZ: "Europe/Berlin" })

const rowsOf = (stdout: string) =>
  stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.split("\t"))

describe("bowline schedules", () => {
  it.live("makes, shows, pauses, fires and removes schedules by their names", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Two knots slipped.")])
      const run = runAt(url)
      const none = yield* outputOfProcess(["schedules"], { BOWLINE_URL: url })
      assert.deepInclude(none, { code: 0, stdout: "", stderr: "" })
      const added = yield* run(
        "add",
        "nightly",
        "Which knots slipped before {{due_at}}?",
        "--cron",
        "0 9 * * 1-5",
        "--json"
      )
      assert.deepInclude(added, { code: 0, stderr: "" })
      const { when, schedule_id } = JSON.parse(added.stdout) as Record<string, unknown>
      assert.deepStrictEqual(when, { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin" })
      const more = [
        "--every",
        "90m",
        "--from",
        "2026-01-02T03:04:05Z",
        "--plan",
        '{"metadata":{"team":"knots"}}',
        "--same-session"
      ]
      const second = yield* run("add", "often", "And now?", ...more, "--paused", "--overlap", "queue")
      const [row = []] = rowsOf(second.stdout)
      assert.deepStrictEqual([row[0], row[1], row[2], row[4]], ["often", "paused", "", "every 1h 30m"])

      const listed = rowsOf((yield* run()).stdout)
      assert.deepStrictEqual(
        listed.map(([name, state]) => [name, state]),
        [
          ["often", "paused"],
          ["nightly", "active"]
        ]
      )
      assert.match(listed[1]?.[2] ?? "", /^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z$/)
      assert.strictEqual((yield* run("list", "--limit", "1")).stdout.split("\t")[0], "often")

      const shown = new Map(rowsOf((yield* run("show", "often")).stdout).map(([name, value]) => [name, value]))
      assert.strictEqual(shown.get("overlap"), "queue")
      assert.strictEqual(shown.get("plan"), '{"metadata":{"team":"knots"},"question":"And now?","session":"same"}')

      assert.strictEqual(rowsOf((yield* run("pause", "nightly")).stdout)[0]?.[1], "paused")
      assert.strictEqual(rowsOf((yield* run("resume", String(schedule_id))).stdout)[0]?.[1], "active")

      const fired = yield* run("fire", "often")
      assert.match(fired.stdout, /^plan_[0-9a-f-]{36}\n$/)
      assert.strictEqual(fired.stderr, `Watch it: bowline tail ${fired.stdout}`)
      const firings = rowsOf((yield* run("firings", "often")).stdout)
      assert.deepStrictEqual(
        firings.map(([, outcome, plan]) => [outcome, plan]),
        [["started", fired.stdout.trim()]]
      )
      const { firings: asJson } = JSON.parse((yield* run("firings", "often", "--json")).stdout) as Record<
        string,
        unknown
      >
      assert.deepInclude((asJson as ReadonlyArray<unknown>)[0], { outcome: "started", reason: null })

      assert.deepInclude(yield* run("remove", "often"), { code: 0, stdout: "", stderr: "Removed often\n" })
      assert.deepStrictEqual(
        rowsOf((yield* run()).stdout).map(([name]) => name),
        ["nightly"]
      )
    })
  )

  it.live("starts a plan that runs on when the command has ended", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[callTool("wait", { seconds: 1 })], [say("done")]], {})
      const run = runAt(url)
      yield* run("add", "slow", "Take your time", "--at", "2999-01-02T03:04:05Z")
      const { stdout } = yield* run("fire", "slow")
      const plan = Effect.promise(
        async () => (await fetch(`${url}/plans/${stdout.trim()}`)).json() as Promise<{ state: string }>
      )
      const { state } = yield* Effect.repeat(plan, {
        until: ({ state }) => !["queued", "running", "waiting"].includes(state),
        schedule: Schedule.spaced("50 millis")
      })
      assert.strictEqual(state, "completed")
    })
  )

  it.live("says what is wrong: with the flags by the exit code 64, else what the gateway says", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const run = runAt(url)
      const cases = [
        [["add", "a", "Q"], 64, /^Expected --cron, --every or --at [^\n]*--help\)\n$/],
        [["add", "a", "Q", "--cron", "* * * * *", "--every", "1h"], 64, /^Expected --cron, --every or --at /],
        [["add", "a", "Q", "--at", "2999-01-02T03:04:05Z", "--zone", "UTC"], 64, /^--zone is for --cron /],
        [["add", "a", "--every", "1h"], 64, /^Expected a question, /],
        [["add", "a", "Q", "--every", "often"], 64, /--every[^\n]*such as 500ms/],
        [["add", "a", "Q", "--cron", "*/0 * * * *"], 1, /^invalid_request: when\.cron: [^\n]*in place of \*\/0\n$/],
        [["add", "a", "Q", "--every", "2s"], 1, /^invalid_request: when\.every_ms: [^\n]*BOWLINE_SCHEDULE_MIN/],
        [["show", "b"], 1, /^There is no schedule b: bowline schedules lists yours\n$/],
        [["pause", "schedule_00000000-0000-4000-8000-000000000000"], 1, /^not_found: [^\n]+\n$/]
      ] as const
      const ended = yield* Effect.forEach(cases, ([args]) => run(...args), { concurrency: 2 })
      for (const [index, [args, code, line]] of cases.entries()) {
        assert.match(ended[index]?.stderr ?? "", line, args.join(" "))
        assert.deepInclude(ended[index], { code, stdout: "" }, args.join(" "))
      }
      yield* run("add", "a", "Q", "--every", "1h")
      assert.match((yield* run("add", "a", "Q", "--every", "1h")).stderr, /^name_taken: [^\n]+\n$/)
    })
  )
})
