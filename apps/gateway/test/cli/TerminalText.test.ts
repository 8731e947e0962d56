import { assert, describe, it } from "@effect/vitest"
import { ago, fit, harmless, oneLine, toJson, widthOf } from "../../src/cli/TerminalText.ts"

/** Every control character, and every character that turns the direction of text. */
const controls = [
  ...Array.from({ length: 0x20 }, (_, code) => code),
  ...Array.from({ length: 0x21 }, (_, index) => 0x7f + index),
  0x61c,
  0x200e,
  0x200f,
  0x202a,
  0x202b,
  0x202c,
  0x202d,
  0x202e,
  0x2066,
  0x2067,
  0x2068,
  0x2069
].map((code) => String.fromCharCode(code))

describe("text for a terminal", () => {
  it("has no control character but line feeds and tabs, and loses none", () => {
    for (const control of controls) {
      const shown = harmless(`a${control}b`)
      if (control === "\n" || control === "\t") assert.strictEqual(shown, `a${control}b`)
      else assert.match(shown, /^a(?:[\u2400-\u2421]|\\u[0-9a-f]{4})b$/)
    }
    assert.strictEqual(harmless("one\r\ntwo"), "one\ntwo")
    assert.strictEqual(oneLine(" one\r\n\ttwo\u001b[2J "), "one two␛[2J")
    assert.strictEqual(harmless("日本語 👩‍👩‍👧 é"), "日本語 👩‍👩‍👧 é")
  })

  it("is the same value as JSON, in one line that has no effect on a terminal", () => {
    const value = { text: `${controls.join("")} 日本語 👩‍👩‍👧` }
    const json = toJson(value)
    assert.deepStrictEqual(JSON.parse(json), value)
    for (const control of controls) assert.notInclude(json, control)
  })

  it("is cut to columns, and not to characters", () => {
    assert.strictEqual(fit("日本語テキスト", 7), "日本語…")
    assert.strictEqual(fit("日本語", 6), "日本語")
    assert.strictEqual(fit("plain text", 6), "plain…")
    for (let width = 1; width < 30; width++) {
      assert.isAtMost(widthOf(fit("a日b本👩‍👩‍👧c語 e\u0301 text, and more of it", width)), width)
    }
  })

  it("says how long ago a time was, and when one will be", () => {
    const now = Date.parse("2026-01-02T00:00:00Z")
    const cases = [
      ["2026-01-01T23:59:59.900Z", "0s ago"],
      ["2026-01-01T23:59:01Z", "59s ago"],
      ["2026-01-01T23:57:00Z", "3m ago"],
      ["2026-01-01T01:00:00Z", "23h ago"],
      ["2025-12-01T00:00:00Z", "32d ago"],
      ["2026-01-04T00:00:00Z", "in 2d"]
    ] as const
    for (const [iso, said] of cases) assert.strictEqual(ago(iso, now), said)
  })
})
