import { EventType, type BaseEvent } from "@ag-ui/client"
import { createBowline } from "@bowline/client"
import { BowlineAgent } from "@bowline/client/ag-ui"
import { BowlineChatTransport } from "@bowline/client/ai-sdk"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { lastAssistantMessageIsCompleteWithToolCalls, type ChatInit, type UIMessage } from "ai"
import { Effect } from "effect"
import { start } from "../../http/RunningGateway.ts"
import { ask, openWith, planOf, settled, until } from "./Chat.ts"

const schema = { type: "object", properties: { among: { type: "integer" } } }
const pick = { name: "pick", input_schema: schema, output_schema: { type: "object", required: ["color"] } }

/** A model that calls the page's tool twice in a row, and then says what it was told. */
const picksTwice = start((asked) =>
  results(asked).length < 2
    ? [say("Asking"), callTool("pick", { among: results(asked).length })]
    : [say(`Told: ${results(asked).filter((told) => told.includes("color")).length}`)]
)

const open = (url: string, tool: object, init: ChatInit<UIMessage> = {}) => {
  const transport = new BowlineChatTransport({
    bowline: createBowline({ baseUrl: url }),
    request: { tools: [tool as typeof pick] }
  })
  const chat = openWith(transport, {
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    ...init
  })
  return chat
}

/** The calls of the page's tool, as its chat shows them. */
const calls = ({ messages }: { readonly messages: ReadonlyArray<UIMessage> }) =>
  messages.flatMap(({ parts }) =>
    parts.flatMap((part) =>
      "toolCallId" in part
        ? [
            {
              id: part.toolCallId,
              state: part.state,
              input: part.input,
              output: "output" in part ? part.output : undefined,
              type: part.type
            }
          ]
        : []
    )
  )

const texts = ({ lastMessage }: { readonly lastMessage: UIMessage | undefined }) =>
  (lastMessage?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : []))

describe("tools of the page in the AI SDK's chat through the client", () => {
  for (const isReloaded of [false, true]) {
    it.live(
      `are called by the page, and go on behind their results${isReloaded ? ", on a page that was loaded again" : ""}`,
      () =>
        Effect.gen(function* () {
          const { url } = yield* picksTwice
          let chat = open(url, pick)
          yield* ask(chat)
          for (const among of [0, 1]) {
            yield* until(chat, () => chat.status === "ready" && calls(chat).length === among + 1)
            if (isReloaded) chat = open(url, pick, { messages: chat.messages })
            const { id: toolCallId = "", ...call } = calls(chat).at(-1) ?? {}
            assert.deepInclude(call, { state: "input-available", input: { among }, type: "tool-pick" })
            void chat.addToolOutput({ tool: "pick", toolCallId, output: { color: `c${among}` } })
          }
          yield* until(chat, () => chat.status === "ready" && texts(chat).length === 3)
          assert.deepStrictEqual(texts(chat), ["Asking", "Asking", "Told: 2"])
          assert.deepStrictEqual(
            calls(chat).map(({ output, state }) => [state, output]),
            [0, 1].map((among) => ["output-available", { color: `c${among}` }])
          )
          assert.strictEqual(chat.messages.length, 2)
          assert.strictEqual((yield* settled(url, planOf(chat.lastMessage)))["state"], "completed")
        })
    )
  }

  it.live("have the result of the page that was faster", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("pick", { among: 3 })] : [say(`Told: ${results(asked).join()}`)]
      )
      const page = open(url, pick)
      yield* ask(page)
      const other = open(url, pick, { messages: page.messages })
      const id = calls(page)[0]?.id ?? ""
      for (const [chat, color] of [
        [page, "red"],
        [other, "blue"]
      ] as const) {
        void chat.addToolOutput({ tool: "pick", toolCallId: id, output: { color } })
        yield* until(chat, () => chat.status === "ready" && texts(chat).length === 1)
        assert.include(texts(chat)[0], "red")
      }
    })
  )

  it.live("are called behind an approval, and tell the model an error", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("pick", { among: 3 })] : [say(`Told: ${results(asked).join()}`)]
      )
      const chat = open(url, { ...pick, approval: "always" })
      yield* ask(chat)
      const [asked] = calls(chat)
      assert.strictEqual(asked?.state, "approval-requested")
      const id = asked?.id ?? ""
      yield* Effect.promise(async () => chat.addToolApprovalResponse({ id, approved: true }))
      yield* Effect.promise(() => chat.sendMessage())
      yield* until(chat, () => chat.status === "ready" && calls(chat)[0]?.state === "input-available")
      void chat.addToolOutput({ tool: "pick", toolCallId: id, state: "output-error", errorText: "Nobody is there" })
      yield* until(chat, () => chat.status === "ready" && texts(chat).length === 1)
      assert.include(texts(chat)[0], "Nobody is there")
    })
  )
})

describe("a call of the page's own tool that its arguments are wrong for", () => {
  it.live("is shown as one that is over, and never given to the page", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("pick", { among: "three" })] : [say("Told")]
      )
      const given: Array<unknown> = []
      const chat = open(url, pick, { onToolCall: ({ toolCall }) => void given.push(toolCall) })
      yield* ask(chat)
      assert.deepStrictEqual(given, [])
      assert.deepStrictEqual(
        calls(chat).map(({ state, type }) => [state, type]),
        [["output-error", "dynamic-tool"]]
      )
      assert.deepStrictEqual(texts(chat), ["Told"])
    })
  )
})

describe("tools of the page of an AG-UI agent through the client", () => {
  it.live("end the run with their call, and go on in the next one behind its message", () =>
    Effect.gen(function* () {
      const { url } = yield* picksTwice
      const agent = new BowlineAgent({
        bowline: createBowline({ baseUrl: url }),
        threadId: "thread",
        initialMessages: [{ id: "question", role: "user", content: "?" }]
      })
      const tools = [{ name: "pick", description: "Picks", parameters: schema }]
      const run = Effect.promise(async () => {
        const events: Array<BaseEvent> = []
        await agent.runAgent({ tools }, { onEvent: ({ event }) => void events.push(event) })
        return events
      })
      for (const among of [0, 1]) {
        const events = yield* run
        assert.deepInclude(events.at(-1), { type: EventType.RUN_FINISHED, outcome: { type: "success" } })
        assert.lengthOf(
          events.filter(({ type }) => type === EventType.TOOL_CALL_START),
          1
        )
        const called = agent.messages.findLast(
          (message) => message.role === "assistant" && message.toolCalls !== undefined
        )
        const [call] = called?.role === "assistant" ? (called.toolCalls ?? []) : []
        assert.deepStrictEqual(JSON.parse(call?.function.arguments ?? ""), { among })
        agent.addMessage({ id: `r${among}`, role: "tool", toolCallId: call?.id ?? "", content: '{"color":"red"}' })
      }
      const last = yield* run
      assert.isEmpty(last.filter(({ type }) => type === EventType.TOOL_CALL_RESULT))
      assert.deepInclude(agent.messages.at(-1), { role: "assistant", content: "Told: 2" })
    })
  )
})
