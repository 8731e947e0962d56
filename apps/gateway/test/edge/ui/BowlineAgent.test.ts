import { type AgentSubscriber, type BaseEvent, EventType } from "@ag-ui/client"
import { createBowline, type PlanRequest } from "@bowline/client"
import { BowlineAgent } from "@bowline/client/ag-ui"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall, until as waitFor } from "@bowline/testing/http/Move"
import { completes, produces } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule } from "effect"
import { send, start } from "../../http/RunningGateway.ts"

type Script = Parameters<typeof start>[0]

const callsPeer: Script = (asked) =>
  results(asked).length === 0 ? [say("Asking"), callTool("rigger_ask", { input: "7" })] : [say("Done")]

const agentAt = (baseUrl: string, request: Omit<PlanRequest, "question"> = {}) =>
  new BowlineAgent({
    bowline: createBowline({ baseUrl }),
    request,
    threadId: "thread",
    initialMessages: [{ id: "question", role: "user", content: "?" }]
  })

const watch = (run: (subscriber: AgentSubscriber) => Promise<unknown>) =>
  Effect.promise(async () => {
    const events: Array<BaseEvent> = []
    await run({ onEvent: ({ event }) => void events.push(event) }).catch(() => undefined)
    return { last: events.at(-1), types: events.map(({ type }): string => type) }
  })

const said = (agent: BowlineAgent, text: string) =>
  Effect.sync(() => agent.messages.some((message) => message.role === "assistant" && message.content === text)).pipe(
    Effect.repeat({ until: (isSaid) => isSaid, schedule: Schedule.spaced("10 millis") })
  )

const stateOf = (url: string) =>
  send(`${url}/plans?session_id=thread&limit=1`).pipe(
    Effect.map(({ body }) => (body["plans"] as ReadonlyArray<{ readonly state: string }>)[0]?.state),
    Effect.repeat({
      until: (state) => state !== "queued" && state !== "running",
      schedule: Schedule.spaced("20 millis")
    })
  )

describe("an AG-UI agent through the client", () => {
  it.live("runs a plan, and goes on with its session", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("Hel"), say("lo")], [say("Again")]])
      const agent = agentAt(url)
      const { last, types } = yield* watch((subscriber) => agent.runAgent({}, subscriber))
      assert.strictEqual(types[0], "RUN_STARTED")
      const { body } = yield* send(`${url}/agui`)
      const { identity: _, multiAgent, ...told } = body
      const own = yield* Effect.promise(() => agent.getCapabilities())
      assert.deepStrictEqual<object>(
        { ...told, multiAgent },
        { ...own, transport: { streaming: true, resumable: false }, multiAgent: { ...own.multiAgent, subagents: [] } }
      )
      assert.deepInclude(own.transport, { resumable: true })
      assert.deepInclude(last, { type: EventType.RUN_FINISHED, outcome: { type: "success" } })
      assert.deepInclude(agent.messages.at(-1), { role: "assistant", content: "Hello" })
      const clone = agent.clone()
      clone.addMessage({ id: "more", role: "user", content: "And?" })
      yield* watch((subscriber) => clone.runAgent({}, subscriber))
      assert.deepInclude(clone.messages.at(-1), { content: "Again" })
      assert.include((yield* provider.requests.all).at(-1)?.body, "Hello")
    })
  )

  it.live("asks for an approval with an interrupt, and goes on behind the answer", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
      const { url } = yield* start(callsPeer)
      const skills = [{ id: "ask", approval: "always" }] as const
      const agent = agentAt(url, { agents: [{ name: "rigger", endpoint: `${peer}/`, dialect: "a2a-0.3", skills }] })
      const first = yield* watch((subscriber) => agent.runAgent({}, subscriber))
      assert.deepNestedInclude(first.last, { type: "RUN_FINISHED", "outcome.type": "interrupt" })
      const [{ id } = assert.fail()] = agent.pendingInterrupts
      const resume = [{ interruptId: id, status: "resolved" as const, payload: { decision: "approve" } }]
      const second = yield* watch((subscriber) => agent.runAgent({ resume }, subscriber))
      assert.deepInclude(second.last, { type: EventType.RUN_FINISHED, outcome: { type: "success" } })
      assert.deepInclude(agent.messages.at(-1), { content: "Done" })
      assert.strictEqual(yield* stateOf(url), "completed")
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("asks something else with an answer that it has cancelled", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [] })
      const { url } = yield* start([[callTool("rigger_ask", { input: "7" })], [say("Else")]])
      const skills = [{ id: "ask", approval: "always" }] as const
      const agent = agentAt(url, { agents: [{ name: "rigger", endpoint: `${peer}/`, dialect: "a2a-0.3", skills }] })
      yield* watch((subscriber) => agent.runAgent({}, subscriber))
      const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" as const }))
      agent.addMessage({ id: "else", role: "user", content: "Else?" })
      yield* watch((subscriber) => agent.runAgent({ resume }, subscriber))
      assert.deepInclude(agent.messages.at(-1), { content: "Else" })
      const { body } = yield* send(`${url}/plans?state=aborted`)
      assert.deepNestedInclude(body, { "plans[0].error.reason": "superseded" })
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("connects to what runs in its thread, from the start, and to nothing where nothing runs", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("a"), waitFor(Deferred.await(proceed)), say("b")]])
      const page = agentAt(url)
      const running = yield* Effect.forkChild(watch((subscriber) => page.runAgent({}, subscriber)))
      yield* said(page, "a")
      const reloaded = agentAt(url)
      const connecting = yield* Effect.forkChild(watch((subscriber) => reloaded.connectAgent({}, subscriber)))
      yield* said(reloaded, "a")
      yield* Deferred.succeed(proceed, undefined)
      yield* Fiber.joinAll([running, connecting])
      assert.deepInclude(reloaded.messages.at(-1), { content: "ab" })
      const idle = yield* watch((subscriber) => agentAt(url).connectAgent({}, subscriber))
      assert.deepStrictEqual(idle.types, ["RUN_STARTED", "RUN_FINISHED"])
    })
  )

  it.live("ends its plan with abortRun(), and leaves it alone where it only looks away", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("a"), stall]])
      const agent = agentAt(url)
      const running = yield* Effect.forkChild(watch((subscriber) => agent.runAgent({}, subscriber)))
      yield* said(agent, "a")
      yield* Effect.promise(() => agent.detachActiveRun())
      yield* Fiber.join(running)
      const connecting = yield* Effect.forkChild(watch((subscriber) => agent.connectAgent({}, subscriber)))
      yield* said(agent, "a")
      assert.strictEqual((yield* send(`${url}/plans?state=running`)).status, 200)
      agent.abortRun()
      yield* Fiber.join(connecting)
      assert.strictEqual(yield* stateOf(url), "aborted")
    })
  )
})
