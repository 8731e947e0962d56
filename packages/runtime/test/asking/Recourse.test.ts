import * as Reason from "@bowline/domain/provider/ProviderError"
import { assert, describe, it } from "@effect/vitest"
import { type Chances, decide, type Recourse } from "../../src/asking/Recourse.ts"

const message = ""
const limited = new Reason.RateLimited({ message })
const waiting = new Reason.RateLimited({ message, retryAfterMs: 5_000 })
const server = new Reason.ServerError({ message })
const silent = new Reason.IdleTimeout({ message })
const auth = new Reason.Auth({ message })
const gone = new Reason.ModelUnavailable({ message })
const bad = new Reason.BadRequest({ message })

const all: Chances = { waitMs: 500, hasOtherCredential: true, hasOtherModel: true, timeLeftMs: 60_000 }
const model: Chances = { ...all, hasOtherCredential: false }
const none: Chances = { ...model, hasOtherModel: false }
const spent = { waitMs: undefined }

describe("Recourse", () => {
  it("uses what is left in the order of key, time and model", () => {
    const cases: ReadonlyArray<
      readonly [ReadonlyArray<Reason.ProviderErrorReason>, Chances, Recourse["_tag"], number?]
    > = [
      [[auth], all, "OtherCredential", 0],
      [[auth], model, "OtherModel"],
      [[auth], none, "GiveUp"],
      [[auth], { ...all, ...spent }, "OtherModel"],
      [[waiting], all, "OtherCredential", 0],
      [[waiting], { ...model, waitMs: 5_000 }, "SameCredential", 5_000],
      [[limited], all, "OtherCredential", 500],
      [[limited], none, "SameCredential", 500],
      [[server], all, "SameCredential", 500],
      [[server], { ...all, ...spent }, "OtherModel"],
      [[server], { ...none, ...spent }, "GiveUp"],
      [[silent], all, "SameCredential", 500],
      [[silent, silent], all, "OtherCredential", 0],
      [[silent, silent], model, "OtherModel"],
      [[gone], all, "OtherModel"],
      [[gone], { ...model, timeLeftMs: 4_999 }, "GiveUp"],
      [[bad], all, "GiveUp"]
    ]
    for (const [reasons, chances, tag, delayMs] of cases) {
      const expected = delayMs === undefined ? { _tag: tag } : { _tag: tag, delayMs }
      assert.deepStrictEqual<unknown>(decide(reasons, chances), expected)
    }
  })
})
