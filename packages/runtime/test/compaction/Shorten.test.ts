import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { fairShare, toTokens } from "../../src/compaction/Shorten.ts"

const Size = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 }))

describe("fairShare", () => {
  it.prop(
    "gives all together no more than the room, and wastes next to none of it",
    { sizes: Schema.Array(Size), room: Size },
    ({ sizes, room }) => {
      const share = fairShare(sizes, room)
      const total = sizes.reduce((sum, size) => sum + Math.min(size, share), 0)
      assert.isAtMost(total, Math.max(room, 0))
      if (share !== Infinity) assert.isAbove(total + sizes.length, room)
    }
  )
})

describe("toTokens", () => {
  /** A word is a token; there are dense places and others. */
  const count = (text: string) => text.split(/\s+/).filter((word) => word !== "").length

  it.prop(
    "has no more tokens than it may, wherever the text is dense",
    { front: Size, back: Size, tokens: Size },
    ({ front, back, tokens }) => {
      const text = `${"a ".repeat(front)}${"long-words-of-text ".repeat(back)}`
      const short = toTokens(count, text, tokens)
      if (count(text) <= tokens) assert.strictEqual(short, text)
      else assert.isAtMost(count(short), Math.max(tokens, 46))
    }
  )

  it("keeps the head and the tail, and says what is left out", () => {
    const short = toTokens(count, `first ${"middle ".repeat(1_000)}last`, 50)
    assert.match(short, /^first .*\n\[… \d+ characters left out …\]\n.* ?last$/su)
  })

  it("leaves no half of an id, so that the same is left whatever the ids are", () => {
    const ids = ["0a1b2c3d-4e5f-4607-8899-aabbccddeeff", "f9e8d7c6-b5a4-4938-a716-050403020100"]
    for (let tokens = 25; tokens < 75; tokens++) {
      const [one, other] = ids.map((id) => toTokens(count, `It is ${id}. `.repeat(100), tokens).replaceAll(id, "#"))
      assert.strictEqual(one, other)
      const mark = /\n\[… (\d+) characters left out …\]\n/
      const [, leftOut] = mark.exec(one ?? "") ?? []
      const kept = (one ?? "").replace(mark, "").replaceAll("#", ids[0] ?? "")
      assert.strictEqual(kept.length + Number(leftOut), 100 * "It is . ".length + 3_600)
      assert.match(one ?? "", /^It is #\. .*\n\[… \d+ characters left out …\]\n.*It is #\. $/su)
    }
  })
})
