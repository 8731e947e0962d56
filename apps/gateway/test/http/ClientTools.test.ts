import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { post, send, startOn, stores } from "./RunningGateway.ts"

const pick = {
  name: "pick",
  description: "Lets the person choose",
  input_schema: { type: "object", properties: { among: { type: "integer" } }, required: ["among"] },
  output_schema: { type: "object", properties: { color: { type: "string" } }, required: ["color"] }
}

describe("tools of the client", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`wait until somebody has given their result to the inbox (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)((asked) =>
          results(asked).length === 0 ? [callTool("pick", { among: 3 })] : [say(results(asked).join())]
        )
        const wrong = { ...pick, name: "no spaces", effect: {}, wait_timeout_ms: 5 }
        const refused = yield* post(`${url}/plan`, {
          question: "?",
          tools: [wrong, { ...pick, input_schema: { type: 7 } }]
        })
        assert.strictEqual(refused.status, 400)
        for (const path of ["tools[0].name", "tools[0].effect", "tools[0].wait_timeout_ms"])
          assert.include(refused.text, path)

        const asking = yield* Effect.forkChild(
          post(`${url}/plan`, { question: "?", tools: [pick] }, { accept: "application/json" })
        )
        const { body } = yield* Effect.repeat(send(`${url}/waiting?kind=result`), {
          until: ({ body }) => (body["waiting"] as ReadonlyArray<unknown>).length > 0,
          schedule: Schedule.spaced("10 millis")
        })
        const [wait] = body["waiting"] as ReadonlyArray<Readonly<Record<string, unknown>>>
        assert.deepInclude(wait, { kind: "result", tool: "pick", agent: null, input: { among: 3 }, why: null })
        assert.isAbove(Date.parse(String(wait?.["expires_at"])), Date.now() + 86_000_000)
        const plan = String(wait?.["plan_id"])
        assert.deepInclude((yield* send(`${url}/plans/${plan}`)).body, { state: "running", stage: "client" })

        const give = (content: unknown) =>
          post(`${url}/plans/${plan}/inbox`, { type: "result", task_id: wait?.["task_id"], content })
        const bad = yield* give({ color: 7 })
        assert.deepStrictEqual([bad.status, bad.text.includes('"path":"content"')], [400, true], bad.text)
        const first = yield* give({ color: "red" })
        assert.strictEqual(first.status, 202)
        const { body: answer } = yield* Fiber.join(asking)
        assert.include((answer["final"] as { readonly text: string }).text, '{"color":"red"}')
        assert.deepStrictEqual((yield* give({ color: "red" })).body, first.body)
        assert.strictEqual((yield* give({ color: "blue" })).body["code"], "task_settled")
        const { text: events } = yield* send(`${url}/plans/${plan}/events`)
        assert.match(events, /event: task\.started\ndata: .*"kind":"client"/)
        assert.lengthOf(events.match(/event: waiting\n/g) ?? [], 1)
      }).pipe(Effect.scoped)
    )
  }
})
