import { createBowline, type PlanRequest } from "@bowline/client"
import { BowlineChatTransport } from "@bowline/client/ai-sdk"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall, until as waitFor } from "@bowline/testing/http/Move"
import { completes, produces, says, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, think } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { lastAssistantMessageIsCompleteWithApprovalResponses as isDecided, type ChatInit, type UIMessage } from "ai"
import { Deferred, Effect, Fiber, Schedule } from "effect"
import { send, start } from "../../http/RunningGateway.ts"
import { ask, lastOf, openWith, shown, until } from "./Chat.ts"

type Script = Parameters<typeof start>[0]

const callsPeer: Script = (asked) =>
  results(asked).length === 0 ? [say("Asking"), callTool("rigger_ask", { input: "7" })] : [say("Done")]

const asking = (url: string, approval: "always" | "never" = "never"): Pick<PlanRequest, "agents"> => ({
  agents: [{ name: "rigger", endpoint: `${url}/`, dialect: "a2a-0.3", skills: [{ id: "ask", approval }] }]
})

/** A page that speaks to the gateway through the client. */
const open = (
  url: string,
  {
    fetch,
    request,
    ...init
  }: ChatInit<UIMessage> & { request?: Omit<PlanRequest, "question">; fetch?: typeof globalThis.fetch } = {}
) => openWith(new BowlineChatTransport({ bowline: createBowline({ baseUrl: url, fetch }), request }), init)

const newestPlan = (url: string) =>
  send(`${url}/plans?session_id=chat&limit=1`).pipe(
    Effect.map(({ body }) => (body["plans"] as ReadonlyArray<Readonly<Record<string, unknown>>>)[0]),
    Effect.repeat({
      until: (plan) => plan !== undefined && plan["state"] !== "queued" && plan["state"] !== "running",
      schedule: Schedule.spaced("20 millis")
    })
  )

/** Cuts the first answer that is a stream behind so many chunks. */
const cutting = (chunks: number): typeof fetch => {
  let left = chunks
  return async (input, init) => {
    const response = await fetch(input, init)
    if (left < 0 || response.headers.get("content-type") !== "text/event-stream") return response
    const reader = response.body?.getReader()
    const body = new ReadableStream({
      pull: async (controller) => {
        const read = await reader?.read()
        if (read?.done !== false || left-- <= 0) {
          left = -1
          await reader?.cancel()
          controller.error(new TypeError("terminated"))
        } else controller.enqueue(read.value)
      }
    })
    return new Response(body, { headers: response.headers })
  }
}

describe("the AI SDK's chat through the client", () => {
  it.live(
    "gets text, reasoning and tools, goes on with its session, and misses nothing where a connection breaks",
    () =>
      Effect.gen(function* () {
        const { url: peer } = yield* ScriptedPeer.serve({ acts: [says("on it"), produces("paid"), completes()] })
        const { provider, url } = yield* start((asked) => [think("Hm"), ...callsPeer(asked)])
        const chat = open(url, { request: asking(peer), fetch: cutting(2) })
        yield* ask(chat, "Who?")
        assert.deepStrictEqual(lastOf(chat), [
          "reasoning: Hm",
          "text: Asking",
          'rigger_ask: output-available "paid"',
          "reasoning: Hm",
          "text: Done"
        ])
        yield* ask(chat, "And?")
        assert.strictEqual(chat.status, "ready")
        const { body } = yield* send(`${url}/plans`)
        assert.lengthOf(body["plans"] as ReadonlyArray<unknown>, 2)
        const { body: last } = (yield* provider.requests.all).at(-1) ?? assert.fail()
        assert.include(last, "Who?")
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  for (const [approved, parts] of [
    [true, ["text: Asking", 'rigger_ask: output-available "paid"', "text: Done"]],
    [false, ["text: Asking", "rigger_ask: output-denied", "text: Done"]]
  ] as const) {
    for (const isReloaded of [false, true]) {
      it.live(`${approved ? "approves" : "rejects"} a call${isReloaded ? ", also behind a reload" : ""}`, () =>
        Effect.gen(function* () {
          const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
          const { url } = yield* start(callsPeer)
          const options = { request: asking(peer, "always"), sendAutomaticallyWhen: isDecided }
          const page = open(url, options)
          yield* ask(page)
          assert.deepStrictEqual(lastOf(page), ["text: Asking", "rigger_ask: approval-requested"])
          const chat = isReloaded ? open(url, { ...options, messages: page.messages }) : page
          const part = chat.lastMessage?.parts.find(({ type }) => type === "dynamic-tool") as {
            readonly approval?: { readonly id: string }
          }
          const id = part.approval?.id ?? assert.fail()
          yield* Effect.promise(async () => chat.addToolApprovalResponse({ id, approved, reason: "So" }))
          yield* until(chat, ({ status }) => status === "ready" && lastOf(chat).length === 3)
          assert.deepStrictEqual([chat.messages.length, lastOf(chat)], [2, parts])
          assert.strictEqual((yield* newestPlan(url))?.["state"], "completed")
        }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
      )
    }
  }

  it.live("asks something else instead of deciding", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [] })
      const { url } = yield* start([[callTool("rigger_ask", { input: "7" })], [say("Else")]])
      const chat = open(url, { request: asking(peer, "always") })
      yield* ask(chat)
      yield* ask(chat, "Something else?")
      assert.deepStrictEqual(lastOf(chat), ["text: Else"])
      const { body } = yield* send(`${url}/plans?state=aborted`)
      assert.deepNestedInclude(body, { "plans[0].error.reason": "superseded" })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("ends its plan with stop(), behind a reload, too", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [says("on it"), stuck] })
      const { url } = yield* start([[callTool("rigger_ask", { input: "7" })], [say("b"), stall]])
      const chat = open(url, { request: asking(peer) })
      const first = yield* Effect.forkChild(ask(chat))
      yield* until(chat, () => chat.lastMessage?.parts.some(({ type }) => type === "data-task") === true)
      yield* Effect.promise(() => chat.stop())
      yield* Fiber.join(first)
      assert.strictEqual(chat.status, "ready")
      assert.deepNestedInclude(yield* newestPlan(url), { "error.reason": "cancelled" })

      const second = yield* Effect.forkChild(ask(chat))
      yield* until(chat, () => lastOf(chat).includes("text: b"))
      const reloaded = open(url, { messages: chat.messages.slice(0, 3) })
      const resuming = yield* Effect.forkChild(Effect.promise(() => reloaded.resumeStream()))
      yield* until(reloaded, () => lastOf(reloaded).includes("text: b"))
      yield* Effect.promise(() => reloaded.stop())
      yield* Fiber.joinAll([second, resuming])
      assert.deepNestedInclude(yield* newestPlan(url), { "error.reason": "cancelled" })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("stops while the gateway has not answered yet", () =>
    Effect.gen(function* () {
      const chat = open("http://gateway", { fetch: () => new Promise(() => {}) })
      const asking = yield* Effect.forkChild(ask(chat))
      yield* until(chat, ({ status }) => status === "submitted")
      yield* Effect.promise(() => chat.stop())
      yield* Fiber.join(asking)
      assert.deepStrictEqual([chat.status, chat.error], ["ready", undefined])
    })
  )

  it.live("picks a running plan up behind a reload, from its start, and nothing where nothing runs", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { provider, url } = yield* start([[say("a"), waitFor(Deferred.await(proceed)), say("b")]])
      const page = open(url)
      const first = yield* Effect.forkChild(ask(page))
      yield* until(page, () => lastOf(page).includes("text: a"))
      const reloaded = open(url, { messages: page.messages.slice(0, 1) })
      const resuming = yield* Effect.forkChild(Effect.promise(() => reloaded.resumeStream()))
      yield* until(reloaded, () => lastOf(reloaded).includes("text: a"))
      yield* Deferred.succeed(proceed, undefined)
      yield* Fiber.joinAll([first, resuming])
      assert.deepStrictEqual([reloaded.status, reloaded.messages.map(shown)], ["ready", [["text: ?"], ["text: ab"]]])
      assert.strictEqual((yield* provider.requests.all).length, 1)
      yield* Effect.promise(() => reloaded.resumeStream())
      yield* Effect.promise(() => open(url, { id: "nobody" }).resumeStream())
      assert.lengthOf(reloaded.messages, 2)
    })
  )

  it.live("asks again in place of an answer or of a question, but not while the plan runs", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("1")], [say("2")], [say("3")], [say("4")], [say("5"), stall]])
      const told = Effect.map(provider.requests.all, (all) =>
        (
          JSON.parse(all.at(-1)?.body ?? "") as { readonly messages: ReadonlyArray<{ role: string; content: string }> }
        ).messages
          .filter(({ role }) => role !== "system")
          .map(({ content }) => content)
      )
      const chat = open(url)
      yield* ask(chat, "a")
      yield* Effect.promise(() => chat.regenerate())
      assert.deepStrictEqual([yield* told, lastOf(chat)], [["a"], ["text: 2"]])
      yield* ask(chat, "b")
      yield* Effect.promise(() => chat.regenerate())
      assert.deepStrictEqual([yield* told, lastOf(chat)], [["a", "2", "b"], ["text: 4"]])
      const messageId = chat.messages[2]?.id ?? assert.fail()
      const editing = yield* Effect.forkChild(Effect.promise(() => chat.sendMessage({ text: "c", messageId })))
      yield* until(chat, () => lastOf(chat).includes("text: 5"))
      assert.deepStrictEqual(yield* told, ["a", "2", "c"])
      const other = open(url, { messages: chat.messages })
      yield* Effect.promise(() => other.regenerate())
      assert.strictEqual((other.error as { readonly code?: string } | undefined)?.code, "session_busy")
      yield* Effect.promise(() => chat.stop())
      yield* Fiber.join(editing)
    })
  )

  it.live("keeps the answer whose question may not be asked again as it is", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("1")]])
      const chat = open(url)
      yield* ask(chat, "a")
      const wrong = open(url, { messages: chat.messages, request: { preset: "nobody" } })
      yield* Effect.promise(() => wrong.regenerate())
      assert.include(wrong.error?.message, "preset")
      const { body } = yield* send(`${url}/sessions/chat/messages`)
      assert.lengthOf(body["messages"] as ReadonlyArray<unknown>, 2)
    })
  )

  it.live("sees why a plan has failed, and why it may not start one", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(400)]])
      const chat = open(url)
      yield* ask(chat)
      assert.match(chat.error?.message ?? "", /^provider_\w+: /)
      const wrong = open(url, { id: "wrong", request: { preset: "nobody" } })
      yield* ask(wrong)
      assert.include(wrong.error?.message, "preset")
      assert.strictEqual((wrong.error as { readonly status?: number }).status, 400)
    })
  )
})
