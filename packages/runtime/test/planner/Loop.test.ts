import type { PeerClient, PeerResult } from "../../src/remote/PeerClient.ts"
import { stall } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { askBob, bob } from "../plan/Bob.ts"
import { askAndKill, hi, mortal, peer, replayed } from "../plan/Mortal.ts"

type Turns = Parameters<typeof layer>[0]["script"]

/** Asks with a script, and with a peer that answers by what it is asked. */
const ask = (
  script: Turns,
  answer: (input: unknown) => Pick<PeerResult, "state" | "content">,
  given: { readonly preferences?: object; readonly skill?: object } = {}
) =>
  Effect.gen(function* () {
    const agent = { ...bob, skills: [{ id: "ask", ...given.skill }] }
    const { frames } = yield* post({ question: "?", agents: [agent], preferences: given.preferences ?? {} })
    const events = yield* readAll(frames)
    return { events, asked: yield* (yield* ScriptedProvider).asked.all }
  }).pipe(
    Effect.provide(
      layer({ script, peers: { call: ({ input }) => Effect.succeed({ ...answer(input), verified: "unknown" }) } })
    ),
    Effect.scoped
  )

const failing = () => ({ state: "failed" as const, content: "out of rope" })
const call = (input: object) => callTool("bob_ask", { input: "hi", ...input })
const always =
  (...calls: ReadonlyArray<ReturnType<typeof call>>) =>
  ({ toolChoice }: Asked) =>
    toolChoice === "none" ? [say("gave up")] : calls

describe("a plan whose calls lead nowhere", () => {
  it.effect("ends loop_detected after exactly three provider calls, and names the call and its last error", () =>
    Effect.gen(function* () {
      const { events, asked } = yield* ask(always(call({})), failing)
      assert.strictEqual(asked.length, 3)
      assert.strictEqual(all(events, "task.finished").length, 3)
      const error = single(events, "error")
      assert.deepInclude(error, { code: "loop_detected", retryable: false, stage: null })
      assert.deepStrictEqual(error.data, { tool: "bob_ask", state: "failed", error: "out of rope" })
      assert.match(error.message, /bob_ask has failed in 3 steps.*out of rope/)
    })
  )

  it.effect("knows a call again whatever the order of its keys", () =>
    Effect.gen(function* () {
      const script = [
        [callTool("bob_ask", '{"input":"hi","a":{"b":1,"c":2}}')],
        [callTool("bob_ask", '{"a":{"c":2,"b":1},"input":"hi"}')],
        [callTool("bob_ask", '{ "input": "hi", "a": {"b": 1, "c": 2} }')]
      ]
      const skill = { input_schema: { type: "object" } }
      const { events } = yield* ask(script, failing, { skill })
      assert.strictEqual(single(events, "error").code, "loop_detected")
    })
  )

  it.effect("counts a call that is never made, for its arguments or its name", () =>
    Effect.gen(function* () {
      const invalid = yield* ask(always(callTool("bob_ask", "{not json")), failing)
      assert.strictEqual(invalid.asked.length, 3)
      assert.strictEqual(single(invalid.events, "error").code, "loop_detected")
      const unknown = yield* ask(always(callTool("bob_asks", {})), failing)
      assert.strictEqual(single(unknown.events, "error").code, "loop_detected")
    })
  )

  it.effect("goes on where three calls that differ have failed, and where one has succeeded in between", () =>
    Effect.gen(function* () {
      const three = [[call({ input: "1" })], [call({ input: "2" })], [call({ input: "3" })], [say("done")]]
      assert.strictEqual(single((yield* ask(three, failing)).events, "final").text, "done")
      let calls = 0
      const second = () => (++calls === 2 ? { state: "completed" as const, content: "rope" } : failing())
      const four = [[call({})], [call({})], [call({})], [call({})], [say("done")]]
      assert.strictEqual(single((yield* ask(four, second)).events, "final").text, "done")
    })
  )

  it.effect("is not saved by a companion that succeeds", () =>
    Effect.gen(function* () {
      const answer = (input: unknown) =>
        JSON.stringify(input).includes("good") ? { state: "completed" as const, content: "fine" } : failing()
      const { events, asked } = yield* ask(always(call({ input: "good" }), call({})), answer)
      assert.strictEqual(asked.length, 3)
      assert.strictEqual(single(events, "error").code, "loop_detected")
    })
  )

  it.effect("is told once in the fifth equal result, and answers without tools after two more", () =>
    Effect.gen(function* () {
      const same = () => ({ state: "completed" as const, content: "still nothing" })
      const { events, asked } = yield* ask(always(call({})), same)
      assert.deepInclude(single(events, "final"), { stop_reason: "loop", text: "gave up", tool_calls: 7, steps: 8 })
      const warned = asked.map(({ messages }) => JSON.stringify(messages).split("You have made this call").length - 1)
      assert.deepStrictEqual(warned, [0, 0, 0, 0, 0, 1, 1, 1])
    })
  )

  it.effect("is told in the next process, too, and has no more repetitions there than it had left", () => {
    const { peers } = peer()
    const asked: Array<Asked> = []
    const six = ({ messages }: Asked) => (messages.filter(({ role }) => role === "tool").length < 6 ? askBob : [stall])
    const stubborn = (request: Asked) => {
      asked.push(request)
      return request.toolChoice === "none" ? [say("gave up")] : askBob
    }
    return Effect.gen(function* () {
      const first = yield* mortal({ script: six, peers })
      const second = yield* mortal({ script: stubborn, peers })
      const { plan_id } = yield* askAndKill(first, { agents: [bob] })
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(single(events, "final"), { stop_reason: "loop", tool_calls: 7, steps: 8 })
      const warned = asked.map(({ messages }) =>
        messages.flatMap((message, at) => (JSON.stringify(message).includes("You have made this call") ? [at] : []))
      )
      assert.deepStrictEqual(warned, [[10], [10]])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("ends in the next process where its own died before it could say so, and nobody is asked again", () => {
    const call: PeerClient["Service"]["call"] = () => Effect.succeed({ ...failing(), verified: "unknown" })
    const three = ({ messages }: Asked) => (messages.length < 7 ? askBob : [stall])
    const off = { loop: { failures: 0, repeats: 0, pairs: 0 } }
    return Effect.gen(function* () {
      const first = yield* mortal({ script: three, peers: { call }, config: off })
      const second = yield* mortal({ script: [] })
      const { plan_id } = yield* askAndKill(first, { agents: [bob] })
      const events = yield* replayed(second, plan_id)
      assert.lengthOf(all(events, "task.finished"), 3)
      assert.deepInclude(single(events, "error"), { code: "loop_detected", stage: null })
      assert.isEmpty(all(events, "retry"))
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("counts the failure of a call whose companion is resumed by the next process", () => {
    const agents = [{ ...bob, skills: [{ id: "ask" }, { id: "slow", idempotent: true }] }]
    const callOf =
      (slow: Effect.Effect<typeof hi>): PeerClient["Service"]["call"] =>
      ({ skill }) =>
        skill.id === "slow" ? slow : Effect.succeed({ ...failing(), verified: "unknown" })
    const third = ({ messages }: Asked) =>
      messages.length < 5 ? askBob : [...askBob, callTool("bob_slow", { input: "hi" })]
    return Effect.gen(function* () {
      const first = yield* mortal({ script: third, peers: { call: callOf(Effect.never) } })
      const second = yield* mortal({ script: [], peers: { call: callOf(Effect.succeed(hi)) } })
      const { plan_id } = yield* askAndKill(first, { agents })
      const events = yield* replayed(second, plan_id)
      assert.deepStrictEqual(
        all(events, "task.finished").map(({ state }) => state),
        ["failed", "failed", "failed", "completed"]
      )
      assert.deepInclude(single(events, "error").data, { tool: "bob_ask" })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("may ask a polling skill as often as it likes", () =>
    Effect.gen(function* () {
      const same = () => ({ state: "completed" as const, content: "not yet" })
      const script = [...Array.from({ length: 12 }, () => [call({})]), [say("done")]]
      const { events } = yield* ask(script, same, { skill: { polling: true } })
      assert.deepInclude(single(events, "final"), { stop_reason: "stop", tool_calls: 12 })
    })
  )
})

describe("max_total_tokens", () => {
  it.effect("ends the calls of tools once it is used up, and asks for the answer", () =>
    Effect.gen(function* () {
      const spend = usage({ input_tokens: 900, output_tokens: 200 })
      const script = ({ messages, toolChoice }: Asked) =>
        toolChoice === "none" ? [say("enough")] : [call({ input: String(messages.length) }), spend]
      const fine = () => ({ state: "completed" as const, content: "fine" })
      const { events, asked } = yield* ask(script, fine, { preferences: { max_total_tokens: 3_000 } })
      assert.deepInclude(single(events, "final"), { stop_reason: "max_total_tokens", text: "enough", steps: 4 })
      assert.strictEqual(asked.length, 4)
    })
  )

  it.effect("ends the plan in budget_exceeded where the next request alone is larger", () =>
    Effect.gen(function* () {
      const { events, asked } = yield* ask([[say("never")]], failing, { preferences: { max_total_tokens: 10 } })
      assert.strictEqual(asked.length, 0)
      assert.deepInclude(single(events, "error"), { code: "budget_exceeded", retryable: false })
    })
  )
})
