import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { memory, question, reasonOf, start } from "../peer/call.ts"
import { agent } from "./Agent.ts"

describe("a peer that has to sign what it says", () => {
  it.effect("says nothing where no connection is made to it: the error of the connection is reported", () =>
    Effect.gen(function* () {
      const trust = { verify_did: true, pinned_did: agent(1).did }
      const call = yield* start(question("http://away.test", { trust }))
      yield* TestClock.adjust("10 seconds")
      const { _tag, message } = yield* reasonOf(call)
      assert.deepStrictEqual([_tag, message], ["unreachable", "The connection to the peer failed (ECONNREFUSED)"])
    }).pipe(Effect.provide(memory))
  )
})
