import { completes, produces } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { redact } from "@bowline/runtime/unstable/record/PlanExport"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { gunzipSync } from "node:zlib"
import { post, startOn, stores } from "./RunningGateway.ts"

type Line = Readonly<Record<string, unknown>>

const read = (url: string) =>
  Effect.promise(async () => {
    const response = await fetch(url)
    const text = gunzipSync(await response.arrayBuffer()).toString()
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Line)
    return { response, text, lines, of: (type: string) => lines.filter((line) => line["type"] === type) }
  })

const skills = [{ id: "ask", input_schema: { type: "object", properties: { order: { type: "string" } } } }]

const asked = Effect.fnUntraced(function* (store: Parameters<typeof startOn>[0]) {
  const { url: peer } = yield* Effect.provide(
    ScriptedPeer.serve({ acts: [produces("paid"), completes()] }),
    LoopbackNetwork.layer
  )
  const { url } = yield* startOn(store)((asked) =>
    question(asked).includes("7") && results(asked).length === 0
      ? [callTool("bank_ask", { order: "7" })]
      : [say("It is "), say("paid.")]
  )
  const agents = [
    {
      name: "bank",
      endpoint: `${peer}/`,
      dialect: "a2a-0.3",
      auth: { type: "bearer", token: "planted-token" },
      skills
    }
  ]
  const first = yield* post(`${url}/plan`, { question: "Earlier?", session_id: "s" })
  const { body } = yield* post(`${url}/plan`, { question: "Is 7 paid?", session_id: "s", agents })
  return { url, first: String(first.body["plan_id"]), plan: String(body["plan_id"]) }
})

describe("the export of a plan", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`has all that decided, and no secret (${name})`, () =>
      Effect.gen(function* () {
        const { first, plan, url } = yield* asked(store)
        const { lines, of, response, text } = yield* read(`${url}/plans/${plan}/export`)
        assert.strictEqual(response.headers.get("content-type"), "application/gzip")
        assert.notInclude(text, "planted-token")
        const [head] = lines
        assert.deepInclude(head, { type: "plan", schema: 1 })
        assert.deepInclude(head?.["plan"], { plan_id: plan, state: "completed", question: "Is 7 paid?" })
        assert.deepStrictEqual(
          of("frame").map(({ id }) => id),
          of("frame").map((_, index) => index + 1)
        )
        const [begin, ...others] = of("begin")
        assert.deepStrictEqual(others, [])
        assert.match(String(begin?.["delimiter"]), /^[0-9a-f-]{36}$/)
        const environment = of("text").find(({ digest }) => digest === begin?.["environment"])
        assert.include(String(environment?.["text"]), '"settings":')
        const messages = of("message")
        assert.deepStrictEqual(
          messages.map(({ plan_id, role }) => [plan_id, role]),
          [
            [first, "user"],
            [first, "assistant"],
            [plan, "user"],
            [plan, "assistant"],
            [plan, "tool"],
            [plan, "assistant"]
          ]
        )
        const attempts = of("attempt")
        const shapes = attempts.map(({ attempt, parts, step }) => [
          step,
          attempt,
          (parts as ReadonlyArray<unknown>).map((part) =>
            typeof part === "number" ? part : (part as { readonly _tag: string })._tag
          )
        ])
        assert.deepStrictEqual(shapes, [
          [1, 1, ["ToolCallFragment", "ToolCall", "Finished"]],
          [2, 1, [2, "Finished"]]
        ])
        const [one, two] = attempts.map(({ prompt }) => prompt as Readonly<Record<string, string>>)
        assert.strictEqual(one?.["system"], two?.["system"])
        assert.strictEqual(one?.["tools"], two?.["tools"])
        assert.notStrictEqual(one?.["messages"], two?.["messages"])
        const [call] = of("call")
        assert.deepInclude(call, { tool: "bank_ask", state: "completed", result: "paid" })
      })
    )
  }

  it.live("keeps its shape, and none of its texts, where it is redacted", () =>
    Effect.gen(function* () {
      const { plan, url } = yield* asked(stores.memory)
      const { lines, text } = yield* read(`${url}/plans/${plan}/export`)
      const shown = JSON.stringify(lines.map((line) => redact(line)))
      for (const secret of ["paid", "Earlier"]) assert.include(text, secret)
      for (const secret of ["paid", "Earlier"]) assert.notInclude(shown, secret)
      assert.include(shown, '"question":"xx x xxxxx"')
      assert.include(shown, "bank_ask")
    })
  )
})
