import * as AgUiEvents from "@bowline/client/unstable/ag-ui/AgUiEvents"
import * as UiChunks from "@bowline/client/unstable/ai-sdk/UiChunks"
import type { UiFold } from "@bowline/client/unstable/ui/UiFold"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { Plans } from "@bowline/runtime/plan/Plans"
import { type FollowedPlan, PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { stall } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Stream } from "effect"
import * as UiChatRequest from "../../../src/edge/ui/UiChatRequest.ts"
import * as UiStream from "../../../src/edge/ui/UiStream.ts"
import * as WaitingPlans from "../../../src/edge/ui/WaitingPlans.ts"

const run = { threadId: "thread", runId: "run", messages: [] }
const folds: Readonly<Record<string, () => UiFold<object>>> = {
  "the AI SDK": () => UiChunks.make(),
  "AG-UI": () => AgUiEvents.make(run)
}

type Frames = Effect.Success<ReturnType<typeof TestKit.post>>

/** Writes the plan to a client. Gives what that has heard since it last asked. */
const listen = Effect.fnUntraced(function* (
  plan: FollowedPlan,
  fold: UiFold<object>,
  decided: ReadonlySet<string> = new Set<string>()
) {
  const { body } = UiStream.respond(plan, {
    fold,
    tail: "data: [DONE]\n\n",
    headers: {},
    decided,
    isIdle: () => Effect.succeed(true),
    join: ({ frames }) => ({ frames }),
    follow: () => Effect.die("No plan follows"),
    hold: () => Effect.void
  })
  if (body._tag !== "Stream") return assert.fail("The answer is no stream")
  let heard = ""
  const decoder = new TextDecoder()
  yield* Effect.forkScoped(
    Stream.runForEach(Stream.orDie(body.stream), (bytes) => Effect.sync(() => void (heard += decoder.decode(bytes))))
  )
  return () => {
    const said = heard
    heard = ""
    return said
  }
})

/** The request of a page, as a plan. */
const asked = Effect.fromResult(
  UiChatRequest.decode({ id: "chat", messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "?" }] }] })
)

const stateOf = Effect.fnUntraced(function* ({ plan_id }: Pick<Frames, "plan_id">) {
  const { error, state } = yield* (yield* Plans).get(anonymous, plan_id)
  return error?.reason ?? state
})

const kit = Effect.provide(TestKit.layer({ script: [[say("a"), stall]] }))

describe("a stream for a UI library", () => {
  for (const [protocol, fold] of Object.entries(folds)) {
    it.effect(`says a comment after each 10 s of silence (${protocol})`, () =>
      Effect.gen(function* () {
        const hear = yield* listen(yield* TestKit.follow({ question: "?" }), fold())
        yield* TestKit.pass("1 second")
        assert.include(hear(), `"delta":"a"`)
        for (let silences = 0; silences < 6; silences++) {
          yield* TestKit.pass("10 seconds", "1 second")
          assert.strictEqual(hear(), ": ping\n\n")
        }
      }).pipe(Effect.scoped, kit)
    )

    it.effect(`ends with an error where the gateway ends it (${protocol})`, () =>
      Effect.gen(function* () {
        const { connect, leaveRunning, ...ids } = yield* TestKit.follow({ question: "?" })
        for (const [frames, code] of [
          [Stream.succeed("Draining" as const), "draining"],
          [Stream.succeed("Gone" as const), "interrupted"],
          [Stream.die("No database"), "interrupted"]
        ] as const) {
          const hear = yield* listen({ ...ids, connect, leaveRunning, frames }, fold())
          yield* TestKit.pass("100 millis")
          assert.match(hear(), new RegExp(`^data: .*(ERROR|error).*${code}.*\\n\\ndata: \\[DONE\\]\\n\\n$`))
        }
      }).pipe(Effect.scoped, kit)
    )
  }

  it.effect("ends where the plan waits for a decision, but not for one that was made just now", () =>
    Effect.gen(function* () {
      const reading = yield* TestKit.post({
        question: "?",
        agents: [{ name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask", approval: "always" }] }]
      })
      yield* TestKit.pass("1 second")
      const plans = yield* Plans
      const [waiting] = (yield* plans.approvals(anonymous, { limit: 1 })).items
      const follower = yield* PlanFollower
      const again = follower.read(anonymous, reading.plan_id, 0)
      const told = yield* listen(yield* again, UiChunks.make())
      const deciding = yield* listen(yield* again, UiChunks.make(), new Set([waiting?.task_id ?? ""]))
      yield* TestKit.pass("1 second")
      assert.include(told(), `"finishReason":"tool-calls"}\n\ndata: [DONE]`)
      assert.notInclude(deciding(), "finish")
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [[callTool("bob_ask", { input: "7" })]] })))
  )

  it.effect("leaves its plan 10 s to be read again, and then ends it", () =>
    Effect.gen(function* () {
      const { request } = yield* asked
      const reading = yield* Effect.scoped(TestKit.post(request))
      yield* TestKit.pass("9 seconds")
      assert.strictEqual(yield* stateOf(reading), "running")
      yield* TestKit.pass("2 seconds")
      assert.strictEqual(yield* stateOf(reading), "disconnect")
    }).pipe(kit)
  )

  it.effect("keeps a plan that waits for a decision, until its client has come back and left", () =>
    Effect.gen(function* () {
      const { request } = yield* asked
      const waiting = yield* WaitingPlans.make
      const reading = yield* Effect.scoped(
        Effect.tap(TestKit.post(request), ({ plan_id }) => waiting.hold(anonymous, plan_id, 0))
      )
      yield* TestKit.pass("1 minute", "1 second")
      assert.strictEqual(yield* stateOf(reading), "running")
      yield* waiting.release(reading.plan_id)
      yield* TestKit.pass("11 seconds", "1 second")
      assert.strictEqual(yield* stateOf(reading), "disconnect")
    }).pipe(Effect.scoped, kit)
  )

  it.effect("keeps it no longer when its client has come back to another replica", () =>
    Effect.gen(function* () {
      const { request } = yield* asked
      const [here, there] = [yield* WaitingPlans.make, yield* WaitingPlans.make]
      const reading = yield* Effect.scoped(
        Effect.tap(TestKit.post(request), ({ plan_id }) => here.hold(anonymous, plan_id, 0))
      )
      // The client asks there, decides, and waits for one more decision.
      yield* there.release(reading.plan_id)
      yield* there.hold(anonymous, reading.plan_id, 0)
      yield* TestKit.pass("1 minute", "1 second")
      assert.strictEqual(yield* stateOf(reading), "running")
      yield* there.release(reading.plan_id)
      yield* TestKit.pass("11 seconds", "1 second")
      assert.strictEqual(yield* stateOf(reading), "disconnect")
    }).pipe(Effect.scoped, kit)
  )
})

describe("a request of the AI SDK", () => {
  it("may say in Bowline's own words what else its plan is to do", () => {
    const preferences = { on_disconnect: "continue" as const, timeout_ms: 1_000 }
    const decoded = UiChatRequest.decode({
      id: "chat",
      messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "?" }] }],
      bowline: { preset: "p", preferences },
      other: 1
    })
    const { request } = Result.getOrThrow(decoded)
    const own = { disconnect_grace_ms: 10_000, on_busy: "steer" as const }
    assert.deepInclude(request, { preset: "p", preferences: { ...preferences, ...own } })
  })
})
