import { HttpAgent } from "@ag-ui/client"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { lastAssistantMessageIsCompleteWithToolCalls as isComplete } from "ai"
import { Effect } from "effect"
import { post, send, start, startOn, stores } from "../../http/RunningGateway.ts"
import { ask, lastOf, open, planOf, settled, until } from "./Chat.ts"

const schema = { type: "object", properties: { among: { type: "integer" } }, required: ["among"] }
const tools = [{ name: "pick", description: "Lets the person choose", input_schema: schema }]

/** Calls the tool twice in one step, once in another, and then says what came of it. */
const thrice = (asked: Parameters<typeof results>[0]) => {
  const { length } = results(asked)
  if (length === 0) return [say("Hm."), callTool("pick", { among: 3 }), callTool("pick", { among: 4 })]
  return length === 2 ? [callTool("pick", { among: 5 })] : [say("Done.")]
}

const plansOf = (url: string) =>
  Effect.map(send(`${url}/plans`), ({ body }) =>
    (body["plans"] as ReadonlyArray<{ readonly state: string }>).map(({ state }) => state)
  )

describe("tools of a page", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`are called by the AI SDK's chat: one message shows the whole plan (${name})`, () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)(thrice)
        const picked: Array<unknown> = []
        const chat = open(url, {
          body: { tools, bowline: { preferences: { disconnect_grace_ms: 0 } } },
          sendAutomaticallyWhen: isComplete,
          onToolCall: ({ toolCall }) => {
            const { input, toolCallId, toolName } = toolCall
            picked.push(input)
            const { among } = input as { readonly among: number }
            if (among === 4) {
              void chat.addToolOutput({ tool: toolName, toolCallId, state: "output-error", errorText: "No" })
            } else void chat.addToolOutput({ tool: toolName, toolCallId, output: { color: among } })
          }
        })
        yield* ask(chat)
        yield* until(chat, ({ status }) => status !== "streaming" && lastOf(chat).at(-1) === "text: Done.")
        assert.deepStrictEqual(picked, [{ among: 3 }, { among: 4 }, { among: 5 }])
        assert.deepStrictEqual(lastOf(chat), [
          "text: Hm.",
          'pick: output-available {"color":3}',
          "pick: output-error No",
          'pick: output-available {"color":5}',
          "text: Done."
        ])
        assert.strictEqual(chat.messages.length, 2)
        const { body = "" } = (yield* provider.requests.all).at(-1) ?? {}
        for (const said of [String.raw`{\"color\":3}`, String.raw`\nNo\n`]) assert.include(body, said)
        assert.deepStrictEqual(yield* plansOf(url), ["completed"])
        assert.strictEqual((yield* settled(url, planOf(chat.lastMessage)))["state"], "completed")
      }).pipe(Effect.scoped)
    )
  }

  it.live("leave their plan waiting, until the user says something else", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[callTool("pick", { among: 3 })], [say("Else")]])
      const chat = open(url, { body: { tools, bowline: { preferences: { disconnect_grace_ms: 0 } } } })
      yield* ask(chat)
      assert.deepStrictEqual([chat.status, lastOf(chat)], ["ready", ["pick: input-available"]])
      assert.deepStrictEqual(yield* plansOf(url), ["running"])
      yield* ask(chat, "Something else?")
      assert.deepStrictEqual(lastOf(chat), ["text: Else"])
      assert.deepStrictEqual(yield* plansOf(url), ["completed", "aborted"])
    })
  )

  it.live("give their results beside what the user says, which the plan hears, and are called once", () =>
    Effect.gen(function* () {
      const { url } = yield* start(({ messages }) =>
        messages.some(({ role }) => role === "tool")
          ? [say(JSON.stringify(messages))]
          : [callTool("pick", { among: 3 })]
      )
      const picked: Array<string> = []
      const chat = open(url, { body: { tools }, onToolCall: ({ toolCall }) => void picked.push(toolCall.toolCallId) })
      yield* ask(chat)
      yield* Effect.promise(async () =>
        chat.addToolOutput({ tool: "pick", toolCallId: picked[0] ?? "", output: "red" })
      )
      yield* ask(chat, "Not pink?")
      assert.match(lastOf(chat).join(), /^text: [^]*red[^]*Not pink\?/)
      assert.lengthOf(new Set(chat.messages.map(({ id }) => id)), 4)
      assert.lengthOf(picked, 1)

      const agent = new HttpAgent({ url: `${url}/agui`, threadId: "thread" })
      const mine = [{ name: "pick", description: "Lets the person choose", parameters: schema }]
      agent.addMessage({ id: "q", role: "user", content: "Which one?" })
      yield* Effect.promise(() => agent.runAgent({ tools: mine }))
      const [call] = agent.messages.flatMap((one) => (one.role === "assistant" ? (one.toolCalls ?? []) : []))
      agent.addMessage({ id: "result", role: "tool", toolCallId: call?.id ?? "", content: "red" })
      agent.addMessage({ id: "more", role: "user", content: "Not pink?" })
      yield* Effect.promise(() => agent.runAgent({ tools: mine }))
      const last = agent.messages.at(-1)
      assert.match(last?.role === "assistant" ? (last.content ?? "") : "", /red[^]*Not pink\?/)
      assert.deepStrictEqual(yield* plansOf(url), ["completed", "completed"])
    })
  )

  it.live("have all to be answered, and are history where their plan is over", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start((asked) =>
        asked.messages.some(({ role }) => role === "tool") || JSON.stringify(asked.messages).includes("aborted")
          ? [say("Done.")]
          : thrice(asked)
      )
      const chat = open(url, { body: { tools } })
      yield* ask(chat)
      const parts = (chat.lastMessage?.parts ?? []).flatMap((part) =>
        part.type === "tool-pick" ? [{ ...part, state: "output-available", output: "red" }] : []
      )
      const answer = (...given: ReadonlyArray<object>) =>
        post(`${url}/ui/chat`, {
          id: "chat",
          tools,
          messages: [chat.messages[0], { ...chat.lastMessage, parts: given }]
        })
      const half = yield* answer(...parts.slice(0, 1))
      assert.strictEqual(half.status, 400)
      assert.include(half.text, '"path":"messages"')
      yield* post(`${url}/ui/chat/chat/stop`, "")
      yield* send(`${url}/ui/chat/chat`, { method: "DELETE" })
      yield* post(`${url}/plans/${planOf(chat.lastMessage)}/cancel`, {})
      yield* settled(url, planOf(chat.lastMessage))
      const again = yield* answer(...parts)
      assert.include(again.text, "finish")
      assert.isAbove((yield* provider.requests.all).length, 1)
    })
  )

  it.live("are called by AG-UI's HttpAgent", () =>
    Effect.gen(function* () {
      const { url } = yield* start(thrice)
      const agent = new HttpAgent({ url: `${url}/agui`, threadId: "thread" })
      const mine = [{ name: "pick", description: "Lets the person choose", parameters: schema }]
      const picked: Array<string> = []
      agent.addMessage({ id: "q", role: "user", content: "Which one?" })
      for (let run = 0; run < 3; run++) {
        yield* Effect.promise(() => agent.runAgent({ tools: mine }))
        const answered = new Set(agent.messages.flatMap((one) => (one.role === "tool" ? [one.toolCallId] : [])))
        const calls = agent.messages.flatMap((one) => (one.role === "assistant" ? (one.toolCalls ?? []) : []))
        for (const { function: called, id } of calls.filter(({ id }) => !answered.has(id))) {
          picked.push(called.arguments)
          agent.addMessage({ id: `result-${id}`, role: "tool", toolCallId: id, content: "red" })
        }
      }
      assert.deepStrictEqual(picked, ['{"among":3}', '{"among":4}', '{"among":5}'])
      const last = agent.messages.at(-1)
      assert.deepInclude(last, { role: "assistant", content: "Done." })
      assert.deepStrictEqual(
        agent.messages.map(({ role }) => role),
        ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
      )
      assert.deepStrictEqual(yield* plansOf(url), ["completed"])
    })
  )
})
