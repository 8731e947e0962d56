import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { Cursor } from "../../src/api/PageQuery.ts"

const decode = Schema.decodeUnknownOption(Cursor)

describe("Cursor", () => {
  it("comes back as the number that it was made of", () => {
    for (const start of [0, 1, 50, 999_999_999_999]) {
      const text = Schema.encodeSync(Cursor)(start)
      assert.match(text, /^[\w-]+$/)
      assert.deepStrictEqual(decode(text), Option.some(start))
    }
  })

  it("is refused when the gateway did not make it", () => {
    for (const text of ["", "50", "!", "LTE", "MS41", "bm8", "OTk5OTk5OTk5OTk5OTk5OTk5"]) {
      assert.deepStrictEqual(decode(text), Option.none(), text)
    }
  })
})
