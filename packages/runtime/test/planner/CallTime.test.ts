import { anonymous } from "@bowline/domain/caller/CallerName"
import { say } from "@bowline/testing/provider/Turn"
import { pass, post, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import { askBob, bob } from "../plan/Bob.ts"
import { type Mortal, mortal, replayed } from "../plan/Mortal.ts"

const me = { caller: anonymous, isAdmin: false }
const preferences = { on_disconnect: "continue", on_input_required: "wait", tool_timeout_ms: 70_000 }
const body = { question: "?", agents: [bob], preferences }

/** A peer that works for 20 s in front of each question, wherever it is asked from, and for ever behind the last one. */
const slow = (questions: number) => {
  let answers = 0
  const call: PeerClient["Service"]["call"] = ({ answer, resumes }, onEvent) =>
    Effect.gen(function* () {
      if (resumes === undefined) {
        yield* onEvent({ _tag: "Accepted", remoteTaskId: "remote-1", remoteContextId: null })
        yield* Effect.sleep("20 seconds")
      }
      while (answers < questions) {
        const mark = `q${answers + 1}`
        yield* answer?.({ mark, message: mark, data: null }) ?? Effect.undefined
        answers++
        if (answers < questions) yield* Effect.sleep("20 seconds")
      }
      return yield* Effect.never
    })
  return { call }
}

const answer = Effect.fnUntraced(function* (process: Mortal, text: string) {
  const { items } = yield* process.inbox.waiting(anonymous, { kind: "answer" }, { limit: 10 })
  const { plan_id, task_id } = items[0] ?? assert.fail(`Nobody asks for ${text}`)
  yield* process.inbox.accept(me, plan_id, { type: "answer", task_id, text })
})

/** Waits until the plan of this process is over, for so long at most. */
const ends = Effect.fnUntraced(function* (
  process: Mortal,
  plan_id: Parameters<Mortal["plans"]["get"]>[1],
  within: Duration.Input
) {
  yield* pass(within, "1 second")
  return (yield* process.plans.get(anonymous, plan_id)).finished_at !== null
})

describe("the time of a call that has asked", () => {
  const deaths = { questions: [1, 2], "an answer": [1] }
  for (const [name, questions] of Object.entries(deaths)) {
    for (const count of questions) {
      it.effect(`goes on in the next process behind ${name} (${count}), without that of the wait`, () =>
        Effect.gen(function* () {
          const peers = slow(count)
          const [first, second] = [
            yield* mortal({ script: [askBob, [say("ok")]], peers }),
            yield* mortal({ script: () => [say("ok")], peers })
          ]
          const { plan_id } = yield* first.on(post(body))
          yield* pass("21 seconds", "1 second")
          for (let asked = 1; asked < count; asked++) {
            yield* pass("10 minutes", "10 seconds")
            yield* answer(first, `${asked}`)
            yield* pass("21 seconds", "1 second")
          }
          // Of its 70 s it has used 20 for each question.
          let left = 70 - 20 * count
          if (name === "questions") {
            first.kill()
            yield* pass("10 minutes", "10 seconds")
            yield* answer(second, "last")
          } else {
            yield* answer(first, "last")
            yield* pass("5 seconds", "1 second")
            first.kill()
            left -= 5
          }
          assert.isFalse(yield* ends(second, plan_id, `${left - 3} seconds`))
          assert.isTrue(yield* ends(second, plan_id, "10 seconds"))
          const events = yield* replayed(second, plan_id, "1 second")
          assert.deepInclude(single(events, "task.finished"), { state: "timed-out" })
        }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, Layer.succeed(SchemaChecks, inPlace))))
      )
    }
  }
})
