import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { SecretSearch } from "../../src/http/SecretSearch.ts"

const Word = Schema.String.check(Schema.isPattern(/^[ab"\\/]{1,5}$/u))
const Text = Schema.String.check(Schema.isPattern(/^[ab"\\/]{0,40}$/u))

/** What `String.indexOf` finds, one behind the other. */
const plainly = (text: string, secret: string) => {
  const ranges = []
  for (let start = text.indexOf(secret); start !== -1; start = text.indexOf(secret, start + secret.length)) {
    ranges.push({ start, end: start + secret.length })
  }
  return ranges
}

/** The longest end of a text behind its last range that a secret begins with. */
const beginningOf = (text: string, secret: string) => {
  for (let length = Math.min(secret.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(secret.slice(0, length))) return length
  }
  return 0
}

describe("a search for a secret", () => {
  it.prop("finds what a plain search finds", { secret: Word, text: Text }, ({ secret, text }) => {
    const search = new SecretSearch(secret, false)
    const ranges = search.find(text)
    const { open } = search
    assert.deepStrictEqual(ranges, plainly(text, secret))
    const rest = text.slice(ranges.at(-1)?.end ?? 0)
    assert.strictEqual(open.length, beginningOf(rest, secret))
    if (open.length > 0) assert.strictEqual(open.start, text.length - open.length)
  })

  it.prop("finds a secret in JSON that is written as text", { secret: Word, text: Text }, ({ secret, text }) => {
    const written = JSON.stringify(`${text}<${secret}>`).slice(1, -1)
    const ranges = new SecretSearch(`<${secret}>`, true).find(written)
    assert.deepStrictEqual(
      ranges.map(({ end, start }) => written.slice(start, end)),
      [`<${JSON.stringify(secret).slice(1, -1)}>`]
    )
  })

  it.prop(
    "finds the same in the pieces of a text as in the whole",
    { secret: Word, pieces: Schema.Array(Text).check(Schema.isMaxLength(8)) },
    ({ pieces, secret }) => {
      for (const unescapes of [false, true]) {
        const whole = new SecretSearch(secret, unescapes)
        const ranges = whole.find(pieces.join(""))
        const search = new SecretSearch(secret, unescapes)
        assert.deepStrictEqual(
          pieces.flatMap((piece) => search.next(piece)),
          ranges
        )
        assert.deepStrictEqual(search.open, whole.open)
      }
    }
  )

  it("finds a secret across newlines, and one whose escape is cut off", () => {
    assert.deepStrictEqual(new SecretSearch("abcd", false).find("<ab\n\nc\nd>"), [{ start: 1, end: 8 }])
    const search = new SecretSearch("abcd", true)
    assert.deepStrictEqual(search.find(String.raw`<ab\u006`), [])
    assert.deepStrictEqual(search.open, { length: 2, start: 1 })
  })

  it("takes linear time for the worst secret and the worst text", () => {
    const text = "a".repeat(8 * 1024 * 1024)
    const secret = `${"a".repeat(8_000)}b${"a".repeat(8_000)}`
    assert.deepStrictEqual(new SecretSearch(secret, false).find(text), [])
  })
})
