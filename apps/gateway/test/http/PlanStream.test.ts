import { stall, until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule } from "effect"
import { eventsOf, post, send, start } from "./RunningGateway.ts"

const streamed = { accept: "text/event-stream" }
const seqs = (text: string) => Array.from(text.matchAll(/^id: (\d+)$/gm), ([, seq]) => Number(seq))

/** Reads a stream until a text has come; then the connection is closed. */
const readUntil = (url: string, text: string, init: RequestInit = {}) =>
  Effect.scoped(
    Effect.gen(function* () {
      const controller = yield* Effect.acquireRelease(
        Effect.sync(() => new AbortController()),
        (controller) => Effect.sync(() => controller.abort())
      )
      return yield* Effect.promise(async () => {
        const response = await fetch(url, { ...init, signal: controller.signal })
        let seen = ""
        for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          seen += chunk
          if (seen.includes(text)) break
        }
        return seen
      })
    })
  )

const asking = (fields: object = {}): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ question: "?", ...fields })
})

const planIdIn = (text: string) => /"plan_id":"(plan_[^"]+)"/.exec(text)?.[1] ?? ""

const settled = (url: string, id: string) =>
  Effect.repeat(send(`${url}/plans/${id}`), {
    until: ({ body }) => body["finished_at"] !== null,
    schedule: Schedule.spaced("20 millis")
  })

describe("a plan", () => {
  it.live("is streamed as events, each with its ids, or answered as one object", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("one "), say("answer")], [say("two")]])
      const stream = yield* post(`${url}/plan`, { question: "?" }, streamed)
      assert.strictEqual(stream.status, 200)
      assert.deepInclude(Object.fromEntries(stream.headers), {
        "content-type": "text/event-stream",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no"
      })
      const events = ["session", "plan", "step", "text.delta", "text.delta", "final", "done"]
      assert.deepStrictEqual(eventsOf(stream.text), events)
      assert.deepStrictEqual(seqs(stream.text), [1, 2, 3, 4, 5, 6, 7])
      assert.strictEqual(stream.text.match(/^data: {"plan_id":"plan_[^"]+","session_id":"session_[^"]+"/gm)?.length, 7)

      const { status, headers, body } = yield* post(`${url}/plan`, { question: "?", metadata: { a: "b" } })
      assert.deepStrictEqual([status, headers.get("content-type")], [200, "application/json"])
      assert.deepInclude(body, { state: "completed" })
      assert.deepInclude(body["final"], { text: "two", stop_reason: "stop" })
      assert.deepStrictEqual(Object.keys(body).sort(), ["final", "plan_id", "session_id", "state", "usage"])
      const plan = yield* send(`${url}/plans/${String(body["plan_id"])}`)
      assert.deepInclude(plan.body, {
        state: "completed",
        question: "?",
        metadata: { a: "b" },
        error: null,
        final: body["final"]
      })
    })
  )

  it.live("is answered as one object with 200 also when it fails, and says how", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[stall]])
      const { status, body } = yield* post(`${url}/plan`, { question: "?", preferences: { timeout_ms: 6_000 } })
      assert.deepStrictEqual([status, body["state"], "final" in body], [200, "aborted", false])
      assert.deepInclude(body["error"], { code: "aborted", reason: "deadline", stage: "provider", retryable: true })
    })
  )

  it.live("ends when its only caller disconnects, also one that waits for one object", () =>
    Effect.gen(function* () {
      const { url, provider } = yield* start([[say("x"), stall], [stall]])
      const seen = yield* readUntil(`${url}/plan`, "text.delta", asking())
      const left = yield* settled(url, planIdIn(seen))
      assert.deepInclude(left.body["error"], { code: "aborted", reason: "disconnect", stage: "provider" })

      const waiting = yield* Effect.forkChild(post(`${url}/plan`, { question: "?" }))
      const [, second] = yield* provider.requests.awaitCount(2)
      yield* Fiber.interrupt(waiting)
      assert.strictEqual(yield* second?.ended ?? Effect.succeed("not asked"), "closed")
      const { body } = yield* send(`${url}/plans?limit=1`)
      const [plan] = body["plans"] as ReadonlyArray<{ readonly plan_id: string }>
      const gone = yield* settled(url, plan?.plan_id ?? "")
      assert.deepInclude(gone.body["error"], { reason: "disconnect" })
    })
  )

  it.live("is read on after the last event that was seen, and answers at once even if there is nothing new", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("a"), until(Deferred.await(proceed)), say("b")]])
      const first = yield* readUntil(
        `${url}/plan`,
        "text.delta",
        asking({ preferences: { on_disconnect: "continue" } })
      )
      const events = `${url}/plans/${planIdIn(first)}/events`

      // The head of the answer comes before any event: only then is the provider told to go on.
      const response = yield* Effect.promise(() => fetch(events, { headers: { "last-event-id": "4" } }))
      assert.strictEqual(response.headers.get("content-type"), "text/event-stream")
      yield* Deferred.succeed(proceed, undefined)
      const rest = yield* Effect.promise(() => response.text())
      assert.deepStrictEqual(seqs(rest), [5, 6, 7])
      assert.deepStrictEqual(eventsOf(rest), ["text.delta", "final", "done"])

      const replay = yield* send(events)
      assert.deepStrictEqual(seqs(replay.text), [1, 2, 3, 4, 5, 6, 7])
      assert.isTrue(replay.text.endsWith(rest))
      assert.deepStrictEqual(seqs((yield* send(`${events}?after=5`)).text), [6, 7])
      const both = yield* send(`${events}?after=1`, { headers: { "last-event-id": "6" } })
      assert.deepStrictEqual(seqs(both.text), [7])
      const end = yield* send(`${events}?after=7`)
      assert.deepStrictEqual([end.status, end.text], [200, ""])
      for (const after of ["8", "-1", "x", "1.5", "", "9".repeat(30)]) {
        for (const [name, asked] of [
          ["after", send(`${events}?after=${after}`)],
          ["last-event-id", send(events, { headers: { "last-event-id": after } })]
        ] as const) {
          const { status, body } = yield* asked
          const [issue] = body["issues"] as ReadonlyArray<{ readonly path: string }>
          assert.deepStrictEqual([status, body["code"], issue?.path], [400, "invalid_request", name], after)
        }
      }
    })
  )

  it.live("is cancelled once, however often somebody asks for it", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("x"), stall]])
      const stream = yield* Effect.forkChild(post(`${url}/plan`, { question: "?" }, streamed))
      const { body } = yield* Effect.repeat(send(`${url}/plans?state=running`), {
        until: ({ body }) => (body["plans"] as ReadonlyArray<unknown>).length > 0
      })
      const [plan] = body["plans"] as ReadonlyArray<{ readonly plan_id: string }>
      const cancel = send(`${url}/plans/${plan?.plan_id}/cancel`, { method: "POST" })
      const cancelled = yield* cancel
      assert.deepInclude(cancelled.body, { state: "aborted" })
      assert.deepInclude(cancelled.body["error"], { code: "aborted", reason: "cancelled", retryable: false })
      assert.deepStrictEqual((yield* cancel).body, cancelled.body)
      assert.deepStrictEqual(eventsOf((yield* Fiber.join(stream)).text).slice(-2), ["error", "done"])
    })
  )
})
