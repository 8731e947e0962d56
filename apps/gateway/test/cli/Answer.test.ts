import { createBowline } from "@bowline/client"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { start } from "../http/RunningGateway.ts"
import { bowline, outputOf, outputOfProcess } from "./Bowline.ts"
import { hasPty, onPty } from "./Pty.ts"

const tool = { name: "pick", input_schema: { type: "object", properties: { among: { type: "integer" } } } }

/** Plans that wait for the result of `pick`, and those whose call of it has to be approved before. */
const withWaits = Effect.fnUntraced(function* (...approvals: ReadonlyArray<"always" | "never">) {
  const { url } = yield* start((asked) =>
    results(asked).length === 0 ? [callTool("pick", { among: 3 })] : [say(results(asked).join())]
  )
  const plans = approvals.map((approval) =>
    createBowline({ baseUrl: url }).plan({ question: "Which?", tools: [{ ...tool, approval }] })
  )
  for (const plan of plans) plan.result().catch(() => undefined)
  const run = (...args: ReadonlyArray<string>) => outputOf(args, { BOWLINE_URL: url })
  yield* Effect.promise(async () => {
    for (const plan of plans) {
      const reading = plan[Symbol.asyncIterator]()
      for (let next = await reading.next(); ; next = await reading.next()) {
        if (next.done === true || ["waiting", "approval.requested"].includes(next.value.event)) break
      }
    }
  })
  /** The rows of what waits. */
  const waiting = (...args: ReadonlyArray<string>) =>
    Effect.map(outputOfProcess(["waiting", ...args], { BOWLINE_URL: url }), ({ stdout }) =>
      stdout
        .trimEnd()
        .split("\n")
        .map((row) => row.split("\t"))
    )
  return { url, plans, run, waiting }
})

describe("bowline waiting and bowline answer", () => {
  it.live("list what waits, and give a call its result, its failure, or its decision", () =>
    Effect.gen(function* () {
      const { plans, run, waiting } = yield* withWaits("never", "never", "always")
      const rows = yield* waiting()
      assert.deepStrictEqual(
        rows
          .map(([, , kind, name, , , what]) => [kind, name, what])
          .toSorted(([a = ""], [b = ""]) => a.localeCompare(b)),
        ["approval", "result", "result"].map((kind) => [kind, "pick", '{"among":3}'])
      )
      const [[first = "", firstTask = ""] = [], [second = "", secondTask = ""] = []] = yield* waiting(
        "--kind",
        "result"
      )
      const [[third = "", thirdTask = ""] = []] = yield* waiting("--kind", "approval")

      const given = yield* run("answer", first, firstTask, "--result", '{"color":"red"}')
      assert.deepStrictEqual([given.code, given.stderr], [0, ""])
      assert.match(given.stdout, /^\S+\tplan_\S+\n$/)
      const isOf = (id: string) => plans.find((plan) => plan.view().planId === id)
      assert.include((yield* Effect.promise(async () => isOf(first)?.result()))?.text, '{"color":"red"}')

      assert.strictEqual((yield* run("answer", second, secondTask, "--error", "Nobody is there")).code, 0)
      assert.include((yield* Effect.promise(async () => isOf(second)?.result()))?.text, "Nobody is there")

      const decided = yield* run(
        "answer",
        third,
        thirdTask,
        "--approve",
        "--input",
        '{"among":4}',
        "--note",
        "one more",
        "--json"
      )
      assert.strictEqual(decided.code, 0)
      assert.deepInclude(JSON.parse(decided.stdout), { plan_id: third, moved: false })
      yield* Effect.promise(async () => {
        for await (const { data, event } of isOf(third) ?? []) {
          if (event === "approval.resolved") assert.deepInclude(data, { decision: "approve", note: "one more" })
          if (event !== "waiting") continue
          assert.deepInclude(data, { input: { among: 4 } })
          break
        }
      })
      assert.strictEqual((yield* run("answer", third, thirdTask, "--text", "blue")).code, 0)
      assert.include((yield* Effect.promise(async () => isOf(third)?.result()))?.text, "blue")
    })
  )

  it.live("say what is wrong: 64 for flags that do not fit what waits, 1 for what the gateway refuses", () =>
    Effect.gen(function* () {
      const { run, waiting } = yield* withWaits("never")
      const [[plan = "", task = ""] = []] = yield* waiting()
      for (const [flags, code, line] of [
        [
          [],
          64,
          /^Expected --approve or --reject, --result or --error, --text, --data or --action \(see bowline answer/
        ],
        [["--approve"], 64, /waits for result: expected --result or --error/],
        [["--result", "{"], 64, /Expected JSON/],
        [["--result", "1", "--error", "no"], 64, /one answer/],
        [["--reject", "--input", "{}"], 64, /expected --result or --error/]
      ] as const) {
        const ended = yield* run("answer", plan, task, ...flags)
        assert.deepStrictEqual([ended.code, ended.stdout], [code, ""], flags.join(" "))
        assert.match(ended.stderr, line)
        assert.lengthOf(ended.stderr.trimEnd().split("\n"), 1)
      }
      const never = yield* run("answer", plan, "00000000-0000-4000-8000-000000000000", "--result", "1")
      assert.strictEqual(never.code, 1)
      assert.match(never.stderr, /^not_found: /)
      assert.strictEqual((yield* run("answer", plan, task, "--result", '"red"')).code, 0)
      const again = yield* run("answer", plan, task, "--result", '"blue"')
      assert.strictEqual(again.code, 1)
      assert.match(again.stderr, /^task_settled: /)
    })
  )
})

describe.skipIf(!hasPty)("a plan that waits for somebody, on a terminal (skipped without `script`)", () => {
  it.live("is shown with the command that answers it", () =>
    Effect.gen(function* () {
      const { plans, url } = yield* withWaits("never")
      const id = plans[0]?.view().planId ?? ""
      const terminal = yield* onPty(["tail", id], { BOWLINE_URL: url }, { columns: 200 })
      const shown = yield* terminal.shows(/waiting for somebody: pick/)
      assert.match(shown.join("\n"), /^\? pick waits for its result until \S+: {"among":3}$/m)
      const [, command = ""] = /^ {2}result: bowline (answer .*) JSON$/m.exec(shown.join("\n")) ?? []
      const { ended } = yield* bowline([...command.split(" "), '"red"'], { BOWLINE_URL: url })
      assert.strictEqual((yield* ended).code, 0)
      assert.include((yield* terminal.ended).lines.join("\n"), "✓ pick completed")
    })
  )
})
