import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { eventsOf, post, send, start } from "./RunningGateway.ts"

const stream = { accept: "text/event-stream" }

describe("a gateway that shuts down", () => {
  it.live("refuses new plans, says so, and lets running plans finish", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const scope = yield* Scope.make()
      const script = [[say("a"), until(Deferred.await(proceed)), say("b")]]
      const { url, provider } = yield* Scope.provide(start(script), scope)
      assert.deepStrictEqual((yield* send(`${url}/ready`)).body, { status: "ready" })
      const running = yield* Effect.forkChild(post(`${url}/plan`, { question: "?" }, stream))
      yield* provider.requests.awaitCount(1)

      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      const ready = yield* Effect.repeat(send(`${url}/ready`), { until: ({ status }) => status === 503 })
      assert.deepInclude(ready.body, { code: "draining", retryable: true, failed: ["draining"] })
      assert.strictEqual((yield* send(`${url}/health`)).status, 200)
      const refused = yield* post(`${url}/plan`, { question: "?" })
      assert.deepInclude(refused.body, { status: 503, code: "draining", retryable: true })
      assert.isString(refused.headers.get("retry-after"))
      const call = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "plan", arguments: { question: "?" } }
      }
      const result = (yield* post(`${url}/mcp`, call)).body["result"] as { readonly isError: boolean }
      assert.isTrue(result.isError)
      assert.match(JSON.stringify(result), /draining.*retryable\\":true/)

      yield* Deferred.succeed(proceed, undefined)
      assert.deepStrictEqual(eventsOf((yield* Fiber.join(running)).text).slice(-3), ["text.delta", "final", "done"])
      yield* Fiber.join(closing)
      const after = yield* Effect.exit(send(`${url}/health`))
      assert.isTrue(Exit.isFailure(after))
    })
  )

  it.live("ends the plans that still run after the grace, and tells their callers", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const script = [[say("a"), until(Effect.never)]]
      const { url, provider } = yield* Scope.provide(start(script, { BOWLINE_SHUTDOWN_GRACE: "50ms" }), scope)
      const running = yield* Effect.forkChild(post(`${url}/plan`, { question: "?" }, stream))
      yield* provider.requests.awaitCount(1)
      yield* Scope.close(scope, Exit.void)
      const { text } = yield* Fiber.join(running)
      assert.deepStrictEqual(eventsOf(text).slice(-2), ["error", "done"])
      assert.match(text, /"code":"aborted"[^\n]*"retryable":true[^\n]*"reason":"shutdown"/)
    })
  )
})
