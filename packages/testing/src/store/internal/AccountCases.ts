import { CallerName } from "@bowline/domain/caller/CallerName"
import { AccountStore, wantedFor } from "@bowline/runtime/unstable/store/AccountStore"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Duration, Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"

const newCaller = Effect.map(UuidGenerator, (uuid) => CallerName.make(`corp:${uuid()}`))

/** Long ago, so that other cases on the same store forget none of it by their own time. */
const now = 1_000_000_000_000
const minute = 60_000

export const accountCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps a caller's token until its end, and of two the one that ends later, in whatever order they come",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const [ann, bob] = [yield* newCaller, yield* newCaller]
      assert.equal(yield* accounts.keepToken(ann, { sealed: "second", until: now + 2 * minute, now }, true), true)
      assert.equal(yield* accounts.keepToken(ann, { sealed: "first", until: now + minute, now }, true), true)
      yield* accounts.keepToken(bob, { sealed: "bob's", until: now + minute, now }, true)
      assert.deepEqual(yield* accounts.token(ann, now), Option.some("second"))
      assert.deepEqual(yield* accounts.token(ann, now + 2 * minute - 1), Option.some("second"))
      assert.deepEqual(yield* accounts.token(ann, now + 2 * minute), Option.none())
      assert.equal(yield* accounts.keepToken(ann, { sealed: "third", until: now + 3 * minute, now }, false), true)
      assert.deepEqual(yield* accounts.token(ann, now + 2 * minute), Option.some("third"))
      assert.deepEqual(yield* accounts.token(bob, now), Option.some("bob's"))
    })
  },
  {
    title: "keeps no token that nobody wants, of a caller of whom none was wanted",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const caller = yield* newCaller
      assert.equal(yield* accounts.keepToken(caller, { sealed: "x", until: now + minute, now }, false), false)
      assert.deepEqual(yield* accounts.token(caller, now), Option.none())
    })
  },
  {
    title: "forgets a caller whose last token has ended longer ago than any plan waits",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const [gone, other] = [yield* newCaller, yield* newCaller]
      const later = now + Duration.toMillis(wantedFor)
      const isKnown = accounts.keepToken(gone, { sealed: "y", until: now - 1, now }, false)
      yield* accounts.keepToken(gone, { sealed: "x", until: now, now: now - minute }, true)
      yield* accounts.keepToken(other, { sealed: "x", until: later, now: later - 1 }, true)
      assert.equal(yield* isKnown, true)
      yield* accounts.keepToken(other, { sealed: "x", until: later, now: later }, true)
      assert.equal(yield* isKnown, false)
    })
  }
]
