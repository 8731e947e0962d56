import { Agent } from "@bowline/domain/peer/Agent"
import { AccountRequired, PeerError } from "@bowline/domain/peer/PeerError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { direct, type PeerClient } from "../../src/remote/PeerClient.ts"
import { HandedBackTasks } from "../../src/tool/HandedBackTasks.ts"
import * as PeerTools from "../../src/tool/PeerTools.ts"
import { askBob, bob } from "../plan/Bob.ts"

const onCard = "did:web:bob.test"
const pinned = "did:bindu:ann:bob:0"

/** A peer with a card, and how often that was read. */
const peer = () => {
  const cards: Array<string> = []
  const discover: PeerClient["Service"]["discover"] = ({ name }) =>
    Effect.sync(() => {
      cards.push(name)
      return { skills: [{ id: "ask" }], did: onCard }
    })
  const call: PeerClient["Service"]["call"] = (_, onEvent) =>
    Effect.as(onEvent({ _tag: "Artifact", content: "Rope", mediaType: "text/plain", verified: "yes" }), {
      state: "completed" as const,
      content: "Rope",
      verified: "yes" as const
    })
  return { cards, peers: { discover, call } }
}

const cases: ReadonlyArray<
  readonly [title: string, fields: object, did: string | null, source: "pinned" | "observed" | null, cards: number]
> = [
  ["that the request pins", { trust: { pinned_did: pinned } }, pinned, "pinned", 0],
  ["on the card that says the dialect", {}, onCard, "observed", 1],
  ["on the card that says the skills", { skills: undefined, dialect: "bindu" }, onCard, "observed", 2],
  ["on the card that is read for it", { dialect: "bindu", trust: { verify_did: true } }, onCard, "observed", 1],
  ["that nobody has asked for", { dialect: "bindu" }, null, null, 0]
]

describe("PeerTools", () => {
  for (const [title, fields, did, source, read] of cases) {
    const { cards, peers } = peer()
    it.effect(`tells the caller and the model the DID ${title}, and whether it has signed`, () =>
      Effect.gen(function* () {
        const { frames } = yield* post({ question: "?", agents: [JSON.parse(JSON.stringify({ ...bob, ...fields }))] })
        const events = yield* readAll(frames)
        assert.deepInclude(single(events, "task.started"), { agent_did: did, agent_did_source: source })
        assert.deepInclude(single(events, "task.artifact"), { content: "Rope", verified: "yes" })
        assert.strictEqual(cards.length, read)
        const [, asked] = yield* (yield* ScriptedProvider).asked.all
        const last = asked?.messages.at(-1)
        assert.match(
          last?.role === "tool" ? last.content : "",
          new RegExp(`^<result \\S+ tool="bob_ask" agent="bob" did=${JSON.stringify(did)} verified="yes">\nRope\n`)
        )
      }).pipe(Effect.provide(layer({ script: [askBob, [say("ok")]], peers })), Effect.scoped)
    )
  }

  const refused = peer()
  it.effect("asks for no card of an agent whose call is not made", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "?", agents: [bob] })
      assert.strictEqual(single(yield* readAll(frames), "task.started").agent_did, null)
      assert.deepStrictEqual(refused.cards, [])
    }).pipe(
      Effect.provide(layer({ script: [[callTool("bob_ask", { inputs: "hi" })], [say("ok")]], peers: refused.peers })),
      Effect.scoped
    )
  )

  it.effect("tells once what two attempts say, and has a task cancelled that nobody goes on with", () =>
    Effect.gen(function* () {
      const told: Array<string> = []
      const cancelled: Array<string> = []
      let isThere = false
      const missing = new PeerError({ reason: new AccountRequired({ account: null, message: "Come again" }) })
      const call: PeerClient["Service"]["call"] = (_, onEvent) =>
        Effect.gen(function* () {
          yield* onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: null })
          yield* onEvent({ _tag: "Progress", state: "working", message: "on it" })
          if (!isThere) return yield* missing
          yield* onEvent({ _tag: "Progress", state: "working", message: "nearly" })
          return { state: "completed", content: "Paid", verified: "unknown" } as const
        })
      const cancel: PeerClient["Service"]["cancel"] = ({ taskId }) => Effect.sync(() => void cancelled.push(taskId))
      const auth = { type: "token_exchange", token_url: "https://login.test/token" }
      const agent = yield* Effect.orDie(Schema.decodeUnknownEffect(Agent)({ ...bob, auth }))
      const peers = { call, cancel, discover: () => Effect.die("unused"), peers: Effect.succeed([]) }
      const shared = { left: new HandedBackTasks([]), peers, route: direct, waits: false }
      const make = (comes: boolean) =>
        PeerTools.fromSkill(shared, agent, { id: "pay" }).call({
          taskId: TaskId.make("00000000-0000-4000-8000-000000000001"),
          input: { input: "7" },
          isHandedOver: () => false,
          ask: () => Effect.never,
          awaitAccount: () => Effect.sync(() => (isThere = comes)),
          onEvent: (event) => Effect.sync(() => void (event._tag === "Progress" && told.push(event.message ?? "")))
        })
      assert.deepInclude(yield* make(true), { state: "completed", content: "Paid" })
      assert.deepStrictEqual([told, cancelled], [["on it", "nearly"], []])
      isThere = false
      assert.deepInclude(yield* make(false), { state: "timed-out" })
      assert.deepStrictEqual(cancelled, ["remote-1"])
    })
  )

  it.effect("counts the wait for a card as a part of the call", () =>
    Effect.gen(function* () {
      const preferences = { tool_timeout_ms: 1_000 }
      const { frames } = yield* post({ question: "?", agents: [bob], preferences })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* TestClock.adjust("600 millis")
      yield* TestClock.adjust("400 millis")
      const { duration_ms, state } = single(yield* Fiber.join(reading), "task.finished")
      assert.deepStrictEqual([state, duration_ms], ["timed-out", 400])
    }).pipe(
      Effect.provide(
        layer({
          script: [askBob, [say("ok")]],
          peers: {
            discover: () => Effect.delay(Effect.succeed({ skills: [], did: onCard }), "600 millis"),
            call: () => Effect.never
          }
        })
      ),
      Effect.scoped
    )
  )
})
