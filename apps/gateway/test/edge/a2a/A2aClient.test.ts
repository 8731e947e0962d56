import { cut, until } from "@bowline/testing/http/Move"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, produces, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { start } from "../../http/RunningGateway.ts"
import { clients, readOut, readUntil } from "./Clients.ts"

const bob = (url: string, fields: object = {}) => ({
  bowline: { agents: [{ name: "bob", endpoint: `${url}/`, dialect: "a2a-0.3", skills: [{ id: "ask", ...fields }] }] }
})

/** Asks bob once, and says what bob said. */
const askBob: Script = (asked) =>
  results(asked).length === 0 ? [callTool("bob_ask", { input: "?" })] : [say(results(asked).join())]

describe.each(Object.entries(clients))("the client of A2A %s", (_, connect) => {
  it.live("gets an answer, and finds its task again", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("Hel"), say("lo")]])
      const client = yield* Effect.promise(() => connect(url))
      const task = yield* Effect.promise(() => client.send({ text: "Hi", contextId: "my chat" }))
      assert.deepInclude(task, { contextId: "my chat", state: "completed", answer: "Hello", history: 1 })
      assert.deepStrictEqual(yield* Effect.promise(() => client.get(task.id)), task)
      assert.deepInclude(yield* Effect.promise(() => client.get(task.id, 0)), { id: task.id, history: 0 })
    })
  )

  it.live("streams: the task, its states and tools, the artifacts of peers, the text, and its end", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("rope"), completes()] })
      const { url } = yield* start(askBob)
      const client = yield* Effect.promise(() => connect(url))
      const events = yield* readOut(client.stream({ text: "Hi", metadata: bob(peer) }))
      assert.strictEqual(events[0]?.kind, "task")
      const said = events.map(({ said }) => said)
      assert.include(said, "calling bob.ask")
      assert.include(
        events.map(({ kind }) => kind),
        "artifact bob_ask"
      )
      assert.match(events.at(-1)?.answer ?? "", /rope/)
      assert.deepInclude(events.at(-1), { kind: "status", state: "completed" })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("returns at once if it says so, and picks its task up after a cut", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("one "), until(Deferred.await(proceed)), say("two")]])
      const client = yield* Effect.promise(() => connect(url))
      const { id, state } = yield* Effect.promise(() => client.send({ text: "Hi", waits: false }))
      assert.include(["submitted", "working"], state)
      const first = client.subscribe(id)
      yield* readUntil(first, ({ answer }) => answer === "one ")
      yield* Effect.promise(() => first.return(undefined))
      const second = client.subscribe(id)
      const snapshot = yield* readUntil(second, () => true)
      assert.deepInclude(snapshot, { kind: "task", answer: "one " })
      yield* Deferred.succeed(proceed, undefined)
      const rest = yield* readOut(second)
      assert.deepInclude(rest.at(-1), { state: "completed", answer: "one two" })
    })
  )

  it.live("cancels: the peer is told", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [stuck] })
      const { url } = yield* start(askBob)
      const client = yield* Effect.promise(() => connect(url))
      const { id } = yield* Effect.promise(() => client.send({ text: "Hi", metadata: bob(peer.url), waits: false }))
      yield* peer.awaitSeen(({ sends }) => sends.length > 0)
      assert.strictEqual((yield* Effect.promise(() => client.cancel(id))).state, "canceled")
      yield* peer.cancelled
      assert.strictEqual((yield* Effect.promise(() => client.cancel(id))).state, "canceled")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is told that a stuck peer has used up the deadline, and that the task failed", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [stuck] })
      const { url } = yield* start(askBob)
      const client = yield* Effect.promise(() => connect(url))
      const { bowline } = bob(peer.url)
      const metadata = { bowline: { ...bowline, preferences: { timeout_ms: 500 } } }
      const task = yield* Effect.promise(() => client.send({ text: "Hi", metadata }))
      assert.strictEqual(task.state, "failed")
      assert.match(task.said, /deadline|time/i)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("shows the right text after a provider has reset its stream", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("wrong"), cut], [say("right")]])
      const client = yield* Effect.promise(() => connect(url))
      const events = yield* readOut(client.stream({ text: "Hi" }))
      assert.include(
        events.map(({ answer }) => answer),
        "wrong"
      )
      assert.deepInclude(events.at(-1), { state: "completed", answer: "right" })
    })
  )

  it.live("is asked for an approval: its data approves, and any text rejects", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
      const { url } = yield* start(askBob)
      const client = yield* Effect.promise(() => connect(url))
      const metadata = bob(peer, { approval: "always" })
      for (const [answer, expected] of [
        [{ data: { decision: "approve" } }, /paid/],
        [{ text: "approve" }, /rejected it/]
      ] as const) {
        const waiting = yield* Effect.promise(() => client.send({ text: "Hi", metadata }))
        assert.strictEqual(waiting.state, "input-required")
        assert.match(waiting.said, /"kind":"approval"/)
        const task = yield* Effect.promise(() => client.send({ ...answer, taskId: waiting.id }))
        assert.deepInclude(task, { id: waiting.id, state: "completed" })
        assert.match(task.answer, expected)
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is refused with a wrong key", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")]], { BOWLINE_API_KEYS: "ann=key-of-ann" })
      const ask = (key: string) =>
        Effect.promise(async () => {
          const client = await connect(url, key)
          return client.send({ text: "Hi" }).then(
            ({ state }) => state,
            (cause: unknown) => String(cause)
          )
        })
      assert.match(yield* ask("wrong"), /key/)
      assert.strictEqual(yield* ask("key-of-ann"), "completed")
    })
  )
})
