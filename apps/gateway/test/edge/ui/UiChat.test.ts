import { completes, fails, produces, says, stuck } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut, stall, until as waitFor } from "@bowline/testing/http/Move"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, think, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { lastAssistantMessageIsCompleteWithApprovalResponses as isDecided } from "ai"
import { Deferred, Effect, Fiber } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"
import { ask, lastBody, lastOf, open, openFormer, planOf, settled, shown, told, until } from "./Chat.ts"

type Script = Parameters<typeof start>[0]

const callsPeer: Script = (asked) =>
  results(asked).length === 0 ? [say("Asking"), callTool("rigger_ask", { input: "7" })] : [say("Done")]

const agents = (url: string, approval: "always" | "never" = "never") => [
  { name: "rigger", endpoint: `${url}/`, dialect: "a2a-0.3", skills: [{ id: "ask", approval }] }
]

describe.each([
  ["7", open],
  ["6", openFormer]
])("the chat of AI SDK %s", (_, open) => {
  it.live("gets text and reasoning, and goes on with its session", () =>
    Effect.gen(function* () {
      const turns = [
        [think("Hm"), say("Hel"), say("lo"), usage({ input_tokens: 10, output_tokens: 4 })],
        [say("Again")]
      ]
      const { provider, url } = yield* start(turns)
      const chat = open(url)
      yield* ask(chat, "Who?")
      assert.deepStrictEqual(lastOf(chat), ["reasoning: Hm", "text: Hello"])
      const plan = planOf(chat.lastMessage)
      const { body } = yield* send(`${url}/plans/${plan}`)
      assert.strictEqual(chat.lastMessage?.id, plan)
      assert.deepInclude(body, { state: "completed", external_session_id: "chat" })
      assert.deepNestedInclude(chat.lastMessage?.metadata, {
        sessionId: body["session_id"],
        model: body["model"],
        stopReason: "stop",
        "usage.input_tokens": 10
      })
      yield* ask(chat, "And?")
      assert.deepStrictEqual([chat.status, lastOf(chat)], ["ready", ["text: Again"]])
      assert.deepStrictEqual(yield* told(provider), ["Who?", "Hello", "And?"])
    })
  )

  for (const [approved, parts] of [
    [true, ["text: Asking", 'rigger_ask: output-available "paid"', "text: Done"]],
    [false, ["text: Asking", "rigger_ask: output-denied", "text: Done"]]
  ] as const) {
    it.live(
      `${approved ? "approves" : "rejects"} a call in its next request, while the plan waits without a reader`,
      () =>
        Effect.gen(function* () {
          const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
          const { url } = yield* start(callsPeer)
          // Without a grace, a plan that has no reader ends at once.
          const bowline = { agents: agents(peer, "always"), preferences: { disconnect_grace_ms: 0 } }
          const chat = open(url, { bowline, sendAutomaticallyWhen: isDecided })
          yield* ask(chat)
          assert.deepStrictEqual(lastOf(chat), ["text: Asking", "rigger_ask: approval-requested"])
          const part = chat.lastMessage?.parts.find(({ type }) => type === "dynamic-tool") as {
            readonly approval?: { readonly id: string }
          }
          const id = part.approval?.id ?? assert.fail()
          yield* Effect.promise(async () => chat.addToolApprovalResponse({ id, approved, reason: "So" }))
          yield* until(chat, ({ status }) => status === "ready" && lastOf(chat).length === 3)
          assert.deepStrictEqual([chat.messages.length, lastOf(chat)], [2, parts])
          assert.strictEqual((yield* settled(url, planOf(chat.lastMessage)))["state"], "completed")
        }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  }

  it.live("picks a running plan up again after a reload, from its start", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { provider, url } = yield* start([[say("a"), waitFor(Deferred.await(proceed)), say("b")]])
      const page = open(url)
      const asking = yield* Effect.forkChild(ask(page))
      yield* until(page, () => lastOf(page).includes("text: a"))
      yield* Effect.promise(() => page.stop())
      yield* Fiber.join(asking)
      const [question] = page.messages
      const reloaded = open(url, { messages: question === undefined ? [] : [question] })
      const resuming = yield* Effect.forkChild(Effect.promise(() => reloaded.resumeStream()))
      yield* until(reloaded, () => lastOf(reloaded).includes("text: a"))
      yield* Deferred.succeed(proceed, undefined)
      yield* Fiber.join(resuming)
      assert.deepStrictEqual([reloaded.status, reloaded.messages.map(shown)], ["ready", [["text: ?"], ["text: ab"]]])
      assert.strictEqual((yield* provider.requests.all).length, 1)
      yield* Effect.promise(() => reloaded.resumeStream())
      assert.strictEqual((yield* send(`${url}/ui/chat/chat/stream`)).status, 204)
      assert.strictEqual((yield* send(`${url}/ui/chat/nobody/stream`)).status, 204)
      assert.lengthOf(reloaded.messages, 2)
    })
  )
})

describe("the AI SDK's chat", () => {
  it.live("tells a new session what was said before, and what the system says", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("Hello")]])
      const said = (role: "system" | "user" | "assistant", text: string) => ({
        id: text,
        role,
        parts: [{ type: "text" as const, text }]
      })
      const messages = [said("system", "Be brief."), said("user", "Who?"), said("assistant", "Me.")]
      yield* ask(open(url, { messages }), "And?")
      assert.deepStrictEqual(yield* told(provider), ["Who?", "Me.", "And?"])
      assert.include(yield* lastBody(provider), "Be brief.")
    })
  )

  it.live("shows nothing of a text that was taken back", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[think("no"), say("bad"), cut], [say("Hello")]], { BOWLINE_RETRY_BASE: "1ms" })
      const chat = open(url)
      yield* ask(chat)
      assert.deepStrictEqual([chat.status, lastOf(chat)], ["ready", ["text: Hello"]])
    })
  )

  it.live("shows the calls of tools, those that fail as well", () =>
    Effect.gen(function* () {
      const { url: good } = yield* ScriptedPeer.serve({ acts: [says("on it"), produces("paid"), completes()] })
      const { url: bad } = yield* ScriptedPeer.serve({ acts: [fails("No rope")] })
      const { url } = yield* start(callsPeer)
      const chat = open(url, { bowline: { agents: agents(good) } })
      yield* ask(chat)
      assert.deepStrictEqual(lastOf(chat), ["text: Asking", 'rigger_ask: output-available "paid"', "text: Done"])
      const task = chat.lastMessage?.parts.find(({ type }) => type === "data-task")
      assert.deepNestedInclude(task, { "data.state": "completed" })
      const other = open(url, { id: "other", bowline: { agents: agents(bad) } })
      yield* ask(other)
      assert.match(lastOf(other)[1] ?? "", /^rigger_ask: output-error .*No rope/)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("ends its plan with stop() after an approval, too", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [says("on it"), stuck] })
      const { url } = yield* start(callsPeer)
      const bowline = { agents: agents(peer, "always"), preferences: { disconnect_grace_ms: 0 } }
      const chat = open(url, { bowline, sendAutomaticallyWhen: isDecided })
      yield* ask(chat)
      const { approvals } = (yield* send(`${url}/approvals`)).body as {
        readonly approvals: ReadonlyArray<{ readonly task_id: string }>
      }
      const id = approvals[0]?.task_id ?? assert.fail()
      yield* Effect.promise(async () => chat.addToolApprovalResponse({ id, approved: true }))
      yield* until(chat, () => chat.lastMessage?.parts.some(({ type }) => type === "data-task") === true)
      yield* Effect.promise(() => chat.stop())
      const { error } = yield* settled(url, planOf(chat.lastMessage))
      assert.deepInclude(error, { code: "aborted", reason: "disconnect" })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("asks something else instead of deciding", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [] })
      const { url } = yield* start([[callTool("rigger_ask", { input: "7" })], [say("Else")]])
      const chat = open(url, { bowline: { agents: agents(peer, "always") } })
      yield* ask(chat)
      const plan = planOf(chat.lastMessage)
      yield* ask(chat, "Something else?")
      assert.deepStrictEqual(lastOf(chat), ["text: Else"])
      assert.deepInclude((yield* settled(url, plan))["error"], { reason: "superseded" })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("sees why a plan has failed, and a plan that it may not start", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(400)], [say("a"), stall]])
      const chat = open(url)
      yield* ask(chat)
      assert.deepStrictEqual(chat.status, "error")
      assert.match(chat.error?.message ?? "", /^provider_\w+: /)
      const late = open(url, { id: "late", bowline: { preferences: { timeout_ms: 6_000 } } })
      yield* ask(late)
      assert.deepStrictEqual([late.status, lastOf(late)], ["error", ["text: a"]])
      assert.match(late.error?.message ?? "", /^aborted: /)
      const wrong = open(url, { id: "wrong", bowline: { agents: [{ name: "rigger", endpoint: "x" }], oops: 1 } })
      yield* ask(wrong)
      assert.include(wrong.error?.message, "bowline.agents[0].endpoint")
      assert.include(wrong.error?.message, "bowline.oops")
    })
  )

  it.live("ends its plan with stop(), and without a disconnect by DELETE", () =>
    Effect.gen(function* () {
      const { url } = yield* start([
        [say("a"), stall],
        [say("b"), stall]
      ])
      const chat = open(url, { bowline: { preferences: { disconnect_grace_ms: 0 } } })
      const asking = yield* Effect.forkChild(ask(chat))
      yield* until(chat, () => lastOf(chat).includes("text: a"))
      yield* Effect.promise(() => chat.stop())
      yield* Fiber.join(asking)
      const { error } = yield* settled(url, planOf(chat.lastMessage))
      assert.deepInclude(error, { code: "aborted", reason: "disconnect" })

      const again = yield* Effect.forkChild(ask(chat))
      yield* until(chat, () => lastOf(chat).includes("text: b"))
      const stopped = yield* send(`${url}/ui/chat/chat/stream`, { method: "DELETE" })
      assert.strictEqual(stopped.status, 204)
      yield* Fiber.join(again)
      assert.strictEqual(chat.status, "ready")
      assert.deepInclude((yield* settled(url, planOf(chat.lastMessage)))["error"], { reason: "cancelled" })
      assert.strictEqual((yield* send(`${url}/ui/chat/chat/stream`)).status, 204)
      assert.strictEqual((yield* send(`${url}/ui/chat/chat/stream`, { method: "DELETE" })).status, 204)
    })
  )

  it.live("sees nothing of another caller's chat", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("a"), stall]], { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" })
      const [ann, bob] = ["ann", "bob"].map((name) => ({ authorization: `Bearer key-of-${name}` }))
      const chat = open(url, { headers: ann ?? {} })
      const asking = yield* Effect.forkChild(ask(chat))
      yield* until(chat, () => lastOf(chat).includes("text: a"))
      const stream = `${url}/ui/chat/chat/stream`
      assert.strictEqual((yield* send(stream, { headers: bob ?? {} })).status, 204)
      assert.strictEqual((yield* send(stream, { method: "DELETE", headers: bob ?? {} })).status, 204)
      assert.strictEqual((yield* send(stream)).status, 401)
      const { body } = yield* send(`${url}/plans/${planOf(chat.lastMessage)}`, { headers: ann ?? {} })
      assert.strictEqual(body["state"], "running")
      yield* send(stream, { method: "DELETE", headers: ann ?? {} })
      yield* Fiber.join(asking)
    })
  )

  it.live("is told field by field what is wrong with a request", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const text = { type: "text", text: "?" }
      const user = { id: "m", role: "user", parts: [text] }
      const decided = {
        id: "m",
        role: "assistant",
        parts: [{ type: "dynamic-tool", state: "approval-responded", approval: { id: "x", approved: true } }]
      }
      for (const [fields, ...paths] of [
        [{ id: "" }, "id"],
        [{ messages: [] }, "messages"],
        [{ messages: [{ ...user, role: "assistant" }] }, "messages"],
        [{ messages: [{ ...user, parts: [{ type: "text", text: " " }] }] }, "messages"],
        [{ messages: [{ ...user, parts: [text, { type: "file", url: "data:" }] }] }, "messages[0].parts[1].url"],
        [{ messages: [{ ...user, parts: [{ type: "text" }] }] }, "messages[0].parts[0].text"],
        [{ messages: [decided] }, "messages[0].parts[0].approval.id"],
        [
          { messages: [{ ...decided, parts: [{ ...decided.parts[0], approval: {} }] }] },
          "messages[0].parts[0].approval.id",
          "messages[0].parts[0].approval.approved"
        ],
        [{ trigger: "resume" }, "trigger"],
        [{ bowline: { preset: "nobody" } }, "bowline.preset"],
        [{ bowline: { preferences: { timeout_ms: 1 } }, id: 7 }, "id", "bowline.preferences.timeout_ms"]
      ] as const) {
        const { body, status } = yield* post(`${url}/ui/chat`, { id: "chat", messages: [user], ...fields })
        const issues = body["issues"] as ReadonlyArray<{ readonly path: string }>
        assert.deepStrictEqual([status, issues?.map(({ path }) => path)], [400, paths], JSON.stringify(fields))
      }
    })
  )
})
