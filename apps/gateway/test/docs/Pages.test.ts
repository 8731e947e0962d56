import { problems } from "@bowline/protocol/unstable/api/Problem"
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, normalize } from "node:path"

const root = join(import.meta.dirname, "../../../..")
const read = (path: string) => readFileSync(join(root, path), "utf8")
const index = "docs/operations/README.md"
const pages = globSync("{*.md,docs/**/*.md,examples/*/*.md}", { cwd: root })

/** Where Markdown on GitHub puts the headings of a page. */
const anchors = (page: string) =>
  new Set(
    Array.from(read(page).matchAll(/^#+ (.+)$/gm), ([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
        .replaceAll(" ", "-")
    )
  )

describe("the documentation", () => {
  it("has a page of the operations for each error code", () => {
    const [, section = ""] = read("docs/reference/stream.md").split("### Error codes")
    const ofPlans = Array.from(section.split("\n#")[0]?.matchAll(/^\| `([a-z_]+)/gm) ?? [], ([, code = ""]) => code)
    assert.isAtLeast(ofPlans.length, 10)
    const table =
      read(index)
        .match(/^\| .+ \|$/gm)
        ?.join("\n") ?? ""
    const missing = [...Object.keys(problems), ...ofPlans].filter((code) => !new RegExp(`[\`_ ]${code}\\b`).test(table))
    assert.deepStrictEqual(missing, [])
  })

  it("lists every page of the operations in their index", () => {
    const text = read(index)
    const listed = pages.filter((page) => dirname(page) === dirname(index) && page !== index)
    assert.deepStrictEqual(
      listed.filter((page) => !text.includes(`(${page.split("/").at(-1)})`)),
      []
    )
  })

  it("lists every page but the decisions and the failures on its home page, and every decision in their index", () => {
    const isElsewhere = (page: string) => /^docs\/(decisions|operations)\//.test(page)
    const home = read("docs/README.md")
    const listed = pages.filter((page) => page.startsWith("docs/") && page !== "docs/README.md" && !isElsewhere(page))
    assert.isAtLeast(listed.length, 25)
    assert.deepStrictEqual(
      listed.filter((page) => !home.includes(`(${page.slice("docs/".length)})`)),
      []
    )
    const decisions = read("docs/decisions/README.md")
    const decided = pages.filter((page) => /^docs\/decisions\/\d/.test(page))
    assert.deepStrictEqual(
      decided.filter((page) => !decisions.includes(`(${page.slice("docs/decisions/".length)})`)),
      []
    )
    const examples = globSync("examples/*/README.md", { cwd: root })
    assert.deepStrictEqual(
      examples.filter((page) => !home.includes(`(../${page})`)),
      []
    )
  })

  it("has no figure in the README that was not measured", () => {
    const [, costs = ""] = /^## What it costs$([^]+?)^## /m.exec(read("README.md")) ?? []
    const figures = costs.match(/\d[\d.,]* (?:ms|×|plans)/g) ?? []
    assert.isAtLeast(figures.length, 6)
    const measured = read("docs/architecture/performance.md")
    assert.deepStrictEqual(
      figures.filter((figure) => !measured.includes(figure)),
      []
    )
  })

  it("has the pictures that their script draws", () => {
    const folder = mkdtempSync(join(tmpdir(), "bowline-pictures-"))
    try {
      execFileSync(process.execPath, [join(root, ".ci/pictures.mjs"), folder])
      const drawn = readdirSync(folder)
      assert.lengthOf(drawn, 4)
      for (const name of drawn) {
        assert.strictEqual(
          readFileSync(join(folder, name), "utf8"),
          read(`docs/images/${name}`),
          "Run: .ci/pictures.mjs"
        )
      }
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it("has no paragraph of more than 90 words", () => {
    const paragraphs = pages
      .filter((page) => !page.startsWith("docs/decisions/"))
      .flatMap((page) =>
        read(page)
          .replaceAll(/^```[^]*?^```$/gm, "")
          .split(/\n\s*\n|\n(?=[-*] |\d+\. |#|\|)/)
          .filter((text) => !/^\s*[|#]/.test(text))
          .map((text) => ({ page, words: text.trim().split(/\s+/).length, begin: text.trim().slice(0, 60) }))
      )
    assert.isAtLeast(paragraphs.length, 500)
    assert.deepStrictEqual(
      paragraphs.filter(({ words }) => words > 90),
      []
    )
  })

  it("has no cell of a table of more than 40 words", () => {
    const cells = pages
      .filter((page) => !page.startsWith("docs/decisions/"))
      .flatMap((page) =>
        Array.from(read(page).matchAll(/^\|.*$/gm), ([row]) => row)
          .flatMap((row) => row.split(/(?<!\\)\|/))
          // A list of names is looked up, not read.
          .map((cell) =>
            cell
              .trim()
              .split(/\s+/)
              .filter((word) => !/^`[^`]*`,?$/.test(word))
          )
          .map((words) => ({ page, words: words.length, begin: words.join(" ").slice(0, 60) }))
      )
    assert.isAtLeast(cells.length, 1_000)
    assert.deepStrictEqual(
      cells.filter(({ words }) => words > 40),
      []
    )
  })

  it("has no link that leads nowhere", () => {
    const broken = pages.flatMap((page) =>
      Array.from(read(page).matchAll(/\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)/g)).flatMap(
        ([link, path = "", anchor]) => {
          const target = path === "" ? page : normalize(join(dirname(page), path))
          if (!existsSync(join(root, target))) return [`${page}: ${link}`]
          const isPage = statSync(join(root, target)).isFile() && target.endsWith(".md")
          return anchor !== undefined && isPage && !anchors(target).has(anchor) ? [`${page}: ${link}`] : []
        }
      )
    )
    assert.deepStrictEqual(broken, [])
  })
})
