import { TaskId } from "@bowline/domain/tool/TaskState"
import { Provider, type ProviderRequest, type ToolDefinition } from "@bowline/runtime/provider/Provider"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { layer, makeTurns, type Turn } from "../../src/demo/DemoModel.ts"

const tool = (name: string, fields: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: name,
  inputSchema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
  ...fields
})
const demos = [tool("prompt_look_up"), tool("slow_research"), tool("stuck_deliberate")]
const news = [tool("weather_now"), tool("news_today"), tool("news_old")]

const user = (text: string): ProviderRequest["messages"][number] => ({ role: "user", parts: [{ type: "text", text }] })
const id = (n: number) => TaskId.make(`00000000-0000-4000-8000-${String(n).padStart(12, "0")}`)
const done = (name: string, input: object, content: string, n = 1): ProviderRequest["messages"] => [
  {
    role: "assistant",
    parts: [{ type: "tool_call", task_id: id(n), tool: name, input: input as Record<string, string> }]
  },
  { role: "tool", parts: [{ type: "tool_result", task_id: id(n), state: "completed", content }] }
]

const asked = (text: string, fields?: Partial<ProviderRequest>): ProviderRequest => ({
  model: "demo",
  system: "",
  messages: [user(text)],
  tools: news,
  toolChoice: "auto",
  ...fields
})

const turnOf = makeTurns((name) => name === "news_secret")
const called = (turn: Turn) => (turn._tag === "Call" ? turn.calls.map(({ name }) => name) : [])
const said = (turn: Turn) => (turn._tag === "Say" || turn._tag === "Break" ? turn.text : "")
const choose = (text: string, tools: ReadonlyArray<ToolDefinition>) => called(turnOf(asked(text, { tools })))

describe("the model of the demo", () => {
  it("calls the tools that the question names by agent or by name", () => {
    assert.deepStrictEqual(choose("What does News say?", news), ["news_today", "news_old"])
    assert.deepStrictEqual(choose("What does News say today?", news), ["news_today"])
    assert.deepStrictEqual(choose("Use news_old, please.", news), ["news_old"])
    assert.deepStrictEqual(choose("Ask prompt and slow what a bowline is.", demos), ["prompt_look_up", "slow_research"])
    assert.deepStrictEqual(choose("Ask stuck what a bowline is.", demos), ["stuck_deliberate"])
  })

  it("calls the tools whose names, descriptions and arguments have the words of the question", () => {
    const tools = [
      ...demos,
      tool("shop_find_order", { description: "Finds one order by its number" }),
      tool("shop_list_products", { description: "Lists everything that is for sale" }),
      tool("sky_forecast", { description: "Tells the weather of a city" })
    ]
    assert.deepStrictEqual(choose("Where are my orders?", tools), ["shop_find_order"])
    assert.deepStrictEqual(choose("What will the weather in Rome be?", tools), ["sky_forecast"])
    assert.deepStrictEqual(choose("Which products do you have?", tools), ["shop_list_products"])
  })

  it("asks an agent that takes plain words, or the prompt one, where nothing fits, and never the one that is stuck", () => {
    assert.deepStrictEqual(choose("Hello", [...demos, tool("rigger_tie")]), ["rigger_tie"])
    assert.deepStrictEqual(choose("Hello", demos), ["prompt_look_up"])
    assert.deepStrictEqual(choose("Please deliberate, research and look something up for ever", demos), [
      "prompt_look_up"
    ])
    assert.deepStrictEqual(
      choose("Hello", [tool("sum", { inputSchema: { type: "object", properties: { a: {} }, required: ["a"] } })]),
      []
    )
  })

  it("never calls what may destroy something, or what the operator calls sensitive, even by its name", () => {
    const tools = [tool("files_delete", { approvalReason: "sensitive" }), tool("news_secret"), tool("files_list")]
    assert.deepStrictEqual(choose("files_delete", tools), ["files_list"])
    assert.deepStrictEqual(choose("Use files to delete everything", tools), ["files_list"])
    assert.deepStrictEqual(choose("news_secret", tools.slice(0, 2)), [])
  })

  it("makes arguments up from the schema, and says so in its answer", () => {
    const find = tool("shop_find_order", {
      inputSchema: {
        type: "object",
        properties: { order_id: { type: "integer" }, city: { $ref: "#/$defs/city" }, fast: { type: "boolean" } },
        required: ["order_id", "city", "fast"],
        $defs: { city: { type: "string" } }
      }
    })
    const question = "Where is order 17 for San Marino?"
    const turn = turnOf(asked(question, { tools: [find] }))
    const input = { order_id: 17, city: "San Marino", fast: false }
    assert.deepStrictEqual(turn, { _tag: "Call", calls: [{ name: "shop_find_order", input }] })
    const answer = turnOf(
      asked(question, { tools: [find], messages: [user(question), ...done(find.name, input, "On its way")] })
    )
    assert.strictEqual(
      said(answer),
      'Demo answer. I called shop_find_order with {"order_id":17,"city":"San Marino","fast":false}, which I made up from its schema and your words, and it said: “On its way”.'
    )
  })

  it("quotes the results of its calls, without their envelope", () => {
    const turn = turnOf(
      asked("weather?", {
        messages: [
          user("weather?"),
          ...done(
            "weather_now",
            { input: "weather?" },
            '<result x tool="weather_now" agent="weather">\nSunny\n</result x>'
          )
        ]
      })
    )
    assert.strictEqual(said(turn), "Demo answer. A tool said: “Sunny”.")
  })

  it("answers in text without tools, and counts the questions before this one", () => {
    const turn = turnOf(
      asked("And now?", {
        toolChoice: "none",
        messages: [user("First"), { role: "assistant", parts: [{ type: "text", text: "Yes" }] }, user("And now?")]
      })
    )
    assert.include(said(turn), "“And now?”")
    assert.include(said(turn), "1 earlier question of this session")
  })

  it("answers with JSON that is made up from the schema of the answer, once its calls are made", () => {
    const outputSchema = {
      type: "object",
      properties: { knot: { enum: ["reef", "bowline"] }, turns: { type: "integer" }, names: { type: "array" } },
      required: ["knot", "turns", "names"]
    } as const
    const question = "Does weather like a bowline with 2 turns?"
    assert.deepStrictEqual(called(turnOf(asked(question, { outputSchema }))), ["weather_now"])
    const messages = [user(question), ...done("weather_now", {}, "Sunny")]
    const turn = turnOf(asked(question, { outputSchema, messages }))
    assert.deepStrictEqual(JSON.parse(said(turn)), { knot: "bowline", turns: 2, names: ["2"] })
    const list = { type: "array", items: { type: "boolean" } } as const
    assert.strictEqual(said(turnOf(asked("Hello", { tools: [], outputSchema: list }))), "[false]")
  })

  it.effect("breaks off the first answer to a question that asks for a change of mind, and gives the second one", () =>
    Effect.gen(function* () {
      const { stream } = yield* Provider
      const question = asked("Change your mind: what is a bowline?", { tools: [] })
      const play = Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(Effect.exit(Stream.runCollect(stream(question))), {
          startImmediately: true
        })
        yield* TestClock.adjust("1 second")
        return yield* Fiber.join(fiber)
      })
      assert.include(JSON.stringify(yield* play), '"transport"')
      assert.include(JSON.stringify(yield* play), '"Finished"')
      assert.include(JSON.stringify(yield* play), '"transport"')
    }).pipe(Effect.provide(layer("openai", () => false)))
  )

  it("looks something up in three steps for a question about compaction, refuses the fourth as too long, and then answers", () => {
    const text = "Ask weather until a compaction is due."
    const after = (steps: number) =>
      asked(text, {
        messages: [user(text), ...Array.from({ length: steps }, (_, n) => done("weather_now", {}, "x", n)).flat()]
      })
    for (const steps of [0, 1, 2]) assert.deepStrictEqual(called(turnOf(after(steps))), ["weather_now"])
    assert.deepStrictEqual(turnOf(after(3)), { _tag: "TooLong" })
    assert.deepStrictEqual(called(turnOf({ ...after(1), toolChoice: "none" })), [])
    assert.include(said(turnOf(after(1))), "its head became a summary")
    assert.deepStrictEqual(called(turnOf(after(0))), ["weather_now"])
  })
})
