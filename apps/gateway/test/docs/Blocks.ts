import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"

export const root = join(import.meta.dirname, "../../../..")

/** A block of code in a page: its language, and what stands behind that: a word that says what it is, or in parentheses why nothing runs it. */
export interface Block {
  readonly place: string
  readonly page: string
  readonly language: string
  readonly word: string
  readonly reason: string
  readonly code: string
}

const pages = globSync("{README.md,CONTRIBUTING.md,docs/**/*.md,examples/*/README.md}", { cwd: root })

const blocksOf = (page: string): ReadonlyArray<Block> => {
  const text = readFileSync(join(root, page), "utf8")
  return Array.from(
    text.matchAll(/^```([a-z]*)([^\n]*)\n([^]*?)^```$/gm),
    ({ 1: language = "", 2: info = "", 3: code = "", index }) => {
      const [, reason = ""] = /^ \((.+)\)$/.exec(info) ?? []
      return {
        place: `${page}:${text.slice(0, index).split("\n").length}`,
        page,
        language,
        word: reason === "" ? info.trim() : "",
        reason,
        code
      }
    }
  )
}

/** Every block of the README, of the documentation and of the examples. */
export const blocks = pages.flatMap(blocksOf)

/** The workspace has two versions of one package, each under a name of its own. */
const inWorkspace = (block: Block): Block => ({ ...block, code: block.code.replaceAll('"@a2a-js/sdk', '"a2a-sdk-1') })

/** The blocks of TypeScript that are checked. */
export const programs = blocks
  .filter(({ language, reason, word }) => language === "ts" && reason === "" && word !== "file")
  .map(inWorkspace)

/** The blocks that a reader saves as files: those of an example, which are checked and run there. */
export const files = blocks.filter(({ word }) => word === "file").map(inWorkspace)
