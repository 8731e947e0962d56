import { assert, describe, it } from "@effect/vitest"
import { Agent } from "@bowline/domain/peer/Agent"
import { json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { PeerClient } from "@bowline/runtime/peer/PeerClient"
import { completes } from "@bowline/testing/peer/Act"
import { serve, type ScriptedPeer } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/peer/Trouble"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { memory, question, start } from "./call.ts"

const ask = Effect.fnUntraced(function* (peer: { readonly url: string }) {
  const { fiber } = yield* start(question(peer.url, { dialect: "auto" }))
  return yield* Fiber.join(fiber)
})

const cardsAskedFor = (peer: ScriptedPeer) =>
  Effect.map(peer.requests.all, (all) => all.filter(({ url }) => url.pathname.startsWith("/.well-known/")).length)

describe("the dialect auto", () => {
  it.effect.each(["a2a-0.3", "bindu"] as const)("is %s when the card says so", (dialect) =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect, acts: [completes("Understood")] })
      assert.strictEqual((yield* ask(peer)).content, "Understood")
      assert.deepStrictEqual((yield* peer.seen).refused, [])
    }).pipe(Effect.provide(memory))
  )

  it.effect("is A2A 0.3 for a peer without a card, and for one whose card takes longer than 2 seconds", () =>
    Effect.gen(function* () {
      const bare = yield* serve({ card: "none", acts: [completes("Understood")] })
      assert.strictEqual((yield* ask(bare)).content, "Understood")

      const slow = yield* serve({ acts: [completes("Understood")] })
      yield* slow.disturb("card", Trouble.silent)
      const { fiber } = yield* start(question(slow.url, { dialect: "auto" }))
      yield* TestClock.adjust("1999 millis")
      assert.deepStrictEqual((yield* slow.seen).sends, [])
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Understood")
    }).pipe(Effect.provide(memory))
  )

  it.effect("asks for a card once in 5 minutes, and after a failure once in 10 seconds", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [completes()] })
      yield* peer.disturb("card", Trouble.answers(503))
      yield* Effect.all([ask(peer), ask(peer)], { concurrency: 2 })
      yield* TestClock.adjust("9 seconds")
      yield* ask(peer)
      assert.strictEqual(yield* cardsAskedFor(peer), 2)
      yield* TestClock.adjust("2 seconds")
      yield* ask(peer)
      yield* TestClock.adjust("299 seconds")
      yield* ask(peer)
      assert.strictEqual(yield* cardsAskedFor(peer), 3)
      yield* TestClock.adjust("2 seconds")
      yield* ask(peer)
      assert.strictEqual(yield* cardsAskedFor(peer), 4)
    }).pipe(Effect.provide(memory))
  )

  it.effect(
    "sends to the URL of the card if it has the origin of an endpoint without a path, else to the endpoint",
    () =>
      Effect.gen(function* () {
        const network = yield* Network
        const result = { kind: "message", role: "agent", parts: [] }
        const askedAt = Effect.fnUntraced(function* (path: string, cardUrl: (origin: string) => string) {
          const peer = yield* network.serve(({ method, url }) =>
            Effect.succeed(json(200, method === "GET" ? { url: cardUrl(url.origin) } : { result }))
          )
          yield* ask({ url: `${peer.url}${path}` })
          return (yield* peer.requests.all).at(-1)?.url.pathname
        })
        assert.strictEqual(yield* askedAt("", (origin) => `${origin}/a2a`), "/a2a")
        assert.strictEqual(yield* askedAt("", () => "http://elsewhere.test/a2a"), "/")
        assert.strictEqual(yield* askedAt("/agents/one", (origin) => `${origin}/a2a`), "/agents/one/")
      }).pipe(Effect.provide(memory))
  )
})

describe("discover", () => {
  const discover = (endpoint: string) =>
    Effect.flatMap(PeerClient, (client) =>
      client.discover(Agent.make({ name: "peer", endpoint, auth: { type: "none" }, dialect: "auto" }))
    )

  it.effect("gives the skills of the card", () =>
    Effect.gen(function* () {
      const skills = [
        { id: "ask", name: "Ask", description: "Answers", tags: ["q"], outputModes: ["text/plain"] },
        { id: "sum", name: "Sum", tags: [] }
      ]
      const peer = yield* serve({ dialect: "bindu", card: { skills }, acts: [] })
      assert.deepStrictEqual((yield* discover(peer.url)).skills, [
        { id: "ask", description: "Answers", tags: ["q"], output_modes: ["text/plain"] },
        { id: "sum", description: "Sum", tags: [], output_modes: ["text/plain", "application/json"] }
      ])
    }).pipe(Effect.provide(memory))
  )

  it.effect("fails with what is wrong, and where, or that nobody answers", () =>
    Effect.gen(function* () {
      const wrong = yield* serve({ card: { skills: [{ name: "No id" }] }, acts: [] })
      const { reason } = yield* Effect.flip(discover(wrong.url))
      assert.strictEqual(reason._tag, "protocol")
      assert.match(reason.message, /agent-card\.json.*\["skills"\]\[0\]\["id"\]/s)

      const none = yield* serve({ card: "none", acts: [] })
      assert.deepInclude((yield* Effect.flip(discover(none.url))).reason, { _tag: "http", status: 404 })
      assert.strictEqual((yield* Effect.flip(discover("http://nobody.test"))).reason._tag, "unreachable")
    }).pipe(Effect.provide(memory))
  )
})
