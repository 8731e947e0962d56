import { basename, join } from "node:path"
import { entriesOf, readText } from "./workspace.mjs"

/** The first sentence of the doc comment of what a module is named after, else of its first one. */
const summaryOf = (source) => {
  const text = readText(source)
  const main = basename(source, ".ts")
  const own = new RegExp(
    String.raw`/\*\*((?:(?!\*/)[^])*)\*/\s*export (?:declare )?(?:abstract )?(?:class|const|interface|type) ${main}\b`
  ).exec(text)
  const first = own ?? /\/\*\*((?:(?!\*\/)[^])*)\*\/\s*export /.exec(text)
  const words = (first?.[1] ?? "")
    .replaceAll(/^\s*\* ?/gm, "")
    .split(/^@/m)[0]
    .replaceAll(/\s+/g, " ")
    .trim()
  return /^.*?[.:](?= |$)/.exec(words)?.[0] ?? words
}

/** What a language model should know of a package: its README, and its entries in a line each. */
export const llmsOf = (one) => {
  const lines = entriesOf(one).map(({ specifier, source }) => `- \`${specifier}\`: ${summaryOf(source)}`)
  const readme = readText(join(one.folder, "README.md")).trim()
  const entries = lines.length === 0 ? "" : `\n## Entries\n\n${lines.join("\n")}\n`
  return `${readme}\n${entries}`
}
