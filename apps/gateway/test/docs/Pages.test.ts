import { problems } from "@bowline/protocol/unstable/api/Problem"
import { assert, describe, it } from "@effect/vitest"
import { existsSync, globSync, readFileSync, statSync } from "node:fs"
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

  it("lists every page of the reference in the README", () => {
    const links = read("README.md")
    const listed = pages.filter((page) => dirname(page) === "docs/reference")
    assert.isNotEmpty(listed)
    assert.deepStrictEqual(
      listed.filter((page) => !links.includes(`(${page})`)),
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
