import { type AgentSubscriber, type BaseEvent, HttpAgent, type RunAgentParameters } from "@ag-ui/client"
import { completes, fails, produces, says } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut, stall } from "@bowline/testing/http/Move"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, think, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"

type Script = Parameters<typeof start>[0]

const callsPeer: Script = (asked) =>
  results(asked).length === 0 ? [say("Asking"), callTool("rigger_ask", { input: "7" })] : [say("Done")]

const propsOf = (url: string, approval: "always" | "never" = "never", preferences: object = {}) => ({
  bowline: {
    agents: [{ name: "rigger", endpoint: `${url}/`, dialect: "a2a-0.3", skills: [{ id: "ask", approval }] }],
    preferences
  }
})

const agentAt = (url: string, content = "?"): HttpAgent =>
  new HttpAgent({
    url: `${url}/agui`,
    threadId: "thread",
    initialMessages: [{ id: crypto.randomUUID(), role: "user", content }]
  })

/** Runs the agent, and gives what its subscribers have seen. */
const runAgent = (agent: HttpAgent, parameters: RunAgentParameters = {}) =>
  Effect.promise(async () => {
    const events: Array<BaseEvent> = []
    const subscriber: AgentSubscriber = { onEvent: ({ event }) => void events.push(event) }
    const ended: { readonly result: unknown; readonly newMessages: HttpAgent["messages"] } = await agent.runAgent(
      parameters,
      subscriber
    )
    const types: Array<string> = events.map(({ type }) => type)
    return { last: events.at(-1), types, result: ended.result, messages: ended.newMessages.map(shown) }
  })

const shown = (message: HttpAgent["messages"][number]): string =>
  `${message.role}: ${"content" in message && message.content !== undefined ? JSON.stringify(message.content) : ""}`

const settled = (url: string) =>
  send(`${url}/plans?session_id=thread&limit=1`).pipe(
    Effect.map(({ body }) => (body["plans"] as ReadonlyArray<{ readonly plan_id: string; readonly state: string }>)[0]),
    Effect.repeat({
      until: (plan) => plan !== undefined && plan.state !== "queued" && plan.state !== "running",
      schedule: Schedule.spaced("20 millis")
    }),
    Effect.flatMap((plan) => send(`${url}/plans/${plan?.plan_id}`)),
    Effect.map(({ body }) => body)
  )

const started = (agent: HttpAgent) =>
  Effect.sync(() => agent.messages.at(-1)?.role).pipe(
    Effect.repeat({ until: (role) => role === "assistant", schedule: Schedule.spaced("10 millis") })
  )

describe("AG-UI's HttpAgent", () => {
  it.live("gets text, reasoning, the result and its usage, and goes on with its thread", () =>
    Effect.gen(function* () {
      const turns = [
        [think("Hm"), say("Hel"), say("lo"), usage({ input_tokens: 10, output_tokens: 4 })],
        [say("Again")]
      ]
      const { provider, url } = yield* start(turns)
      const agent = agentAt(url, "Who?")
      const { last, messages, result } = yield* runAgent(agent)
      assert.deepStrictEqual(messages, ['reasoning: "Hm"', 'assistant: "Hello"'])
      assert.deepStrictEqual(result, { text: "Hello", stopReason: "stop" })
      assert.deepNestedInclude(last, { "usage[0].inputTokens": 10, "outcome.type": "success" })
      agent.addMessage({ id: "2", role: "user", content: [{ type: "text", text: "And?" }] })
      assert.deepStrictEqual((yield* runAgent(agent)).messages, ['assistant: "Again"'])
      const body = (yield* provider.requests.all).at(-1)?.body ?? "{}"
      const { messages: told } = JSON.parse(body) as { readonly messages: ReadonlyArray<{ readonly content: string }> }
      assert.deepStrictEqual(
        told.slice(1).map(({ content }) => content),
        ["Who?", "Hello", "And?"]
      )
    })
  )

  it.live("keeps nothing of a text that was taken back", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("bad"), cut], [say("Hello")]], { BOWLINE_RETRY_BASE: "1ms" })
      const { messages, types } = yield* runAgent(agentAt(url))
      assert.deepStrictEqual(messages, ['assistant: "Hello"'])
      assert.include(types, "MESSAGES_SNAPSHOT")
    })
  )

  it.live("sees calls, their results, and peers as subagents", () =>
    Effect.gen(function* () {
      const { url: good } = yield* ScriptedPeer.serve({ acts: [says("on it"), produces("paid"), completes()] })
      const { url: bad } = yield* ScriptedPeer.serve({ acts: [fails("No rope")] })
      const { url } = yield* start(callsPeer)
      const { messages, types } = yield* runAgent(agentAt(url), { forwardedProps: propsOf(good) })
      assert.deepStrictEqual(
        messages.filter((message) => !message.startsWith("activity")),
        ['assistant: "Asking"', 'tool: "paid"', 'assistant: "Done"']
      )
      assert.includeMembers(types, ["TOOL_CALL_ARGS", "ACTIVITY_SNAPSHOT", "SUBAGENT_STARTED", "SUBAGENT_FINISHED"])
      const other = agentAt(url)
      other.threadId = "other"
      assert.include((yield* runAgent(other, { forwardedProps: propsOf(bad) })).types, "SUBAGENT_ERROR")
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  for (const decision of ["approve", "reject"] as const) {
    it.live(`resumes its thread with an answer (${decision}), while the plan waits without a reader`, () =>
      Effect.gen(function* () {
        const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
        const { url } = yield* start(callsPeer)
        const agent = agentAt(url)
        const forwardedProps = propsOf(peer, "always", { disconnect_grace_ms: 0 })
        assert.include((yield* runAgent(agent, { forwardedProps })).types, "RUN_FINISHED")
        const [interrupt] = agent.pendingInterrupts
        assert.deepNestedInclude(interrupt, { "metadata.why": "skill", "metadata.tool": "rigger_ask" })
        const interruptId = interrupt?.id ?? assert.fail()
        const resume = [{ interruptId, status: "resolved" as const, payload: { decision, note: "So" } }]
        const { messages, result } = yield* runAgent(agent, { resume })
        const tool = decision === "approve" ? 'tool: "paid"' : undefined
        assert.strictEqual(messages.length, 2)
        if (tool === undefined) assert.match(messages[0] ?? "", /^tool: .*rejected/)
        else assert.strictEqual(messages[0], tool)
        assert.strictEqual(messages[1], 'assistant: "Done"')
        assert.deepStrictEqual([result, agent.pendingInterrupts], [{ text: "Done", stopReason: "stop" }, []])
        assert.deepStrictEqual(agent.messages.slice(0, 2).map(shown), ['user: "?"', 'assistant: "Asking"'])
        const late = yield* post(`${url}/agui`, {
          threadId: "thread",
          runId: "late",
          messages: [],
          resume: [{ ...resume[0], payload: { decision: decision === "approve" ? "reject" : "approve" } }]
        })
        assert.deepStrictEqual([late.status, late.body["code"]], [409, "approval_conflict"])
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  }

  it.live("asks something else with an answer that it has cancelled", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [] })
      const { url } = yield* start([
        [callTool("rigger_ask", { input: "7" })],
        [say("Else")],
        [callTool("rigger_ask", { input: "7" })],
        [say("Else")]
      ])
      const agent = agentAt(url)
      yield* runAgent(agent, { forwardedProps: propsOf(peer, "always") })
      const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" as const }))
      agent.addMessage({ id: "2", role: "user", content: "Else?" })
      assert.deepStrictEqual((yield* runAgent(agent, { resume })).result, { text: "Else", stopReason: "stop" })
      // Nothing waits any more, and nobody has decided.
      agent.threadId = "other"
      agent.addMessage({ id: "3", role: "user", content: "?" })
      yield* runAgent(agent, { forwardedProps: propsOf(peer, "always") })
      const left = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" as const }))
      yield* send(`${url}/ui/chat/other/stream`, { method: "DELETE" })
      agent.addMessage({ id: "4", role: "user", content: "Else?" })
      assert.deepStrictEqual((yield* runAgent(agent, { resume: left })).result, { text: "Else", stopReason: "stop" })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("sees a failure and a deadline as errors, and a cancelled plan as cancelled", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(400)], [say("a"), stall], [say("b"), stall]])
      const failed = yield* runAgent(agentAt(url))
      assert.match(JSON.stringify(failed.last), /"type":"RUN_ERROR".*"code":"provider_/)
      const forwardedProps = { bowline: { preferences: { timeout_ms: 300 } } }
      const late = yield* runAgent(agentAt(url), { forwardedProps })
      assert.match(JSON.stringify(late.last), /"type":"RUN_ERROR".*"code":"aborted"/)
      const agent = agentAt(url)
      const running = yield* Effect.forkChild(runAgent(agent))
      yield* started(agent)
      assert.strictEqual((yield* send(`${url}/ui/chat/thread/stream`, { method: "DELETE" })).status, 204)
      const { last } = yield* Fiber.join(running)
      assert.deepNestedInclude(last, { type: "RUN_FINISHED", "outcome.type": "cancelled" })
    })
  )

  it.live("ends its plan with abortRun()", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("a"), stall]])
      const agent = agentAt(url)
      const forwardedProps = { bowline: { preferences: { disconnect_grace_ms: 0 } } }
      const running = yield* Effect.forkChild(runAgent(agent, { forwardedProps }))
      yield* started(agent)
      agent.abortRun()
      yield* Fiber.join(running)
      assert.deepInclude((yield* settled(url))["error"], { code: "aborted", reason: "disconnect" })
    })
  )

  it.live("is told field by field what is wrong with a request", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const user = { id: "m", role: "user", content: "?" }
      const tool = { name: "confetti", description: "Throws it", parameters: {} }
      const entry = { interruptId: "x", status: "resolved", payload: { decision: "approve" } }
      for (const [fields, ...paths] of [
        [{ threadId: "", runId: 1 }, "threadId", "runId"],
        [{ messages: [] }, "messages"],
        [{ messages: [{ ...user, role: "assistant" }] }, "messages"],
        [{ messages: [{ ...user, content: [{ type: "image", source: {} }] }] }, "messages[0].content[0].source"],
        [
          {
            messages: [
              { ...user, content: 7 },
              { id: 1, role: "nobody" }
            ]
          },
          "messages[0].content",
          "messages[1].id",
          "messages[1].role"
        ],
        [{ tools: [tool, tool] }, "tools[1].name"],
        [{ tools: [{ ...tool, name: "no name", parameters: { type: 7 } }] }, "tools[0].name"],
        [{ tools: [{ ...tool, parameters: { type: 7 } }] }, "tools[0].parameters"],
        [{ resume: [entry] }, "resume[0].interruptId"],
        [{ resume: [{ ...entry, payload: undefined }] }, "resume[0].payload"],
        [{ resume: [{ ...entry, payload: { decision: "maybe" } }] }, "resume[0].payload.decision"],
        [{ resume: [{ ...entry, status: "cancelled" }], messages: [] }, "resume"],
        [{ forwardedProps: { bowline: { oops: 1 } } }, "forwardedProps.bowline.oops"],
        [
          { forwardedProps: { bowline: { preferences: { model: "no/such" } } } },
          "forwardedProps.bowline.preferences.model"
        ]
      ] as const) {
        const { body, status } = yield* post(`${url}/agui`, { threadId: "t", runId: "r", messages: [user], ...fields })
        const issues = body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
        assert.deepStrictEqual([status, issues?.map(({ path }) => path)], [400, paths], JSON.stringify(fields))
      }
    })
  )
})
