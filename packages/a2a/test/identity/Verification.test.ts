import { assert, describe, it } from "@effect/vitest"
import { json, text, type HostResponse } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { Deferred, Effect, Fiber } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as Verification from "../../src/identity/Verification.ts"
import type { Part } from "../../src/task/Task.ts"
import { agent, documentOf, unsigned } from "./Agent.ts"

const ann = agent(1)
const mallory = agent(66)
const web = "did:web:agent.test"

/** A peer whose DID resolves to what it is said to, and a verification of what it says. */
const peer = Effect.fnUntraced(function* (
  resolve: (count: number) => Effect.Effect<HostResponse> = () =>
    Effect.succeed(json(200, documentOf(ann.did, ann.key)))
) {
  let count = 0
  const network = yield* Network
  const { requests, url } = yield* network.serve(() => Effect.suspend(() => resolve(++count)))
  const { verify } = yield* Verification.make(yield* HttpClient.HttpClient)
  const asked = Effect.map(requests.all, (all) => all.length)
  const verdict = (parts: ReadonlyArray<Part>, did: string | null = ann.did) =>
    verify({ endpoint: `${url}/agents/ann?x=1`, did, parts })
  const verified = (parts: ReadonlyArray<Part>, did?: string | null) =>
    Effect.map(verdict(parts, did), (said) => said.verified)
  return { requests, asked, verdict, verified }
})

const data: Part = { _tag: "Data", data: { sum: 1 } }
const file: Part = { _tag: "File", mediaType: "text/plain", bytes: "aGk=" }
const good = ann.signed("Où est le nœud? 🪢")
const bad: Part = { _tag: "Text", text: "Pay mallory", metadata: good._tag === "Text" ? (good.metadata ?? null) : null }

describe("an answer", () => {
  it.effect.each([
    ["yes", "every part is signed", [good, ann.signed(""), ann.signed("two")]],
    ["unsigned", "no part is signed", [unsigned("one"), data]],
    ["unsigned", "there is nothing in it", []],
    ["unsigned", "one of the parts is not signed", [good, unsigned("two")]],
    ["unsigned", "there are data among the signed parts", [good, data]],
    ["unsigned", "there is a file among the signed parts", [file, good]],
    ["unsigned", "the signature is null", [good, ann.signed("two", { "did.message.signature": null })]],
    ["no", "a signature is that of another text", [good, bad]],
    ["no", "a signature is somebody else's", [mallory.signed("one")]],
    ["no", "a bad signature is among unsigned parts", [unsigned("one"), bad]],
    ["no", "a signature is no text", [ann.signed("one", { "did.message.signature": 7 })]],
    ["no", "a signature is no base58", [ann.signed("one", { "did.message.signature": "0OIl" })]],
    ["no", "a signature is too long to be one", [ann.signed("one", { "did.message.signature": "z".repeat(1_000_000) })]]
  ] as const)("is %s if %s", ([expected, , parts]) =>
    Effect.gen(function* () {
      const { verified } = yield* peer()
      assert.strictEqual(yield* verified(parts), expected)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is never believed without a DID, and nothing is asked for what is not signed", () =>
    Effect.gen(function* () {
      const { asked, verified } = yield* peer()
      assert.strictEqual(yield* verified([good], null), "no")
      assert.strictEqual(yield* verified([unsigned("one")]), "unsigned")
      assert.strictEqual(yield* asked, 0)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is verified by any key of the document, whichever it names", () =>
    Effect.gen(function* () {
      const { verified } = yield* peer(() => Effect.succeed(json(200, documentOf(web, mallory.key, ann.key))))
      for (const keyId of ["#key-2", "key-2", `${web}#key-2`, "#key-1", "#none", 7]) {
        assert.strictEqual(yield* verified([ann.signed("one", { keyId })], web), "yes")
      }
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe("an impostor", () => {
  it.effect.each([
    ["with a document of its own", documentOf(mallory.did, mallory.key)],
    ["with a document of the DID that has its own key", documentOf(ann.did, mallory.key)],
    ["with its own key beside the right one", documentOf(ann.did, mallory.key, ann.key)]
  ] as const)("%s is not believed", ([, document]) =>
    Effect.gen(function* () {
      const { verified } = yield* peer(() => Effect.succeed(json(200, document)))
      assert.strictEqual(yield* verified([mallory.signed("It is me, ann")]), "no")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe("the DID document", () => {
  it.effect("is asked for at the origin of the peer, once for all that wait and for 5 minutes, and for each DID", () =>
    Effect.gen(function* () {
      const { asked, requests, verified } = yield* peer()
      const answers = yield* Effect.all([verified([good]), verified([good])], { concurrency: 2 })
      assert.deepStrictEqual(answers, ["yes", "yes"])
      yield* TestClock.adjust("299 seconds")
      yield* verified([good])
      const [request] = yield* requests.all
      assert.deepInclude(request, { method: "POST", body: JSON.stringify({ did: ann.did }) })
      assert.strictEqual(`${request?.url.pathname}${request?.url.search}`, "/did/resolve")
      assert.notProperty(request?.headers ?? {}, "authorization")
      assert.strictEqual(yield* asked, 1)
      yield* TestClock.adjust("1 second")
      yield* verified([good])
      assert.strictEqual(yield* asked, 2)
      yield* verified([good], web)
      assert.strictEqual(yield* asked, 3)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is fetched again when its key does not fit, but not within 10 seconds", () =>
    Effect.gen(function* () {
      const { asked, verified } = yield* peer((count) =>
        Effect.succeed(json(200, documentOf(web, count === 1 ? mallory.key : ann.key)))
      )
      assert.strictEqual(yield* verified([good], web), "no")
      yield* TestClock.adjust("9 seconds")
      assert.strictEqual(yield* verified([good], web), "no")
      assert.strictEqual(yield* asked, 1)
      yield* TestClock.adjust("1 second")
      const both = yield* Effect.all([verified([good], web), verified([good], web)], { concurrency: 2 })
      assert.deepStrictEqual([both, yield* asked], [["yes", "yes"], 2])
      yield* verified([bad], web)
      assert.strictEqual(yield* asked, 2)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([
    ["is not there", text(404, "")],
    ["is no JSON", text(200, "<html>")],
    ["is larger than 64 KiB", json(200, { ...documentOf(ann.did, ann.key), more: "x".repeat(65_536) })],
    ["is somewhere else", text(307, "", { location: "http://elsewhere.test/did/resolve" })]
  ] as const)("that %s makes no answer believed, and is fetched again by the next call", ([, answer]) =>
    Effect.gen(function* () {
      const { verdict, verified } = yield* peer((count) =>
        Effect.succeed(count === 1 ? answer : json(200, documentOf(ann.did, ann.key)))
      )
      const refused = yield* verdict([good])
      assert.strictEqual(refused.verified, "no")
      assert.include(JSON.stringify(refused), `It is not verified as ${ann.did}: its DID document `)
      assert.strictEqual(yield* verified([good]), "yes")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("that does not come ends the wait after 2 seconds", () =>
    Effect.gen(function* () {
      const { verdict } = yield* peer(() => Effect.never)
      const waiting = yield* Effect.forkChild(verdict([good]), { startImmediately: true })
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(waiting), {
        verified: "no",
        why: `It is not verified as ${ann.did}: its DID document took longer than 2 seconds`
      })
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect(
    "that does not come delays nobody who is interrupted, and its request is closed when nobody waits for it",
    () =>
      Effect.gen(function* () {
        const open = yield* Deferred.make<void>()
        const { asked, requests, verdict } = yield* peer(() =>
          Effect.as(Deferred.await(open), json(200, documentOf(ann.did, ann.key)))
        )
        const first = yield* Effect.forkChild(verdict([good]), { startImmediately: true })
        const second = yield* Effect.forkChild(verdict([good]), { startImmediately: true })
        yield* Fiber.interrupt(first)
        assert.isUndefined(second.pollUnsafe())
        const [request] = yield* requests.all
        yield* Fiber.interrupt(second)
        assert.strictEqual(yield* request?.ended ?? Effect.never, "closed")

        yield* Deferred.succeed(open, undefined)
        assert.deepStrictEqual(yield* verdict([good]), { verified: "yes" })
        assert.strictEqual(yield* asked, 2)
      }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

it("all that the result shows is verified: the status message, artifacts, or the last words", () => {
  const said = (...parts: ReadonlyArray<Part>) => ({ id: null, fromAgent: true, parts, metadata: null })
  const asked = { ...said(unsigned("question")), fromAgent: false }
  const task = { id: "1", contextId: null, state: "completed", metadata: null, message: null, artifacts: [] }
  const shown = Verification.shownParts
  assert.deepStrictEqual(shown({ ...task, history: [said(unsigned("before")), said(good), asked] }), [good])
  assert.deepStrictEqual(
    shown({
      ...task,
      history: [said(unsigned("before"))],
      message: said(good),
      artifacts: [{ id: null, parts: [data] }]
    }),
    [good, data]
  )
})
