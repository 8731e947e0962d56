import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })

const asked = Effect.gen(function* () {
  const { url } = yield* start(() => [say("Bowline.")], callers)
  const { body } = yield* post(`${url}/plan`, { question: "?" }, by("ann"))
  const at = `${url}/plans/${String(body["plan_id"])}/feedback`
  const give = (name: string, feedback: unknown) => post(at, feedback, by(name))
  const found = Effect.fnUntraced(function* (query: string) {
    const answer = yield* send(`${url}/plans?${query}`, { headers: by("ann") })
    return answer.status === 200 ? (answer.body["plans"] as ReadonlyArray<unknown>).length : answer.status
  })
  return { url, at, plan_id: body["plan_id"], give, found }
})

describe("feedback", () => {
  it.live("is one of each caller, and the latest of anybody finds the plan", () =>
    Effect.gen(function* () {
      const { at, found, give, plan_id } = yield* asked
      assert.strictEqual(yield* found("feedback=none"), 1)
      const { body, status } = yield* give("ann", { score: -0.5, comment: "Too long", labels: ["style", "style"] })
      assert.strictEqual(status, 200)
      const { at: time, ...first } = body
      assert.deepStrictEqual(first, { plan_id, caller: "ann", score: -0.5, comment: "Too long", labels: ["style"] })
      assert.isNotNaN(Date.parse(String(time)))
      assert.deepStrictEqual(yield* Effect.all(["feedback=negative&label=style", "feedback=none"].map(found)), [1, 0])
      yield* give("root", { score: 1 })
      assert.deepStrictEqual(yield* Effect.all(["feedback=positive", "label=style"].map(found)), [1, 0])
      yield* give("ann", { score: 0 })
      assert.deepStrictEqual(
        yield* Effect.all(["negative", "positive", "none"].map((sign) => found(`feedback=${sign}`))),
        [0, 0, 0]
      )
      for (const name of ["ann", "root"]) {
        const { body } = yield* send(at, { headers: by(name) })
        const said = body["feedback"] as ReadonlyArray<Readonly<Record<string, unknown>>>
        assert.deepStrictEqual(
          said.map(({ caller, comment, score }) => [caller, score, comment]),
          [
            ["ann", 0, null],
            ["root", 1, null]
          ]
        )
      }
    })
  )

  it.live("is refused where it is not between -1 and 1, is too long, has odd labels, or is of no plan", () =>
    Effect.gen(function* () {
      const { found, give, url } = yield* asked
      const wrong = [
        [{}, "score"],
        [{ score: 1.1 }, "score"],
        [{ score: 1, comment: "x".repeat(10_001) }, "comment"],
        [{ score: 1, labels: Array.from({ length: 17 }, String) }, "labels"],
        [{ score: 1, labels: [""] }, "labels[0]"],
        [{ score: 1, labels: ["a\nb"] }, "labels[0]"],
        [{ score: 1, why: "" }, "why"]
      ] as const
      for (const [feedback, path] of wrong) {
        const { body, status } = yield* give("ann", feedback)
        const issues = body["issues"] as ReadonlyArray<{ readonly path: string }>
        assert.deepStrictEqual([status, issues.map((issue) => issue.path)], [400, [path]])
      }
      assert.strictEqual(yield* found("feedback=bad"), 400)
      assert.strictEqual(yield* found("feedback=none"), 1)
      for (const id of ["plan_00000000-0000-4000-8000-000000000000", "x"]) {
        assert.strictEqual((yield* post(`${url}/plans/${id}/feedback`, { score: 1 }, by("root"))).status, 404)
      }
    })
  )
})
