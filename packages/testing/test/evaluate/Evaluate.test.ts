import { initialView, type PlanView } from "@bowline/client"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { LocalTools, type Tool } from "@bowline/runtime/tool/LocalTools"
import * as PlanExport from "@bowline/runtime/unstable/record/PlanExport"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { inPlace, SchemaChecks } from "@bowline/runtime/unstable/tool/SchemaChecks"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Stream } from "effect"
import { gzipSync } from "node:zlib"
import {
  type EvalCase,
  evaluate,
  failingIn,
  type Kept,
  readCases,
  readKept,
  type Report,
  worseThan
} from "../../src/evaluate/Evaluate.ts"
import * as RecordedPlans from "../../src/evaluate/RecordedPlans.ts"
import { junitOf, pageOf } from "../../src/evaluate/ReportFiles.ts"
import { callTool, say, usage } from "../../src/provider/Turn.ts"
import { question, results, type Script } from "../../src/provider/Script.ts"
import { SeededRandom } from "../../src/simulation/scenario/SeededRandom.ts"
import * as TestKit from "../../src/TestKit.ts"

const look = (content: string): Tool => ({
  name: "look",
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description: "Looks",
  inputSchema: { type: "object", properties: { at: { type: "string" } } },
  timeoutMs: undefined,
  identify: Effect.succeed(null),
  isIdempotent: true,
  isPolling: false,
  approval: undefined,
  call: () => Effect.succeed({ state: "completed", content })
})

const graphOf = (script: Script, tool: Tool, recordings: Parameters<typeof RecordedPlans.layer>[0] = []) =>
  TestKit.layerOnStore({ script, config: { allowsModel: () => true } }).pipe(
    Layer.provideMerge(RecordedPlans.layer(recordings)),
    Layer.provideMerge(MemoryStore.layer),
    Layer.provide([Layer.succeed(LocalTools, [tool]), Layer.succeed(SchemaChecks, inPlace)])
  )

const provided =
  <Out, E>(graph: Layer.Layer<Out, E>) =>
  <A, E2, R>(effect: Effect.Effect<A, E2, R>) =>
    Effect.provide(effect, Layer.provideMerge(graph, Logger.layer([])))

/** So many plans, each with a call and an answer, as a file. */
const exported = (count: number) =>
  Effect.gen(function* () {
    const stores = {
      store: yield* PlanStore,
      sessions: yield* SessionStore,
      inboxes: yield* InboxStore,
      files: yield* FileStore
    }
    const ids = yield* Effect.forEach(Array.from({ length: count }).keys(), (index) =>
      Effect.scoped(
        Effect.gen(function* () {
          const { frames, plan_id } = yield* TestKit.post({ question: `Which knot is number ${index}?` })
          yield* Stream.runDrain(frames)
          return plan_id
        })
      )
    )
    const lines = yield* Effect.forEach(ids, (id) => PlanExport.linesOf(stores, anonymous, id))
    return Buffer.from(
      lines
        .flat()
        .map((line) => JSON.stringify(line))
        .join("\n")
    )
  }).pipe(
    Effect.provide(
      graphOf(
        (asked) => (results(asked).length === 0 ? [callTool("look", { at: question(asked) })] : [say("A bowline.")]),
        look("It is on record")
      )
    )
  )

/** Evaluates in this process, with models that follow a script. */
const evaluated = (
  cases: ReadonlyArray<EvalCase>,
  script: Script,
  given: Omit<Parameters<typeof evaluate>[0], "ask" | "cases"> = {}
) =>
  Effect.gen(function* () {
    const ask = yield* RecordedPlans.ask
    const context = yield* Effect.context()
    return yield* Effect.promise(() =>
      evaluate({ cases, ...given, ask: (asked, signal) => Effect.runPromiseWith(context)(ask(asked), { signal }) })
    )
  }).pipe(
    provided(
      graphOf(
        script,
        look("It was made"),
        cases.flatMap(({ recording }) => recording ?? [])
      )
    )
  )

const file = (text: string | ReadonlyArray<object>) => ({
  path: "cases.jsonl",
  bytes: Buffer.from(typeof text === "string" ? text : text.map((line) => JSON.stringify(line)).join("\n"))
})

const evaluations = Number(process.env["BOWLINE_EVALUATIONS"] ?? 2)

describe("an evaluation", () => {
  it.live(
    `has the true difference of two models in 93 of 100 intervals, on 50 exported plans (of ${evaluations})`,
    () =>
      Effect.gen(function* () {
        const cases = readCases([{ path: "plans.bowline", bytes: yield* exported(50) }]).map((one) => ({
          ...one,
          expect: { contains: "right" }
        }))
        const shares = { one: 0.6, other: 0.8 }
        let held = 0
        for (let seed = 0; seed < evaluations; seed++) {
          const random = new SeededRandom(`evaluation ${seed}`)
          const report = yield* evaluated(
            cases,
            (asked) => {
              if (results(asked).length === 0) return [callTool("look", { at: question(asked) })]
              assert.include(results(asked)[0], "It is on record")
              const share = asked.model === "one" ? shares.one : shares.other
              return [say(random.of(`${asked.model} ${question(asked)}`).next() < share ? "right" : "wrong")]
            },
            { models: ["scripted/one", "scripted/other"] }
          )
          assert.lengthOf(report.runs, 100)
          const pass = report.summaries[1]?.differences.pass
          assert(pass !== undefined)
          if (pass.low <= 0.2 && 0.2 <= pass.high) held++
        }
        assert.isAtLeast(held, Math.floor(0.93 * evaluations))
      }),
    3_600_000
  )

  const knots = [
    { id: "a", question: "Which knot holds?", expect: { contains: ["bow", "line"], max_steps: 2 } },
    { id: "b", question: "Which knot slips?", expect: { matches: "^A \\w+\\.$" } },
    { question: "Look!", expect: { calls: [{ tool: "look", arguments: { at: "sea" } }], output: { type: "object" } } }
  ]
  const clerk: Script = (asked) => {
    if (question(asked).startsWith("Look")) {
      return results(asked).length === 0
        ? [callTool("look", { at: "sea", far: true })]
        : [say(asked.model === "good" ? '{"seen":1}' : "Nothing")]
    }
    return [say(asked.model === "good" ? "A bowline." : "A bow tie."), usage({ input_tokens: 3, output_tokens: 2 })]
  }

  it.live("names what is not as it was expected, in each case of each model", () =>
    Effect.gen(function* () {
      const cases = readCases([file(knots)])
      assert.match(cases[2]?.id ?? "", /^[\w-]{12}$/)
      const report = yield* evaluated(cases, clerk, { models: ["scripted/good", "scripted/bad"], repeat: 2 })
      assert.lengthOf(report.runs, 12)
      const [good, bad] = report.summaries
      assert(good !== undefined && bad !== undefined)
      assert.strictEqual(good.measured.pass?.mean, 1)
      assert.strictEqual(good.measured.calls?.mean, 1 / 3)
      assert.strictEqual(bad.measured.pass?.mean, 0)
      assert.strictEqual(bad.differences.pass?.mean, -1)
      assert.deepStrictEqual(
        failingIn(report).map(({ why }) => why),
        [
          'it does not contain "line": A bow tie.',
          "it does not match /^A \\w+\\.$/: A bow tie.",
          "its answer is not JSON: Nothing"
        ]
      )
      const junit = junitOf(report)
      assert.include(junit, '<testsuite name="scripted/bad" tests="3" failures="3"')
      assert.include(junit, "it does not contain &quot;line&quot;")
      const page = pageOf(report)
      assert.include(page, "Against scripted/good")
      assert.notMatch(page, /<script|https?:|url\(/)
    })
  )

  it.live("asks a check, and takes its scores; one that fails is no pass", () =>
    Effect.gen(function* () {
      const cases = readCases([file(knots.slice(0, 2))])
      const report = yield* evaluated(cases, clerk, {
        models: ["scripted/good", "scripted/bad"],
        check: ({ text }, { id }) => {
          if (id === "b") throw new Error("no idea")
          return [
            { pass: true, score: text.length / 20, why: "its length" },
            { pass: !text.includes("tie"), why: "no ties" }
          ]
        }
      })
      const whys = report.runs.map(({ model, score, why }) => [model, score, why.join("; ")])
      assert.deepStrictEqual(whys, [
        ["scripted/good", 0.5, ""],
        ["scripted/bad", 0.5, 'it does not contain "line": A bow tie.; no ties'],
        ["scripted/good", null, "the check has failed: no idea"],
        ["scripted/bad", null, "it does not match /^A \\w+\\.$/: A bow tie.; the check has failed: no idea"]
      ])
    })
  )

  it.live("asks a judge twice, in both orders, so that the place of an answer counts for nothing", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const script: Script = (prompt) => {
        if (prompt.model !== "judge") return clerk(prompt)
        asked.push(question(prompt))
        const [first = 0, second = 0] =
          question(prompt).indexOf("bowline.") < question(prompt).indexOf("bow tie.") ? [10, 4] : [6, 8]
        const answers = [first, second].map((score, index) => ({ answer: index + 1, why: "so", score }))
        return [say(JSON.stringify({ answers }))]
      }
      const cases = readCases([file([{ question: "Which knot?", expect: { rubric: "Knots of sailors" } }])])
      const report = yield* evaluated(cases, script, {
        models: ["scripted/good", "scripted/bad"],
        judge: "scripted/judge"
      })
      assert.lengthOf(asked, 2)
      assert.isTrue(asked.every((text) => text.includes("Knots of sailors")))
      const scores = report.runs.map(({ pass, score }) => [pass, score])
      assert.deepStrictEqual(scores, [
        [true, 0.9],
        [true, 0.5]
      ])
    })
  )

  it.live("goes on where it was stopped, and asks again what could not be asked", () =>
    Effect.gen(function* () {
      const cases = readCases([file(knots)])
      const kept: Array<Kept> = []
      const leaving = new AbortController()
      const view: PlanView = { ...initialView, planId: "plan_1", text: "A bowline." }
      const asked: Array<string> = []
      let running = 0
      const given = { models: ["scripted/good"], concurrency: 1, onKept: (one: Kept) => void kept.push(one) }
      const first = evaluate({
        ...given,
        cases,
        signal: leaving.signal,
        ask: async (one, signal) => {
          asked.push(one._tag === "Question" ? String(one.request["question"]) : "")
          if (asked.length === 2) throw new Error("away")
          if (asked.length < 3) return view
          running++
          leaving.abort()
          await new Promise((resolve) => signal.addEventListener("abort", resolve))
          running--
          throw new Error("stopped")
        }
      })
      yield* Effect.promise(() =>
        first.then(
          () => assert.fail("it was stopped"),
          () => undefined
        )
      )
      assert.strictEqual(running, 0, "it waits for the plans that it stops")
      assert.lengthOf(kept, 1)
      const text = kept.map((one) => JSON.stringify(one)).join("\n")
      const known = readKept(`${text}\n{"other":1}\n{"case":"cut o`)
      assert.deepStrictEqual(known, kept)
      const report = yield* evaluated(cases, clerk, { ...given, known })
      assert.lengthOf(kept, 3)
      assert.strictEqual(report.runs[0]?.plan_id, "plan_1")
      assert.isEmpty(failingIn(report).filter(({ id }) => id !== "a"))
      const other = cases.map((one) => ({ ...one, expect: { contains: "else" } }))
      yield* evaluated(other, clerk, { ...given, known })
      assert.lengthOf(kept, 6, "what is expected now was not looked at")
    })
  )

  it("is worse only where a case passed before: with the same model, or with the first one", () => {
    const report = (runs: ReadonlyArray<readonly [id: string, model: string, pass: boolean]>): Report => ({
      schema: 1,
      started_at: "",
      repeat: 1,
      tools: "recorded",
      judge: null,
      summaries: [],
      models: [...new Set(runs.map(([, model]) => model))],
      cases: [...new Set(runs.map(([id]) => id))].map((id) => ({ id, question: "" })),
      runs: runs.map(([id, model, pass]) => ({
        case: id,
        model,
        pass,
        repeat: 1,
        plan_id: "",
        score: null,
        why: [],
        text: "",
        key: "",
        cost_usd: null,
        first_token_ms: null,
        duration_ms: null,
        steps: 1,
        calls: 0
      }))
    })
    const before = report([
      ["a", "old", true],
      ["b", "old", false],
      ["c", "old", true]
    ])
    const now = report([
      ["a", "new", false],
      ["b", "new", false],
      ["c", "old", false],
      ["d", "new", false]
    ])
    assert.deepStrictEqual(
      worseThan(now, before).map(({ id }) => id),
      ["a", "c"]
    )
  })

  it.live("says what is expected of an exported plan in a line with its id", () =>
    Effect.gen(function* () {
      const plans = { path: "plans.bowline", bytes: yield* exported(1) }
      const [plan] = readCases([plans])
      assert(plan !== undefined)
      const cut = { ...plans, bytes: gzipSync(plans.bytes).subarray(0, 40) }
      assert.throws(() => readCases([cut]), /^plans\.bowline: unexpected end of file$/)
      const cases = readCases([plans, file([{ id: plan.id, expect: { contains: "tie" } }])])
      assert.deepStrictEqual(
        cases.map(({ expect, id }) => [id, expect]),
        [[plan.id, { contains: "tie" }]]
      )
      const { runs } = yield* evaluated(cases, () => [callTool("look", { at: "elsewhere" })], {})
      assert.include(runs[0]?.why.join(), 'it does not contain "tie"')
    })
  )

  it.each([
    ["{", "cases.jsonl, line 1"],
    ['\n{"question":"a","expect":{"contain":"b"}}', "line 2.*contain"],
    ['{"question":"a","expect":{"matches":"("}}', "expect.matches: Expected a regular expression"],
    ['{"question":"a","expect":{"output":{"type":"knot"}}}', "expect.output: Expected a JSON Schema"],
    ['{"question":"a","expect":{"max_steps":0}}', "greater than or equal to 1 at .*max_steps"],
    ['{"question":"a","expect":{"max_cost_usd":-1}}', "greater than or equal to 0 at .*max_cost_usd"],
    ['{"expect":{}}', "Expected a question"],
    ['{"id":"plan_1"}', "no file has an exported plan plan_1"],
    ['{"question":"a"}\n{"question":"a","preset":"p"}', "Two cases are called .* an id of its own"],
    ['{"question":"a"}\n{"type":"plan","schema":1', "cases.jsonl: line 2: Expected JSON"],
    ['{"question":"a"}\n{"type":"plan","schema":1,"plan":{}}', "cases.jsonl: line 2: Missing key"],
    ["", "Expected an exported plan, or a line with a question"]
  ])("refuses %j, and names the place", (text, problem) => {
    assert.throws(() => readCases([file(text)]), new RegExp(problem))
  })
})
