import { assert, it } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { ProcessTransport } from "../../src/process/ProcessTransport.ts"
import { limitReplies } from "../../src/server/Replies.ts"

it.effect("keeps few replies for a process that asks and does not read", () =>
  Effect.gen(function* () {
    const transport = new ProcessTransport(1)
    limitReplies(transport)
    for (let id = 0; id < 1_000; id++) {
      void transport.send({ jsonrpc: "2.0", id, result: {} })
      // Each reply has the time to be taken.
      yield* Effect.promise(() => Promise.resolve())
    }
    assert.isAtMost(Queue.sizeUnsafe(transport.input), 65)
    const taken = yield* Queue.takeAll(transport.input)
    assert.isAtMost(taken.length, 66)
  })
)
