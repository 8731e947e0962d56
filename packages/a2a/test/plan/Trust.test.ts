import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { json, type HostResponse } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import type { Part } from "../../src/task/Task.ts"
import { agent, documentOf, unsigned } from "../identity/Agent.ts"
import { memory } from "../peer/call.ts"

const ann = agent(1)
const mallory = agent(66)

const wire = (part: Part) =>
  part._tag === "Text" ? { kind: "text", text: part.text, metadata: part.metadata } : { kind: "data", data: { sum: 1 } }

const result = (state: string, message: ReadonlyArray<Part>, artifact: ReadonlyArray<Part>) => ({
  kind: "task",
  id: "00000000-0000-4000-8000-00000000000a",
  contextId: "00000000-0000-4000-8000-00000000000b",
  status: { state, message: { role: "agent", parts: message.map(wire), metadata: { note: "SESAME" } } },
  artifacts: artifact.length === 0 ? [] : [{ artifactId: "a", parts: artifact.map(wire) }]
})

/** A peer that is `ann`, or says so: what it answers to a message, and the document of its DID. */
const serve = Effect.fnUntraced(function* (answer: object, document: HostResponse) {
  const network = yield* Network
  const { url } = yield* network.serve(({ url: { pathname }, method }) =>
    Effect.succeed(
      pathname === "/did/resolve"
        ? document
        : method === "GET"
          ? json(200, { id: ann.did, agentTrust: {}, skills: [{ id: "ask" }] })
          : json(200, { jsonrpc: "2.0", ...answer })
    )
  )
  return url
})

const plans = Layer.unwrap(
  Effect.map(PeerClient, (peers) =>
    TestKit.layer({ script: [[callTool("peer_ask", { input: "Hi" })], [say("ok")]], peers })
  )
).pipe(Layer.provideMerge(memory))

const ask = Effect.fnUntraced(function* (url: string, trust: object) {
  const { frames, session_id } = yield* TestKit.post({
    question: "?",
    preferences: { tool_timeout_ms: 10_000 },
    agents: [{ name: "peer", endpoint: `${url}/`, dialect: "bindu", trust, skills: [{ id: "ask" }] }]
  })
  const reading = yield* Effect.forkChild(TestKit.readAll(frames))
  yield* TestKit.pass("15 seconds")
  const events = yield* Fiber.join(reading)
  const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
  const asked = yield* (yield* ScriptedProvider).asked.all
  return {
    events,
    everything: JSON.stringify([events, items, asked.map(({ messages, system }) => [messages, system])])
  }
})

const document = json(200, documentOf(ann.did, ann.key))
const impostor = json(200, documentOf(mallory.did, mallory.key))
const ofAnotherKey = json(200, documentOf(ann.did, mallory.key))
const said = [ann.signed("SESAME")]
const completed = (message: ReadonlyArray<Part>, artifact: ReadonlyArray<Part> = []) => ({
  result: result("completed", message, artifact)
})
const data: Part = { _tag: "Data", data: { sum: 1 } }

describe("the answer of a peer that has to sign it", () => {
  it.effect.each([
    ["is not signed", completed([unsigned("SESAME")]), document],
    ["is signed by somebody else", completed([mallory.signed("SESAME")]), document],
    ["is unsigned in one part", completed(said, [unsigned("SESAME")]), document],
    ["has data among the signed parts", completed(said, [data]), document],
    ["comes from an impostor, whose document is that of another DID", completed([mallory.signed("SESAME")]), impostor],
    ["comes from an impostor, whose key is not that of the DID", completed([mallory.signed("SESAME")]), ofAnotherKey],
    ["comes from a DID that does not resolve", completed(said), json(404, {})],
    ["asks for input, and is not signed", { result: result("input-required", [unsigned("SESAME")], []) }, document],
    ["failed, and is not signed", { result: result("failed", [unsigned("SESAME")], []) }, document],
    ["is a refusal", { error: { code: -32000, message: "SESAME" } }, document],
    ["does not decode", { result: { kind: "task", id: 1, status: "SESAME" } }, document]
  ] as const)("is withheld from the model, the stream and the history when it %s", ([, answer, resolved]) =>
    Effect.gen(function* () {
      const url = yield* serve(answer, resolved)
      const { events, everything } = yield* ask(url, { verify_did: true, pinned_did: ann.did })
      const { error, state } = TestKit.single(events, "task.finished")
      assert.strictEqual(state, "failed")
      if ("result" in answer && typeof answer.result.status === "object") assert.strictEqual(error?.code, "untrusted")
      assert.notInclude(everything, "SESAME")
      assert.strictEqual(TestKit.single(events, "final").text, "ok")
    }).pipe(Effect.provide(plans), Effect.scoped)
  )

  it.effect.each([
    ["pinned", { verify_did: true, pinned_did: ann.did }, "pinned"],
    ["named by the card", { verify_did: true }, "observed"]
  ] as const)("is passed on as verified when its DID is %s, and every part is signed", ([, trust, source]) =>
    Effect.gen(function* () {
      const url = yield* serve(completed(said, [ann.signed("SESAME, too")]), document)
      const { events, everything } = yield* ask(url, trust)
      const { agent_did, agent_did_source } = TestKit.single(events, "task.started")
      assert.deepStrictEqual([agent_did, agent_did_source], [ann.did, source])
      assert.strictEqual(TestKit.single(events, "task.artifact").verified, "yes")
      assert.strictEqual(TestKit.single(events, "task.finished").state, "completed")
      assert.include(everything, "SESAME, too")
    }).pipe(Effect.provide(plans), Effect.scoped)
  )

  it.effect("is not believed when it comes from another peer than the pinned one", () =>
    Effect.gen(function* () {
      const url = yield* serve(completed([mallory.signed("SESAME")]), json(200, documentOf(mallory.did, mallory.key)))
      const { events, everything } = yield* ask(url, { verify_did: true, pinned_did: ann.did })
      assert.strictEqual(TestKit.single(events, "task.finished").error?.code, "untrusted")
      assert.notInclude(everything, "SESAME")
    }).pipe(Effect.provide(plans), Effect.scoped)
  )

  it.effect("is not shown as the name of a state either", () =>
    Effect.gen(function* () {
      const url = yield* serve({ result: result("SESAME", [], []) }, document)
      const { events, everything } = yield* ask(url, { verify_did: true, pinned_did: ann.did })
      assert.strictEqual(TestKit.single(events, "task.finished").state, "timed-out")
      assert.notInclude(everything, "SESAME")
    }).pipe(Effect.provide(plans), Effect.scoped)
  )

  it.effect("is passed on unverified when nobody asked for it", () =>
    Effect.gen(function* () {
      const url = yield* serve(completed([unsigned("SESAME")], [unsigned("A")]), document)
      const { events, everything } = yield* ask(url, { pinned_did: ann.did })
      assert.strictEqual(TestKit.single(events, "task.artifact").verified, "unknown")
      assert.include(everything, "SESAME")
    }).pipe(Effect.provide(plans), Effect.scoped)
  )
})
