import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { createParser } from "eventsource-parser"
import { makeDecoder, type SseEvent } from "../src/SseDecoder.ts"

const decodeAll = (chunks: ReadonlyArray<Uint8Array>): ReadonlyArray<SseEvent> => {
  const decode = makeDecoder()
  return chunks.flatMap((chunk) => [...decode(chunk)])
}

const cut = (bytes: Uint8Array, cuts: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const ends = [...new Set(cuts.map((one) => one % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...ends, bytes.length].map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
}

const reference = (text: string): ReadonlyArray<SseEvent> => {
  const found: Array<SseEvent> = []
  const parser = createParser({
    onEvent: ({ data, event, id }) => found.push({ id, event: event ?? "message", data }),
    onComment: (comment) => found.push({ comment: comment.trim() })
  })
  parser.feed(text)
  return found
}

const Piece = Schema.Literals([
  "data",
  "event",
  "id",
  "retry",
  ":",
  ": ",
  " ",
  "\n",
  "\r\n",
  "\r",
  "\n\n",
  "\r\r",
  "x",
  "é",
  "🪢",
  "\u2028",
  "\0",
  "ping",
  "7"
])
const Cut = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200 }))

const encoder = new TextEncoder()

describe("SseDecoder", () => {
  it.prop(
    "decodes what eventsource-parser decodes, wherever the bytes are cut",
    { pieces: Schema.Array(Piece), cuts: Schema.Array(Cut), hasBom: Schema.Boolean },
    ({ cuts, hasBom, pieces }) => {
      // A CR at the very end: the other one waits for a LF.
      const text = `${pieces.join("")}\n: end\n`
      const bytes = encoder.encode(`${hasBom ? "\uFEFF" : ""}${text}`)
      assert.deepStrictEqual(decodeAll(cut(bytes, cuts)), reference(text))
    },
    { arbitrary: { runs: 2_000 } }
  )

  it("gives one event for each block, however it is cut", () => {
    const bytes = encoder.encode(
      "\uFEFFid: 1\r\nevent: a\r\ndata: é\r\ndata: 🪢\r\n\r\n: ping\r\rdata\r\rid: 3\rdata:x\r\rdata: cut"
    )
    const expected = [
      { id: "1", event: "a", data: "é\n🪢" },
      { comment: "ping" },
      { id: undefined, event: "message", data: "" },
      { id: "3", event: "message", data: "x" }
    ]
    for (let end = 0; end <= bytes.length; end++) {
      assert.deepStrictEqual(decodeAll([bytes.subarray(0, end), bytes.subarray(end)]), expected, `Cut at ${end}`)
    }
  })

  it("takes a block of 8 Mi characters, and no longer one, in one piece or in many", () => {
    const max = 8 * 1_024 * 1_024
    const block = (length: number) => encoder.encode(`data: ${"x".repeat(length - 6)}\n\n`)
    assert.strictEqual(decodeAll([block(max)]).length, 1)
    assert.throws(() => decodeAll([block(max + 1)]), "A frame is too large")
    const pieces = Array.from({ length: 9 }, () => encoder.encode("x".repeat(1_024 * 1_024)))
    assert.throws(() => decodeAll([encoder.encode("data: "), ...pieces]), "A frame is too large")
    const lines = encoder.encode(`data: ${"x".repeat(1_000)}\n`.repeat(9_000))
    assert.throws(() => decodeAll([lines]), "A frame is too large")
    assert.strictEqual(decodeAll([block(max), block(max)]).length, 2)
  })
})
