import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Stream } from "effect"
import { post } from "../http/RunningGateway.ts"
import { Cluster, settled } from "./Cluster.ts"
import { askForText, get, logged, replay, start, toFrames } from "./GatewayProcess.ts"
import { checkStream } from "./Storm.ts"

/** The first one sees all others end. */
const cluster = Cluster.layer(1, { BOWLINE_SHUTDOWN_GRACE: "200ms", BOWLINE_LEASE_TTL: "1s" })

/** A plan that is asked for, and that ends when `proceed` is open; `isAsked` each time when its provider is asked. */
const gated = Effect.fnUntraced(function* (question: string) {
  const { answer } = yield* Cluster
  const proceed = Latch.makeUnsafe(false)
  const asked = yield* Deferred.make<void>()
  answer(question, () => [
    say("half "),
    until(Deferred.succeed(asked, undefined).pipe(Effect.andThen(proceed.await))),
    say("whole")
  ])
  return { isAsked: Deferred.await(asked), proceed: proceed.open }
})

/** One that stays for all tests, and one for this test. */
const two = Effect.gen(function* () {
  const { environment, gateways } = yield* Cluster
  const [stays] = gateways
  return stays === undefined ? assert.fail("There is one") : { stays, other: yield* start(environment) }
})

const running = (url: string) =>
  Effect.map(get(url, "/plans?state=running"), ({ plans }) => {
    const [plan] = plans as ReadonlyArray<{ readonly plan_id: string }>
    return plan?.plan_id
  })

layer(cluster, { excludeTestServices: true })("a caller that waits for one object of a plan", (it) => {
  it.effect("gets the id of its plan when the gateway shuts down and hands it over, and reads on elsewhere", () =>
    Effect.gen(function* () {
      const { other, stays } = yield* two
      const { isAsked, proceed } = yield* gated("leave me")
      const waiting = yield* Effect.forkChild(post(`${other.url}/plan`, { question: "leave me" }))
      yield* isAsked
      yield* other.signal("SIGTERM")
      const { body, headers, status } = yield* Fiber.join(waiting)
      assert.deepInclude(body, { status: 503, code: "draining", retryable: true })
      assert.strictEqual(status, 503)
      assert.isString(headers.get("retry-after"))
      yield* Effect.promise(() => other.ended)
      yield* proceed
      const frames = yield* Stream.runCollect(replay(stays.url, String(body["plan_id"])))
      checkStream(frames)
      assert.strictEqual(frames.at(-2)?.data["text"], "half whole")
    })
  )

  it.effect("as a tool of MCP gets a plan that runs on, and its answer elsewhere", () =>
    Effect.gen(function* () {
      const { other, stays } = yield* two
      const { isAsked, proceed } = yield* gated("leave the tool")
      const call = (url: string, name: string, input: object) => {
        const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: input } }
        return post(`${url}/mcp`, message, { "mcp-protocol-version": "2025-11-25" })
      }
      const waiting = yield* Effect.forkChild(call(other.url, "plan", { question: "leave the tool" }))
      yield* isAsked
      yield* other.signal("SIGTERM")
      const told = (yield* Fiber.join(waiting)).body["result"] as {
        readonly isError: boolean
        readonly structuredContent: { readonly plan_id: string; readonly state: string }
      }
      const { plan_id } = told.structuredContent
      assert.deepNestedInclude(told, { isError: false, "structuredContent.state": "running" })
      yield* Effect.promise(() => other.ended)
      yield* proceed
      const { body } = yield* call(stays.url, "plan_result", { plan_id })
      assert.deepNestedInclude(body, { "result.structuredContent.text": "half whole" })
    })
  )

  it.effect(
    "gets the id also of a plan that runs on another gateway; a reader of its stream is asked to reconnect",
    () =>
      Effect.gen(function* () {
        const { other, stays } = yield* two
        const { isAsked, proceed } = yield* gated("run elsewhere")
        const key = { "idempotency-key": "elsewhere" }
        const first = yield* Effect.forkChild(post(`${stays.url}/plan`, { question: "run elsewhere" }, key))
        yield* isAsked
        const planId = yield* running(stays.url)
        const joined = yield* Effect.forkChild(post(`${other.url}/plan`, { question: "run elsewhere" }, key))
        const read = yield* Deferred.make<void>()
        const streamed = { ...key, accept: "text/event-stream" }
        const reading = yield* askForText(other.url, { question: "run elsewhere" }, streamed).pipe(
          Stream.tap((text) => (text.includes("half") ? Deferred.succeed(read, undefined) : Effect.void)),
          Stream.mkString,
          Effect.forkChild
        )
        yield* Deferred.await(read)
        yield* other.signal("SIGTERM")
        const { body } = yield* Fiber.join(joined)
        assert.deepInclude(body, { status: 503, code: "draining", retryable: true, plan_id: planId })
        const text = yield* Fiber.join(reading)
        assert.isTrue(text.endsWith("\n\n: reconnect\n\n"), text)
        assert.strictEqual(toFrames(text).at(-1)?.event, "text.delta")
        yield* proceed
        assert.deepInclude((yield* Fiber.join(first)).body["final"], { text: "half whole" })
      })
  )

  for (const [signal, how] of [
    ["SIGTERM", "hands it over"],
    ["SIGKILL", "dies"]
  ] as const) {
    it.effect(`gets the whole answer from its own gateway, where the one that runs the plan ${how}`, () =>
      Effect.gen(function* () {
        const { other, stays } = yield* two
        const { isAsked, proceed } = yield* gated(`wait for one that ${how}`)
        const body = { question: `wait for one that ${how}` }
        const key = { "idempotency-key": how }
        const first = yield* Effect.forkChild(Effect.exit(post(`${other.url}/plan`, body, key)))
        yield* isAsked
        const joined = yield* Effect.forkChild(post(`${stays.url}/plan`, body, key))
        // Whoever has read so far there is a reader of the plan that another gateway runs.
        const streamed = askForText(stays.url, body, { ...key, accept: "text/event-stream" })
        yield* Stream.runDrain(Stream.takeUntil(streamed, (text) => text.includes("half")))
        yield* other.signal(signal)
        yield* Fiber.join(first)
        yield* proceed
        const answer = yield* Fiber.join(joined)
        assert.strictEqual(answer.status, 200)
        assert.deepNestedInclude(answer.body, { state: "completed", "final.text": "half whole" })
        yield* logged(stays, "plan_resumed", String(answer.body["plan_id"]))
      })
    )
  }

  it.effect("gets it from the gateway that took the plan over, where its own has lost the lease", () =>
    Effect.gen(function* () {
      const { other, stays } = yield* two
      const { isAsked, proceed } = yield* gated("take me over")
      const waiting = yield* Effect.forkChild(post(`${other.url}/plan`, { question: "take me over" }))
      yield* isAsked
      const planId = yield* running(stays.url)
      yield* other.signal("SIGSTOP")
      yield* proceed
      yield* settled(stays.url, planId)
      yield* other.signal("SIGCONT")
      const { body, status } = yield* Fiber.join(waiting)
      assert.deepInclude(body, { plan_id: planId, state: "completed" })
      assert.deepInclude(body["final"], { text: "half whole" })
      assert.strictEqual(status, 200)
      yield* logged(other, "lease_lost", String(planId))
    })
  )
})
