import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until } from "@bowline/testing/http/Move"
import { becomes, completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"
import { errorOf, eventsOf, fieldsOf, message, resultOf, rpc, taskIn } from "./Requests.ts"

interface TaskShown {
  readonly id: string
  readonly contextId: string
  readonly status: { readonly state: string }
  readonly history: ReadonlyArray<{ readonly parts: ReadonlyArray<{ readonly text: string }> }>
  readonly artifacts: ReadonlyArray<{
    readonly artifactId: string
    readonly parts: ReadonlyArray<{ readonly text: string }>
  }>
}

const taskOf = (answer: Parameters<typeof resultOf>[0]) => resultOf(answer)["task"] as TaskShown
const answerOf = ({ artifacts }: TaskShown) =>
  artifacts.find(({ artifactId }) => artifactId === "answer")?.parts.map(({ text }) => text)
const saidBy = ({ history }: TaskShown) => history.flatMap(({ parts }) => parts.map(({ text }) => text))

const sent = (text: string, fields: object = {}) => message({ parts: [{ text }], ...fields })

describe("a task of several plans", () => {
  it.live("waits for its client when a peer does, and continues with the client's answer", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({
        acts: ({ continues }) => (continues ? [completes("Rope it is")] : [becomes("input-required", "Rope or chain?")])
      })
      const script: Script = (asked) =>
        results(asked).length === 0 ? [callTool("bob_ask", { input: question(asked) })] : [say(results(asked).join())]
      const { url } = yield* start(script)
      const agents = [{ name: "bob", endpoint: `${peer}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
      const metadata = { bowline: { agents } }
      const waiting = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", sent("Tie it", { metadata }))))
      assert.strictEqual(waiting.status.state, "TASK_STATE_INPUT_REQUIRED")
      const listed = yield* post(`${url}/a2a`, rpc("ListTasks", { status: "TASK_STATE_INPUT_REQUIRED" }))
      assert.deepStrictEqual(
        (resultOf(listed)["tasks"] as ReadonlyArray<TaskShown>).map(({ id }) => id),
        [waiting.id]
      )
      const done = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", sent("Rope", { metadata, taskId: waiting.id }))))
      assert.deepInclude(done, { id: waiting.id, contextId: waiting.contextId })
      assert.strictEqual(done.status.state, "TASK_STATE_COMPLETED")
      assert.include(answerOf(done)?.join(""), "Rope it is")
      assert.includeMembers(saidBy(done), ["Tie it", "Rope"])
      const plans = (yield* send(`${url}/plans`)).body["plans"] as ReadonlyArray<{ readonly plan_id: string }>
      assert.lengthOf(plans, 2)
      const later = yield* post(`${url}/a2a`, rpc("GetTask", { id: plans[0]?.plan_id }))
      assert.strictEqual(errorOf(later).code, -32001)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("takes a message while it works: it is over when the plan of that message is, for every reader", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start((asked) =>
        question(asked) === "one" ? [say("first"), until(Deferred.await(proceed))] : [say("second")]
      )
      const configuration = { returnImmediately: true }
      const { id } = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", { ...sent("one"), configuration })))
      const reader = yield* Effect.forkChild(post(`${url}/a2a`, rpc("SubscribeToTask", { id })), {
        startImmediately: true
      })
      const added = taskOf(
        yield* post(`${url}/a2a`, rpc("SendMessage", { ...sent("two", { taskId: id }), configuration }))
      )
      assert.strictEqual(added.id, id)
      yield* Deferred.succeed(proceed, undefined)
      const events = eventsOf((yield* Fiber.join(reader)).text)
      const states = events.flatMap(({ data }) => JSON.stringify(data).match(/TASK_STATE_\w+/g) ?? [])
      assert.deepStrictEqual(states.filter((state) => state === "TASK_STATE_COMPLETED").length, 1)
      assert.strictEqual(states.at(-1), "TASK_STATE_COMPLETED")
      const task = resultOf(yield* post(`${url}/a2a`, rpc("GetTask", { id }))) as unknown as TaskShown
      assert.deepStrictEqual([answerOf(task), saidBy(task)], [["second"], ["one", "two"]])
      // The ids of the second plan's events name it, and a reader comes back with them, too.
      const ids = events.map(({ id }) => id)
      const mark = ids.find((id) => id?.startsWith("1.") === true)
      assert.isDefined(mark)
      const again = yield* send(`${url}/a2a/tasks/${id}:subscribe`, { headers: { "last-event-id": mark ?? "" } })
      const behind = eventsOf(again.text).map(({ id }) => id)
      assert.deepStrictEqual(behind, ids.slice(ids.indexOf(mark) + 1))
    })
  )

  it.live("is cancelled with all its plans", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("first"), until(Effect.never)])
      const configuration = { returnImmediately: true }
      const { id } = taskOf(yield* post(`${url}/a2a`, rpc("SendMessage", { ...sent("one"), configuration })))
      yield* post(`${url}/a2a`, rpc("SendMessage", { ...sent("two", { taskId: id }), configuration }))
      const task = resultOf(yield* post(`${url}/a2a`, rpc("CancelTask", { id }))) as unknown as TaskShown
      assert.strictEqual(task.status.state, "TASK_STATE_CANCELED")
      const plans = (yield* send(`${url}/plans`)).body["plans"] as ReadonlyArray<{ readonly state: string }>
      assert.deepStrictEqual(
        plans.map(({ state }) => state),
        ["aborted", "aborted"]
      )
    })
  )

  it.live("streams up to its question for an approval, and on with the decision", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [completes("paid")] })
      const { url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("bob_ask", { input: "?" })] : [say(results(asked).join())]
      )
      const skills = [{ id: "ask", approval: "always" }]
      const agents = [{ name: "bob", endpoint: `${peer}/`, dialect: "a2a-0.3", skills }]
      const asking = yield* post(`${url}/a2a/message:stream`, sent("Pay", { metadata: { bowline: { agents } } }))
      const events = eventsOf(asking.text)
      assert.include(JSON.stringify(events.at(-1)), "TASK_STATE_INPUT_REQUIRED")
      const { id } = taskIn(events)
      const wrong = yield* post(
        `${url}/a2a`,
        rpc("SendMessage", message({ taskId: id, parts: [{ data: { decision: "maybe" } }] }))
      )
      assert.deepStrictEqual(fieldsOf(errorOf(wrong)), ["message.parts[0].data.decision"])
      const both = [{ data: { decision: "approve" } }, { data: { decision: "reject" } }]
      const torn = yield* post(`${url}/a2a`, rpc("SendMessage", message({ taskId: id, parts: both })))
      assert.deepStrictEqual(fieldsOf(errorOf(torn)), ["message.parts"])
      const decision = message({ taskId: id, parts: [{ data: { decision: "approve" } }] })
      const decided = eventsOf((yield* post(`${url}/a2a/message:stream`, decision)).text)
      assert.deepInclude(taskIn(decided).status, { state: "TASK_STATE_WORKING" })
      assert.include(JSON.stringify(decided), "paid")
      assert.include(JSON.stringify(decided.at(-1)), "TASK_STATE_COMPLETED")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

describe("a message", () => {
  it.live("that has come through too many gateways is refused", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const answer = yield* post(`${url}/a2a`, rpc("SendMessage", sent("?")), { "x-bowline-hops": "6" })
      assert.deepInclude(errorOf(answer).data?.[0]?.metadata, { code: "hops_exceeded" })
      assert.strictEqual(errorOf(answer).code, -32004)
    })
  )
})
