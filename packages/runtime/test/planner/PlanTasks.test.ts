import { callTool, say } from "@bowline/testing/provider/Turn"
import { wait } from "@bowline/testing/http/Move"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { bob, names } from "../plan/Bob.ts"

describe("PlanTasks", () => {
  it.effect("reports nothing about a task that has ended, though its call runs on", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "?", agents: [bob], preferences: { tool_timeout_ms: 1_000 } })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("6 seconds")
      const events = yield* Fiber.join(reading)
      assert.strictEqual(single(events, "task.finished").state, "timed-out")
      assert.deepStrictEqual(
        all(events, "task.progress").map(({ message }) => message),
        ["in time"]
      )
      assert.notInclude(names(events), "task.artifact")
      assert.strictEqual(single(events, "final").text, "done")
    }).pipe(
      Effect.provide(
        layer({
          script: [[callTool("bob_ask", { input: "hi" })], [wait("4 seconds"), say("done")]],
          peers: {
            call: (_, onEvent) =>
              onEvent({ _tag: "Progress", state: "working", message: "in time" }).pipe(
                Effect.andThen(Effect.sleep("2 seconds")),
                Effect.andThen(onEvent({ _tag: "Progress", state: "working", message: "too late" })),
                Effect.andThen(
                  onEvent({ _tag: "Artifact", content: "too late", mediaType: "text/plain", verified: "unknown" })
                ),
                Effect.as({ state: "completed" as const, content: "too late", verified: "unknown" as const }),
                Effect.uninterruptible
              )
          }
        })
      ),
      Effect.scoped
    )
  )

  for (const told of [true, false]) {
    it.effect(`shows what the model reads: ${told ? "an artifact, once" : "the bare message of a peer"}`, () =>
      Effect.gen(function* () {
        const { frames } = yield* post({ question: "?", agents: [bob] })
        const { content, media_type, name, verified } = single(yield* readAll(frames), "task.artifact")
        assert.deepStrictEqual([content, media_type, verified], ["a knot", "text/plain", "unknown"])
        assert.strictEqual(name, told ? "knots" : undefined)
      }).pipe(
        Effect.provide(
          layer({
            script: [[callTool("bob_ask", { input: "hi" })], [say("done")]],
            peers: {
              call: (_, onEvent) =>
                (told
                  ? onEvent({
                      _tag: "Artifact",
                      content: "a knot",
                      mediaType: "text/plain",
                      verified: "unknown",
                      name: "knots"
                    })
                  : Effect.void
                ).pipe(Effect.as({ state: "completed" as const, content: "a knot", verified: "unknown" as const }))
            }
          })
        ),
        Effect.scoped
      )
    )
  }

  it.effect("makes no call whose time was over before it could leave", () => {
    let calls = 0
    return Effect.gen(function* () {
      const { frames } = yield* post({ question: "?", agents: [bob], preferences: { tool_timeout_ms: 1_000 } })
      const reading = yield* Effect.forkChild(readAll(frames))
      yield* pass("3 seconds")
      const end = single(yield* Fiber.join(reading), "task.finished")
      assert.deepInclude(end, { state: "timed-out" })
      assert.match(end.error?.message ?? "", /was not called/)
      assert.strictEqual(calls, 0)
    }).pipe(
      Effect.provide(
        layer({
          script: [[callTool("bob_ask", { input: "hi" })], [say("done")]],
          peers: {
            discover: () => Effect.as(Effect.sleep("2 seconds"), { skills: [], did: null }),
            call: () =>
              Effect.sync(() => ({ state: "completed" as const, content: `${++calls}`, verified: "unknown" as const }))
          }
        })
      ),
      Effect.scoped
    )
  })
})
