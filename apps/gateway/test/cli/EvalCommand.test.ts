import { callTool, say } from "@bowline/testing/provider/Turn"
import { wait } from "@bowline/testing/http/Move"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { askGateway, checkCases } from "@bowline/testing/evaluate/AskGateway"
import { readCases } from "@bowline/testing/evaluate/Evaluate"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { bowline, outputOf } from "./Bowline.ts"

const check = `import type { PlanView } from "@bowline/client"

export default ({ text }: PlanView) => [{ pass: text !== "", score: text.length / 100, why: "its length" }]
`

const allowed = { BOWLINE_ALLOWED_MODELS: "openai/good,openai/worse" }

describe("bowline eval", () => {
  it.live(
    "compares models on exported plans and questions, goes on where it was stopped, and fails where one fails",
    () =>
      Effect.gen(function* () {
        const isHeld = yield* Deferred.make<void>()
        let holds = true
        const script: Script = (asked) => {
          if (question(asked).startsWith("Slow") && holds) {
            Deferred.doneUnsafe(isHeld, Effect.void)
            return [wait("1 hour"), say("Late.")]
          }
          if (results(asked).length === 0 && !question(asked).startsWith("Slow")) return [callTool("nothing_there", {})]
          return [say(asked.model === "worse" ? "A bow tie." : "A bowline.")]
        }
        const { provider, url } = yield* start(script, allowed)
        const { body } = yield* post(`${url}/plan`, { question: "Which knot?" })
        const plan = String(body["plan_id"])
        const { text } = yield* Effect.promise(async () => {
          const exported = await fetch(`${url}/plans/${plan}/export`)
          return { text: Buffer.from(await exported.arrayBuffer()) }
        })
        const folder = yield* folderOf({
          "check.ts": check,
          "cases.jsonl": [
            { id: plan, expect: { contains: "bowline", calls: [{ tool: "nothing_there" }] } },
            { id: "slow", question: "Slow?", expect: { max_steps: 1 } }
          ]
            .map((line) => JSON.stringify(line))
            .join("\n")
        })
        const at = (name: string) => join(folder, name)
        writeFileSync(at("plan.bowline"), text)
        const args = ["eval", at("plan.bowline"), at("cases.jsonl"), "--model", "openai/good,openai/worse"]
        const files = ["--check", at("check.ts"), "--out", at("report.json"), "--junit", at("junit.xml")]
        const environment = { BOWLINE_URL: url }

        const stopped = yield* bowline([...args, ...files, "--concurrency", "1"], environment)
        yield* Effect.raceFirst(Deferred.await(isHeld), stopped.ended)
        stopped.child.kill("SIGINT")
        const interrupted = yield* stopped.ended
        assert.deepStrictEqual([interrupted.code, interrupted.stdout], [130, ""], interrupted.stderr)
        assert.isFalse(existsSync(at("report.json")))
        assert.lengthOf(readFileSync(at("report.json.part"), "utf8").trim().split("\n"), 2)
        // A process that was killed in the middle of a line: the next one does not go on in it.
        appendFileSync(at("report.json.part"), '{"key":')
        const { body: left } = yield* send(`${url}/plans?state=running`)
        assert.deepStrictEqual(left["plans"], [])

        // What is asked costs money: it is refused before that it cannot be written down.
        for (const file of [join(folder, "none", "report.json"), folder]) {
          const unwritable = yield* outputOf([...args, "--out", file], environment)
          assert.deepStrictEqual([unwritable.code, unwritable.stdout], [1, ""])
          assert.match(unwritable.stderr, new RegExp(`^Cannot write ${file}: E[A-Z]+: .*\n$`))
        }
        const { text: asked } = yield* send(`${url}/plans`)
        const repeated = yield* outputOf(["eval", at("cases.jsonl"), "--model", "openai/good,openai/good"], environment)
        assert.deepStrictEqual([repeated.code, repeated.stdout], [64, ""])
        const judge = yield* outputOf([...args, ...files, "--judge", "openai/none"], environment)
        assert.strictEqual(judge.code, 1)
        assert.match(readFileSync(at("report.json.part"), "utf8"), /\n\{"key":\n$/)
        assert.include(judge.stderr, "openai/none: preferences.model")
        assert.strictEqual((yield* send(`${url}/plans`)).text, asked)

        holds = false
        const whole = yield* Effect.flatMap(bowline([...args, ...files], environment), ({ ended }) => ended)
        assert.strictEqual(whole.code, 1, whole.stderr)
        assert.include(whole.stderr, "Going on behind 2 runs")
        assert.match(whole.stdout, /^openai\/good\t100\.0 %\t0\.100\t/m)
        assert.match(whole.stdout, /^openai\/worse\t50\.0 %\t/m)
        assert.match(whole.stdout, /^openai\/worse: pass −50\.0 % \(−\d+\.\d % to \+\d+\.\d %\): \d+ cases would tell/m)
        assert.include(whole.stdout, `${plan}: openai/worse: it does not contain "bowline": A bow tie.`)
        assert.isFalse(existsSync(at("report.json.part")))
        assert.include(readFileSync(at("report.html"), "utf8"), "A bow tie.")
        assert.include(readFileSync(at("junit.xml"), "utf8"), `<testcase classname="openai/worse" name="${plan}"`)

        // The plan is on no gateway here: what its calls gave is in the file.
        const local = { ...allowed, OPENAI_BASE_URL: `${provider.url}/v1`, OPENAI_API_KEY: "k" }
        const again = [...args, "--local", "--baseline", at("report.json")]
        const known = yield* Effect.flatMap(bowline(again, local), ({ ended }) => ended)
        assert.strictEqual(known.code, 0, known.stderr + known.stdout)
        assert.match(known.stdout, /^openai\/worse\t50\.0 %\t/m)
        // Its log is not in the table.
        assert.notInclude(known.stdout, "plan_completed")
      })
  )

  it.live("refuses what the gateway would refuse before it asks anything", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], allowed)
      const refusal = (line: object, model = "openai/good") =>
        Effect.promise(async (signal) => {
          const cases = readCases([{ path: "cases", bytes: Buffer.from(JSON.stringify(line)) }])
          return checkCases({ baseUrl: url }, cases, [model], signal).then(
            () => "",
            (error: unknown) => String(error)
          )
        })
      assert.strictEqual(yield* refusal({ question: "Which?" }), "")
      assert.include(yield* refusal({ id: "a", question: "Which?", exspect: {} }), "a: exspect")
      assert.include(yield* refusal({ question: "Which?" }, "openai/other"), "openai/other: preferences.model")
      const unreachable = askGateway({ baseUrl: "http://127.0.0.1:1", giveUpAfterMs: 1, maxRetries: 0 })
      const failure = yield* Effect.promise((signal) =>
        unreachable({ _tag: "Question", request: { question: "Which?" } }, signal).then(
          () => "",
          (error: unknown) => String(error)
        )
      )
      assert.notStrictEqual(failure, "")
    })
  )
})
