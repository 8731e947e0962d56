import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { join } from "node:path"
import { runnerImport } from "vite"
import { extend, none } from "../../src/text/Tokens.ts"
import { shownBy } from "./Tree.ts"

// Node.js reads no TSX.
const {
  module: { nodesOf, safeHref }
} = await runnerImport<typeof import("../../src/text/Markdown.tsx")>(
  join(import.meta.dirname, "../../src/text/Markdown.tsx")
)

const shown = (text: string) => shownBy(nodesOf(extend(none, text).tokens))

const allowed = new Set(
  "p h3 h4 h5 h6 strong em del code pre br hr blockquote ol ul li div table thead tbody tr th td a".split(" ")
)

const pieces = [
  "# Title\n",
  "text ",
  "more\n",
  "\n\n",
  "- item\n",
  "  - inner\n",
  "1. one\n",
  "> quote\n",
  "```js\n",
  "```\n",
  "`code`",
  "**bold**",
  "*em*",
  "| a | b |\n",
  "|---|---|\n",
  "| 1 | 2 |\n",
  "---\n",
  "===\n",
  "<img src=x onerror=alert(1)>",
  "<script>alert(1)</script>\n",
  "</p>",
  "[x](javascript:alert(1))",
  "[y](https://example.test/)",
  "![z](http://a.test/z.png)",
  "http://b.test/ ",
  "&lt;b&gt; ",
  "\\* ",
  "    indented\n",
  "\t",
  "~~gone~~",
  "<https://c.test>",
  "* * *\n",
  "&amp;#x3c;",
  "\u0000"
]
const texts = Schema.Array(Schema.Literals(pieces)).check(Schema.isMaxLength(24))

describe("Markdown", () => {
  it("reads what models write", () => {
    const { links, tags, text } = shown(
      "# Knots\n\nA **bowline** is *good*:\n\n- one\n- [two](https://knots.test/a?b=1&c=2)\n\n| a | b |\n|---|---|\n| 1 | `2` |\n"
    )
    assert.deepStrictEqual([...tags].toSorted(), [
      "a",
      "code",
      "div",
      "em",
      "h3",
      "li",
      "p",
      "strong",
      "table",
      "tbody",
      "td",
      "th",
      "thead",
      "tr",
      "ul"
    ])
    assert.deepStrictEqual(links, ["https://knots.test/a?b=1&c=2"])
    assert.strictEqual(text, "KnotsA bowline is good:onetwoab12")
  })

  it.each([
    ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
    ["a <b>bold</b> word", "a <b>bold</b> word"],
    ["![pixel](https://spy.test/p.png)", "![pixel](https://spy.test/p.png)"],
    ["[click](javascript:alert(1))", "[click](javascript:alert(1))"],
    ["[click](data:text/html,x)", "[click](data:text/html,x)"],
    ["1 &lt; 2 &amp; 3", "1 < 2 & 3"]
  ])("shows %s as text", (markdown, text) => {
    const { links, tags, text: said } = shown(markdown)
    assert.strictEqual(said.trim(), text)
    assert.deepStrictEqual(links, [])
    assert.deepStrictEqual(
      [...tags],
      ["p"].filter(() => !markdown.startsWith("<img"))
    )
  })

  it.effect.prop("makes of any text only elements without code, and links to http and https only", [texts], ([parts]) =>
    Effect.sync(() => {
      const { dangerous, links, tags } = shown(parts.join(""))
      assert.deepStrictEqual(
        [...tags].filter((tag) => !allowed.has(tag)),
        []
      )
      assert.deepStrictEqual(
        links.filter((href) => !/^https?:\/\//.test(href)),
        []
      )
      assert.deepStrictEqual(dangerous, [])
    })
  )

  it.effect.prop("shows a text that has grown piece by piece as it shows the whole", [texts], ([parts]) =>
    Effect.sync(() => {
      let text = ""
      let blocks = none
      for (const part of parts) {
        text += part
        blocks = extend(blocks, text)
      }
      assert.strictEqual(shownBy(nodesOf(blocks.tokens)).text, shown(text).text)
    })
  )

  it("keeps the blocks that a growing text has left behind", () => {
    const before = extend(none, "one\n\ntwo\n\nthree\n\nfour")
    const after = extend(before, "one\n\ntwo\n\nthree\n\nfour and more")
    assert.strictEqual(after.tokens[0], before.tokens[0])
    assert.notStrictEqual(after.tokens.at(-1), before.tokens.at(-1))
  })

  it.each([
    ["a line", "a".repeat(200_000)],
    ["stars", "*".repeat(200_000)],
    ["brackets", "[".repeat(200_000)],
    ["short lines of brackets", "[](<".repeat(1_000).concat("\n").repeat(20)],
    ["backticks", "a `".repeat(1_600).concat("\n").repeat(15)],
    ["quotes inside each other", "> ".repeat(2_000).concat("\n").repeat(5)],
    ["lists inside each other", "- ".repeat(2_000).concat("x\n")]
  ])("shows hostile text, and what comes behind it as Markdown: %s", (_, text) => {
    const { tags, text: said } = shown(`${text}\n\n**end**`)
    assert.isTrue(tags.has("strong"))
    assert.isTrue(said.endsWith("end"))
  })

  it("follows only addresses of http and https", () => {
    assert.strictEqual(safeHref("HTTPS://a.test"), "https://a.test/")
    for (const href of [
      "javascript:alert(1)",
      " javascript:alert(1)",
      "java\nscript:x",
      "data:,x",
      "/plans",
      "//a.test",
      "mailto:a@b.test",
      ""
    ]) {
      assert.isUndefined(safeHref(href))
    }
  })
})
