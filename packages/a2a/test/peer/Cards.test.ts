import { assert, describe, it } from "@effect/vitest"
import { Agent, type Trust } from "@bowline/domain/peer/Agent"
import { json, text } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { becomes, completes } from "@bowline/testing/peer/Act"
import { serve, type ScriptedPeer } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/unstable/peer/Trouble"
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
  it.effect.each(["a2a-1.0", "a2a-0.3", "bindu"] as const)("is %s when the card says so", (dialect) =>
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

  it.effect("keeps a card for as long as the peer says, and then asks whether it is still good", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const result = { kind: "message", role: "agent", parts: [{ kind: "text", text: "Understood" }] }
      const host = yield* network.serve(({ headers, method, url }) => {
        if (method === "POST") return Effect.succeed(json(200, { result }))
        const caching = { etag: '"one"', "cache-control": "max-age=60" }
        return Effect.succeed(
          headers["if-none-match"] === '"one"'
            ? text(304, "", caching)
            : json(200, { url: `${url.origin}/a2a`, skills: [{ id: "ask" }] }, caching)
        )
      })
      for (const seconds of [0, 59, 2, 59, 2]) {
        yield* TestClock.adjust(seconds * 1_000)
        yield* ask(host)
      }
      const requests = yield* host.requests.all
      assert.deepStrictEqual(
        requests.filter(({ method }) => method === "GET").map(({ headers }) => headers["if-none-match"]),
        [undefined, '"one"', '"one"']
      )
      for (const { method, url } of requests) assert.strictEqual(url.pathname === "/a2a", method === "POST")
      const client = yield* PeerClient
      yield* TestClock.adjust("61 seconds")
      const agent = Agent.make({ name: "peer", endpoint: `${host.url}/`, auth: { type: "none" }, dialect: "auto" })
      assert.deepStrictEqual(
        (yield* client.discover(agent)).skills.map(({ id }) => id),
        ["ask"]
      )
    }).pipe(Effect.provide(memory))
  )

  it.effect("stays what it was when the card becomes unavailable", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ dialect: "a2a-1.0", streams: true, acts: [completes("Understood")] })
      yield* ask(peer)
      yield* TestClock.adjust("6 minutes")
      yield* peer.disturb("card", Trouble.answers(503))
      assert.strictEqual((yield* ask(peer)).content, "Understood")
      const { refused, streams } = yield* peer.seen
      assert.deepStrictEqual([streams.length, refused], [2, []])
    }).pipe(Effect.provide(memory))
  )

  it.effect("stays what it was for a task that is continued, and is what a new card says for others", () =>
    Effect.gen(function* () {
      const peer = yield* serve({
        dialect: "a2a-0.3",
        acts: ({ continues }) => [continues ? completes("Understood") : becomes("input-required", "Which?")]
      })
      const first = yield* start(question(peer.url, { dialect: "auto" }))
      yield* Fiber.join(first.fiber)
      const [accepted] = first.events
      assert.strictEqual(accepted?._tag, "Accepted")
      const taskId = accepted?._tag === "Accepted" ? accepted.remoteTaskId : null

      yield* TestClock.adjust("6 minutes")
      const card = { supportedInterfaces: [{ url: peer.url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }] }
      yield* peer.disturb("card", Trouble.answers(200, {}, JSON.stringify(card)))
      const continues = { taskId, contextId: null }
      const more = yield* start(question(peer.url, { dialect: "auto" }, { continues }))
      assert.include((yield* Fiber.join(more.fiber)).content, "Understood")

      const refused = yield* start(question(peer.url, { dialect: "auto" }))
      assert.strictEqual((yield* Effect.flip(Fiber.join(refused.fiber))).reason._tag, "rpc")
    }).pipe(Effect.provide(memory))
  )

  it.effect.each([
    ["as its card says", true, undefined, true],
    ["as the request says, whatever its card does", false, true, true],
    ["as the request says, whatever its card does", true, false, false],
    ["not when nobody says so", false, undefined, false]
  ] as const)("streams %s", ([, streams, streaming, expected]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ streams: true, card: { capabilities: { streaming: streams } }, acts: [completes()] })
      const { fiber } = yield* start(
        question(peer.url, { dialect: "auto", ...(streaming !== undefined && { streaming }) })
      )
      yield* Fiber.join(fiber)
      const seen = yield* peer.seen
      assert.deepStrictEqual([seen.streams.length, seen.sends.length], expected ? [1, 0] : [0, 1])
    }).pipe(Effect.provide(memory))
  )

  it.effect("comes with the tenant that the card names for its interface, which every request then has", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(({ method, url }) => {
        const offer = { url: url.origin, protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "knots" }
        const task = { id: "one", status: { state: "TASK_STATE_WORKING" } }
        return Effect.succeed(json(200, method === "GET" ? { supportedInterfaces: [offer] } : { result: task }))
      })
      const { fiber } = yield* start(question(host.url, { dialect: "auto" }))
      yield* TestClock.adjust("60 millis")
      yield* Fiber.interrupt(fiber)
      const [, ...requests] = yield* host.requests.awaitCount(4)
      assert.deepStrictEqual(
        requests.map(({ body }) => /"method":"(\w+)","params":{"tenant":"knots",/.exec(body)?.[1]),
        ["SendMessage", "GetTask", "CancelTask"]
      )
    }).pipe(Effect.provide(memory))
  )

  it.effect("is not read from the card where the request names it; the DID that has to sign is", () =>
    Effect.gen(function* () {
      const did = "did:bindu:author:echo:438b4815-7ebe-d853-b95d-48b32b68fa3a"
      const asked = Effect.fnUntraced(function* (trust: Trust) {
        const peer = yield* serve({ acts: [completes()] })
        yield* Fiber.await((yield* start(question(peer.url, { dialect: "a2a-0.3", trust }))).fiber)
        return yield* cardsAskedFor(peer)
      })
      assert.strictEqual(yield* asked({}), 0)
      assert.strictEqual(yield* asked({ verify_did: true }), 1)
      assert.strictEqual(yield* asked({ verify_did: true, pinned_did: did }), 0)
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

  it.effect("gives the DID that the card has", () =>
    Effect.gen(function* () {
      const did = "did:bindu:author:echo:438b4815-7ebe-d853-b95d-48b32b68fa3a"
      const peer = yield* serve({ dialect: "bindu", card: { capabilities: { extensions: [{ uri: did }] } }, acts: [] })
      assert.strictEqual((yield* discover(peer.url)).did, did)
      assert.isNull((yield* discover((yield* serve({ acts: [] })).url)).did)
    }).pipe(Effect.provide(memory))
  )

  it.effect("fails with what is wrong, and where, or that nobody answers", () =>
    Effect.gen(function* () {
      const wrong = yield* serve({ card: { skills: [{ name: "No id" }] }, acts: [] })
      const { reason } = yield* Effect.flip(discover(wrong.url))
      assert.strictEqual(reason._tag, "protocol")
      assert.match(reason.message, /agent-card\.json.*\["skills"\]\[0\]\["id"\]/s)

      const { serve: host } = yield* Network
      const busy = yield* host(({ url }) => Effect.succeed(text(url.pathname.endsWith("card.json") ? 503 : 403, "")))
      assert.deepInclude((yield* Effect.flip(discover(busy.url))).reason, { _tag: "http", status: 503 })

      const none = yield* serve({ card: "none", acts: [] })
      assert.deepInclude((yield* Effect.flip(discover(none.url))).reason, { _tag: "http", status: 404 })
      assert.strictEqual((yield* Effect.flip(discover("http://nobody.test"))).reason._tag, "unreachable")
    }).pipe(Effect.provide(memory))
  )
})

it.effect("the peers that were called are listed with their dialect and their card", () =>
  Effect.gen(function* () {
    const client = yield* PeerClient
    const carded = yield* serve({ dialect: "a2a-1.0", card: { name: "One" }, acts: [completes()] })
    const bare = yield* serve({ card: "none", acts: [completes()] })
    yield* TestClock.adjust("1 second")
    yield* ask(carded)
    yield* ask(bare)
    const peers = yield* client.peers
    assert.deepStrictEqual(
      peers.map(({ card, dialect, endpoint }) => ({ endpoint, dialect, card })),
      [
        { endpoint: `${carded.url}/`, dialect: "a2a-1.0", card: { name: "One", fetchedAt: 1_000 } },
        { endpoint: `${bare.url}/`, dialect: "a2a-0.3", card: null }
      ]
    )
  }).pipe(Effect.provide(memory))
)
