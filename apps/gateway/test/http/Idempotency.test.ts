import { stall, until } from "@bowline/testing/http/Move"
import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { eventsOf, post, send, start } from "./RunningGateway.ts"

const keyed = (key: string) => ({ "idempotency-key": key })
const streamed = (key: string) => ({ ...keyed(key), accept: "text/event-stream" })
const plansOf = (url: string) => Effect.map(send(`${url}/plans`), ({ body }) => body["plans"] as ReadonlyArray<unknown>)

/** A stream that is open until the scope closes; what it says can be read from it. */
const open = Effect.fnUntraced(function* (url: string, key: string, body: string = JSON.stringify({ question: "?" })) {
  const controller = new AbortController()
  const init = {
    method: "POST",
    headers: { "content-type": "application/json", ...keyed(key) },
    body,
    signal: controller.signal
  }
  // The scope holds the response: fetch would close the stream of one that nobody holds at the next garbage collection.
  return yield* Effect.acquireRelease(
    Effect.promise(() => fetch(`${url}/plan`, init)),
    () => Effect.sync(() => controller.abort())
  )
})

describe("an Idempotency-Key", () => {
  it.live("gets the same stream during and after the plan, byte for byte, or the same object", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url, provider } = yield* start([[say("one "), until(Deferred.await(proceed)), say("two")]])
      const body = `{"question": "?", "metadata": {"a": "1", "b": "2"}}`
      const first = yield* Effect.forkChild(post(`${url}/plan`, body, streamed("k")))
      yield* provider.requests.awaitCount(1)
      const during = yield* open(url, "k", body)
      const whole = yield* Effect.forkChild(post(`${url}/plan`, body, keyed("k")))
      yield* Deferred.succeed(proceed, undefined)
      const stream = yield* Fiber.join(first)
      assert.deepStrictEqual(eventsOf(stream.text).slice(-2), ["final", "done"])
      assert.strictEqual(yield* Effect.promise(() => during.text()), stream.text)
      const other = `{\n"metadata": {"b": "\\u0032", "a": "1"},\n"question": "?"\n}`
      const after = yield* post(`${url}/plan`, other, streamed("k"))
      assert.deepStrictEqual([after.status, after.text], [200, stream.text])
      assert.strictEqual(after.headers.get("content-type"), "text/event-stream")

      const one = yield* Fiber.join(whole)
      assert.deepInclude(one.body["final"], { text: "one two" })
      assert.deepStrictEqual((yield* post(`${url}/plan`, other, keyed("k"))).text, one.text)
      assert.include(stream.text, String(one.body["plan_id"]))
      assert.lengthOf(yield* plansOf(url), 1)
    })
  )

  it.live("is refused with another body, whatever the plan does", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url, provider } = yield* start([[until(Deferred.await(proceed)), error(400, { message: "no" })]])
      const first = yield* Effect.forkChild(post(`${url}/plan`, { question: "?" }, keyed("k")))
      yield* provider.requests.awaitCount(1)
      const conflict = Effect.gen(function* () {
        // What is left out is not what is sent as its default.
        for (const fields of [{ question: "other" }, { question: "?", metadata: {} }]) {
          const { status, headers, body } = yield* post(`${url}/plan`, fields, keyed("k"))
          assert.deepStrictEqual([status, body["code"], body["retryable"]], [409, "idempotency_conflict", false])
          assert.strictEqual(headers.get("content-type"), "application/problem+json")
        }
      })
      yield* conflict
      yield* Deferred.succeed(proceed, undefined)
      yield* Fiber.join(first)
      yield* conflict
      assert.lengthOf(yield* plansOf(url), 1)
    })
  )

  it.live("is free after a refusal, and scoped to its caller", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], {
        BOWLINE_API_KEYS: "ann=key-of-ann-00000000,bob=key-of-bob-00000000"
      })
      const as = (caller: string) => ({ ...keyed("k"), authorization: `Bearer key-of-${caller}-00000000` })
      const refused = [{ question: "" }, { question: "?", preferences: { model: "no/such" } }, "{"]
      for (const body of refused) assert.strictEqual((yield* post(`${url}/plan`, body, as("ann"))).status, 400)
      const hops = { ...as("ann"), "x-bowline-hops": "9" }
      assert.strictEqual((yield* post(`${url}/plan`, { question: "?" }, hops)).status, 508)
      const ann = yield* post(`${url}/plan`, { question: "ann's" }, as("ann"))
      const bob = yield* post(`${url}/plan`, { question: "bob's" }, as("bob"))
      assert.deepStrictEqual([ann.body["state"], bob.body["state"]], ["completed", "completed"])
      assert.strictEqual((yield* post(`${url}/plan`, { question: "bob's" }, as("ann"))).status, 409)
    })
  )

  it.live("makes one plan of many requests at once", () =>
    Effect.gen(function* () {
      const { url, provider } = yield* start([[say("only once")]])
      const answers = yield* Effect.forEach(
        Array.from({ length: 20 }),
        () =>
          post(`${url}/plan`, { question: "?", session_id: "mine", preferences: { on_busy: "reject" } }, streamed("k")),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([...new Set(answers.map(({ text }) => eventsOf(text).at(-1)))], ["done"])
      assert.strictEqual(new Set(answers.map(({ text }) => text)).size, 1)
      assert.lengthOf(yield* plansOf(url), 1)
      assert.lengthOf(yield* provider.requests.all, 1)
    })
  )

  it.live("makes everybody who joins a reader: the plan runs on when the first caller disconnects", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url, provider } = yield* start([[say("x"), until(Deferred.await(proceed)), say("y")], [stall]])
      const first = yield* Scope.make()
      yield* Scope.provide(open(url, "k"), first)
      const [asked] = yield* provider.requests.awaitCount(1)
      const joined = yield* open(url, "k")
      yield* Scope.close(first, Exit.void)
      // Somebody else who comes and goes meanwhile ends, too: a plan without readers would be over by then.
      const others = yield* Scope.make()
      const other = yield* Scope.provide(open(url, "other"), others)
      assert.strictEqual(other.status, 200)
      const [, second] = yield* provider.requests.awaitCount(2)
      yield* Scope.close(others, Exit.void)
      assert.strictEqual(yield* second?.ended ?? Effect.succeed("not asked"), "closed")
      yield* Deferred.succeed(proceed, undefined)
      const text = yield* Effect.promise(() => joined.text())
      assert.deepStrictEqual(eventsOf(text).slice(-2), ["final", "done"])
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "answered")
    })
  )
})
