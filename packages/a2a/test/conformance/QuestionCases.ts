import type { PeerAnswer, PeerCall, PeerQuestion } from "@bowline/runtime/remote/PeerClient"
import { becomes, completes, data, text, works } from "@bowline/testing/peer/Act"
import { assert } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { anotherClient, openTask, question, start } from "../peer/call.ts"
import type { ConformanceCase } from "./Cases.ts"
import type { Received, Server } from "./Server.ts"

/** A person who is asked. */
const person = (says: (round: number) => PeerAnswer["content"] | "expired" | undefined) => {
  const asked: Array<PeerQuestion> = []
  const answer: PeerCall["answer"] = (question) =>
    Effect.sync(() => {
      const content = says(asked.push(question))
      if (content === "expired" || content === undefined) return content
      return { messageId: `00000000-0000-4000-8000-00000000010${asked.length}`, content }
    })
  return { asked, answer }
}

const ask = (server: Server, call: Partial<PeerCall>) => start(question(server.url, { dialect: "auto" }, call))

const asking = (got: Array<Received>) => (received: Received) => {
  got.push(received)
  if (got.length === 1) return [works("60 millis"), becomes("input-required", "From where?")]
  const choice = [text("Which sails?"), data({ sails: ["jib", "genoa"] })]
  return [works("60 millis"), got.length === 2 ? becomes("input-required", choice) : completes("Booked")]
}

/** What a call does with the questions of its peer. */
export const questionCases: ReadonlyArray<ConformanceCase> = [
  {
    title: "asks what the peer asks, and answers in the same task, as often as it asks",
    test: Effect.fnUntraced(function* (serve) {
      const got: Array<Received> = []
      const { answer, asked } = person((round) => (round === 1 ? "The harbour" : { sails: "jib" }))
      const started = yield* ask(yield* serve(asking(got)), { answer })
      const { content, state } = yield* Fiber.join(started.fiber)
      assert.deepStrictEqual([state, content], ["completed", "Booked"])
      assert.deepStrictEqual(
        got.map(({ continues, parts }) => [continues, ...parts]),
        [
          [false, "What is a bowline?"],
          [true, "The harbour"],
          [true, { sails: "jib" }]
        ]
      )
      const [first, second, ...others] = asked
      assert.deepStrictEqual(others, [])
      assert.deepInclude(first, { message: "From where?" })
      assert.deepInclude(second, { message: "Which sails?", data: { sails: ["jib", "genoa"] } })
      assert.notStrictEqual(first?.mark, second?.mark)
      assert.lengthOf(
        started.events.filter(({ _tag }) => _tag === "Accepted"),
        1
      )
    })
  },
  {
    title: "hands the task back where nobody can be asked any more",
    test: Effect.fnUntraced(function* (serve) {
      const { answer, asked } = person((round) => (round === 1 ? "The harbour" : undefined))
      const { fiber } = yield* ask(yield* serve(asking([])), { answer })
      const { content, state } = yield* Fiber.join(fiber)
      assert.strictEqual(state, "input-required")
      assert.include(content, "Which sails?")
      assert.lengthOf(asked, 2)
    })
  },
  {
    title: "cancels the task of a question that nobody has answered in time",
    test: Effect.fnUntraced(function* (serve) {
      const server = yield* serve(asking([]))
      const started = yield* ask(
        server,
        person(() => "expired")
      )
      assert.strictEqual((yield* Fiber.join(started.fiber)).state, "timed-out")
      // The cancel is on its way.
      const look = Effect.flatMap(ask(server, { resumes: openTask(started) }), ({ fiber }) => Fiber.join(fiber))
      yield* Effect.repeat(look, { until: ({ state }) => state === "canceled" })
    })
  },
  {
    title: "knows a question again that another process has asked",
    test: Effect.fnUntraced(function* (serve) {
      const got: Array<Received> = []
      const server = yield* serve(asking(got))
      const first = yield* Deferred.make<PeerQuestion>()
      const before = yield* ask(server, {
        isHandedOver: () => true,
        answer: (question) => Effect.andThen(Deferred.succeed(first, question), Effect.never)
      })
      const { mark } = yield* Deferred.await(first)
      yield* Fiber.interrupt(before.fiber)
      const { answer, asked } = person((round) => (round === 1 ? "The harbour" : { sails: "jib" }))
      const { fiber } = yield* ask(server, { answer, resumes: openTask(before) }).pipe(
        Effect.provide(yield* anotherClient)
      )
      assert.strictEqual((yield* Fiber.join(fiber)).state, "completed")
      assert.deepStrictEqual([asked.length, asked[0]?.mark, got.length], [2, mark, 3])
    })
  }
]
