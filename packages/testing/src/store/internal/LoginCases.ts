import { LoginStore } from "@bowline/runtime/unstable/store/LoginStore"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"

const newDigest = Effect.map(UuidGenerator, (uuid) => uuid())

/** Long ago, so that other cases on the same store drop none of it by their own time. */
const now = 1_000_000

export const loginCases: ReadonlyArray<StoreCase> = [
  {
    title: "finds a login among other digests until its time has come",
    test: Effect.gen(function* () {
      const logins = yield* LoginStore
      const [one, other, unknown] = [yield* newDigest, yield* newDigest, yield* newDigest]
      yield* logins.keep(one, { now, until: now + 1_000 })
      yield* logins.keep(other, { now, until: now + 1_000, subject: "sealed" })
      assert.deepEqual(yield* logins.find([unknown, one], now), Option.some({ digest: one, subject: null }))
      assert.deepEqual(yield* logins.find([unknown], now), Option.none())
      assert.deepEqual(yield* logins.find([one], now + 999), Option.some({ digest: one, subject: null }))
      assert.deepEqual(yield* logins.find([one], now + 1_000), Option.none())
    })
  },
  {
    title: "ends a login and no other one, more than once, too",
    test: Effect.gen(function* () {
      const logins = yield* LoginStore
      const [one, other, unknown] = [yield* newDigest, yield* newDigest, yield* newDigest]
      yield* logins.keep(one, { now, until: now + 1_000 })
      yield* logins.keep(other, { now, until: now + 1_000, subject: "sealed" })
      yield* logins.drop([unknown, one])
      yield* logins.drop([one])
      assert.deepEqual(yield* logins.find([one], now), Option.none())
      assert.deepEqual(yield* logins.find([other], now), Option.some({ digest: other, subject: "sealed" }))
    })
  },
  {
    title: "drops the logins whose time has come when there is a new one",
    test: Effect.gen(function* () {
      const logins = yield* LoginStore
      const [one, other] = [yield* newDigest, yield* newDigest]
      yield* logins.keep(one, { now, until: now + 1_000 })
      yield* logins.keep(other, { now: now + 1_000, until: now + 2_000, subject: "sealed" })
      assert.deepEqual(yield* logins.find([one], now), Option.none())
      assert.deepEqual(yield* logins.find([other], now), Option.some({ digest: other, subject: "sealed" }))
    })
  }
]
