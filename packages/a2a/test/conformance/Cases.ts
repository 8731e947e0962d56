import { assert } from "@effect/vitest"
import { Agent } from "@bowline/domain/peer/Agent"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { PeerClient, type PeerCall, type RemoteIds } from "@bowline/runtime/remote/PeerClient"
import {
  appends,
  becomes,
  completes,
  data,
  fails,
  file,
  produces,
  replies,
  says,
  stuck,
  text,
  works,
  type Act
} from "@bowline/testing/peer/Act"
import { type Clock, Deferred, Effect, Fiber, type Scope } from "effect"
import { TestClock } from "effect/testing"
import type { HttpClient } from "effect/http"
import { anotherClient, openTask, question, start, type StartedCall } from "../peer/call.ts"
import type { Received, Server, ServerScript } from "./Server.ts"

/** The agent's time is everybody's, unless it has a clock of its own. */
type Serve<R> = (acts: ServerScript["acts"], clock?: Clock.Clock) => Effect.Effect<Server, never, R>

/** What a call of a peer has to do, whoever serves it. */
export interface ConformanceCase {
  readonly title: string
  readonly test: <R>(
    serve: Serve<R>
  ) => Effect.Effect<void, PeerError, R | PeerClient | HttpClient.HttpClient | Scope.Scope>
}

const always =
  (...acts: ReadonlyArray<Act>) =>
  () =>
    acts

const answer = Effect.fnUntraced(function* (
  server: Server,
  call: Partial<PeerCall> = {},
  meanwhile?: () => Effect.Effect<void>
) {
  const { events, fiber } = yield* start(question(server.url, { dialect: "auto" }, call), meanwhile)
  return { events, ...(yield* Fiber.join(fiber)) }
})

/** A call that is interrupted as soon as it is known what the peer says on the way. */
const interrupted = Effect.fnUntraced(function* (server: Server, call: Partial<PeerCall> = {}) {
  const told = yield* Deferred.make<void>()
  const started: StartedCall = yield* start(question(server.url, { dialect: "auto" }, call), () =>
    Effect.suspend(() =>
      started.events.at(-1)?._tag === "Progress" ? Effect.asVoid(Deferred.succeed(told, undefined)) : Effect.void
    )
  )
  yield* Deferred.await(told)
  yield* Fiber.interrupt(started.fiber)
  return started
})

const ending = (title: string, act: Act, state: string, content: string): ConformanceCase => ({
  title,
  test: Effect.fnUntraced(function* (serve) {
    const server = yield* serve(always(works("60 millis"), act))
    const result = yield* answer(server)
    assert.deepStrictEqual([result.state, result.content], [state, content])
  })
})

export const cases: ReadonlyArray<ConformanceCase> = [
  {
    title: "takes a message for the answer",
    test: Effect.fnUntraced(function* (serve) {
      const { content, state } = yield* answer(yield* serve(always(replies("No task needed"))))
      assert.deepStrictEqual([state, content], ["completed", "No task needed"])
    })
  },
  {
    title: "takes a task that is completed at once",
    test: Effect.fnUntraced(function* (serve) {
      const { content, events, state } = yield* answer(yield* serve(always(completes("At once"))))
      assert.deepStrictEqual([state, content], ["completed", "At once"])
      const [accepted] = events
      assert.isTrue(accepted?._tag === "Accepted" && accepted.remoteTaskId !== null)
    })
  },
  {
    title: "waits for a task that is worked on, and tells what the peer says meanwhile",
    test: Effect.fnUntraced(function* (serve) {
      // It reads for as long as the caller has not told of it.
      const clock = yield* TestClock.make()
      const acts = always(says("Reading"), works("1 hour"), produces("Knots"), completes("Done"))
      const { content, events, state } = yield* answer(yield* serve(acts, clock), {}, () => clock.adjust("1 hour"))
      assert.deepStrictEqual([state, content], ["completed", "Done\n\nKnots"])
      const told = events.flatMap((event) => (event._tag === "Progress" && event.message ? [event.message] : []))
      assert.deepStrictEqual(told, ["Reading"])
    })
  },
  {
    title: "tells artifacts that come in pieces once, whole",
    test: Effect.fnUntraced(function* (serve) {
      const pause = works("60 millis")
      const pieces = [produces("one "), pause, appends("two "), appends("three"), pause, produces([data({ n: 1 })])]
      const { content, events } = yield* answer(yield* serve(always(pause, ...pieces, completes())))
      const artifacts = events.filter((event) => event._tag === "Artifact")
      assert.deepStrictEqual(
        artifacts.map(({ content }) => content),
        ["one two three", { n: 1 }]
      )
      assert.strictEqual(content, 'one two three\n\n{"n":1}')
    })
  },
  {
    title: "hands input-required back, and continues the same task",
    test: Effect.fnUntraced(function* (serve) {
      const got: Array<Received> = []
      const server = yield* serve((received) => {
        got.push(received)
        return [works("60 millis"), received.continues ? completes("Thanks") : becomes("input-required", "Which?")]
      })
      const { content, events, state } = yield* answer(server)
      assert.deepStrictEqual([state, content], ["input-required", "Which?"])
      const [accepted] = events
      assert.strictEqual(accepted?._tag, "Accepted")
      const ids = accepted?._tag === "Accepted" ? accepted : { remoteTaskId: null, remoteContextId: null }
      const continues: RemoteIds = { taskId: ids.remoteTaskId, contextId: ids.remoteContextId }
      const more = yield* answer(server, { continues, input: { input: "This one" } })
      assert.strictEqual(more.state, "completed")
      assert.include(more.content, "Thanks")
      assert.deepStrictEqual(got, [
        { parts: ["What is a bowline?"], continues: false },
        { parts: ["This one"], continues: true }
      ])
    })
  },
  {
    title: "cancels the task when it is interrupted, and the agent is told",
    test: Effect.fnUntraced(function* (serve) {
      const server = yield* serve(always(says("Thinking"), stuck))
      const started = yield* interrupted(server)
      assert.strictEqual(yield* server.cancelled, openTask(started).taskId)
    })
  },
  {
    title: "resumes a task that another process has handed over, and sends nothing again",
    test: Effect.fnUntraced(function* (serve) {
      const got: Array<Received> = []
      // It reads until the first caller has left, and goes on a moment later, which is none for a slow machine.
      const clock = yield* TestClock.make()
      const server = yield* serve((received) => {
        got.push(received)
        return [says("Reading"), works("1 hour"), produces("Knots"), works("1 hour"), completes("Done")]
      }, clock)
      const cancelled = yield* Effect.forkChild(server.cancelled, { startImmediately: true })
      const resumes = openTask(yield* interrupted(server, { isHandedOver: () => true }))
      yield* Effect.forkChild(Effect.repeat(Effect.delay(clock.adjust("1 hour"), "100 millis"), { times: 1 }))
      const { content, events, state } = yield* answer(server, { resumes }).pipe(Effect.provide(yield* anotherClient))
      assert.deepStrictEqual([state, content], ["completed", "Done\n\nKnots"])
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "Artifact" ? [event.content] : [])),
        ["Knots"]
      )
      assert.deepStrictEqual(got, [{ parts: ["What is a bowline?"], continues: false }])
      assert.isUndefined(cancelled.pollUnsafe())
    })
  },
  ending("ends with the peer's failure, in its words", fails("No rope"), "failed", "No rope"),
  ending("ends with the peer's refusal, in its words", becomes("rejected", "Not mine"), "rejected", "Not mine"),
  {
    title: "sends data, and takes data and files",
    test: Effect.fnUntraced(function* (serve) {
      const got: Array<Received> = []
      const server = yield* serve((received) => {
        got.push(received)
        const picture = file({ name: "a.png", mimeType: "image/png", bytes: "AAAA" })
        return [produces([data({ sum: 3 })]), produces([text("See"), picture]), completes()]
      })
      const skill = { id: "ask", input_schema: { type: "object" } }
      const { events } = yield* answer(server, { skill, input: { a: 1, b: [2] } })
      assert.deepStrictEqual(got, [{ parts: [{ a: 1, b: [2] }], continues: false }])
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "Artifact" ? [[event.mediaType, event.content, event.files]] : [])),
        [
          ["application/json", { sum: 3 }, undefined],
          ["text/plain", "See", [{ mediaType: "image/png", name: "a.png", data: "AAAA" }]]
        ]
      )
    })
  },
  {
    title: "finds the dialect, the path and the skills on the card",
    test: Effect.fnUntraced(function* (serve) {
      const server = yield* serve(always(completes("Understood")))
      const client = yield* PeerClient
      const endpoint = `${server.url}/`
      const agent = Agent.make({ name: "peer", endpoint, auth: { type: "none" }, dialect: "auto" })
      const { skills } = yield* client.discover(agent)
      assert.deepStrictEqual(
        skills.map(({ id }) => id),
        ["ask"]
      )
      assert.strictEqual((yield* answer(server)).content, "Understood")
      const [peer] = yield* client.peers
      assert.deepStrictEqual([peer?.endpoint, peer?.dialect], [endpoint, server.dialect])
    })
  }
]
