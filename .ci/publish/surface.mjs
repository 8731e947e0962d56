import { readFileSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { parseSync } from "vite"
import { entriesOf, readText } from "./workspace.mjs"

const namesOf = ({ declaration, specifiers }) => {
  if (declaration === null) return specifiers.map(({ exported }) => exported.name)
  const ids = (declaration.declarations ?? [declaration]).map(({ id }) => id)
  return ids.flatMap((id) => (id.type === "ObjectPattern" ? id.properties.map(({ value }) => value.name) : [id.name]))
}

const kindOf = ({ declaration, exportKind }) => {
  if (exportKind === "type" || /^TS(Interface|TypeAlias)/.test(declaration?.type ?? "")) return "type"
  return declaration?.type === "ClassDeclaration" ? "class" : "value"
}

/** The exports of a module by name, with what they are and whether they have a doc comment, and the examples of all comments. */
const read = (source) => {
  const text = readFileSync(source, "utf8")
  const { comments, program } = parseSync(source, text)
  const docs = comments.filter(({ type, value }) => type === "Block" && value.startsWith("*"))
  const exports = new Map()
  for (const node of program.body) {
    if (node.type !== "ExportNamedDeclaration") continue
    const hasDoc = docs.some(({ end }) => end <= node.start && text.slice(end, node.start).trim() === "")
    for (const name of namesOf(node)) {
      const known = exports.get(name) ?? { kinds: [], hasDoc: node.source !== null || node.declaration === null }
      exports.set(name, { kinds: [...known.kinds, kindOf(node)], hasDoc: known.hasDoc || hasDoc })
    }
  }
  const prose = docs.map(({ value }) => value.replaceAll(/^\s*\* ?/gm, "")).join("\n")
  return { exports, examples: blocksOf(prose) }
}

const blocksOf = (markdown) => [...markdown.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code)

/** Functions, layers and services, and what the module is named after. A schema, which has a type of its name, shows its shape itself. */
const needsExample = (entry, name, kinds) =>
  name === basename(entry) ? kinds.some((kind) => kind !== "type") : kinds.length === 1 && kinds[0] === "value"

/** The examples of the READMEs and of the doc comments, and what is missing, a line each. */
export const examine = (packages) => {
  const examples = []
  const problems = []
  for (const one of packages) {
    const { folder, manifest } = one
    const add = (name, blocks) =>
      blocks.forEach((text, index) => examples.push({ path: join(manifest.name, `${name}-${index}.ts`), text }))
    const shown = blocksOf(readText(join(folder, "README.md")))
    if (shown.length === 0 && Object.keys(manifest.exports).length > 0) {
      problems.push(`${manifest.name}: its README has no example`)
    }
    add("README", shown)
    for (const { entry, source, specifier } of entriesOf(one)) {
      const { exports, examples: own } = read(source)
      add(entry, own)
      if (own.some((code) => code.includes("/unstable/")))
        problems.push(`${specifier}: an example imports an unstable entry`)
      const mentions = [...own, ...shown.filter((code) => code.includes(`"${specifier}"`))]
      // The name of its module alone is no use of it.
      const words = new Set(
        mentions
          .join("\n")
          .replaceAll(/ from ".*"$/gm, "")
          .match(/\w+/g)
      )
      for (const [name, { hasDoc, kinds }] of exports) {
        if (!hasDoc) problems.push(`${specifier}: ${name} has no doc comment`)
        if (needsExample(entry, name, kinds) && !words.has(name))
          problems.push(`${specifier}: ${name} is in no example`)
      }
    }
  }
  return { examples, problems }
}

/** A doc comment without its examples, which `check:publish` compiles. Other comments are not for apps. */
const proseOf = ({ type, value }) => {
  if (type !== "Block" || !value.startsWith("*")) return ""
  const prose = value.split("@example")[0].replace(/[\s*]+$/, "")
  return prose === "" ? "" : `/*${prose}${prose.includes("\n") ? "\n */" : " */"}`
}

/** What an app may import of a package, with what is said of it: a change of it is a change for others. */
const reportOf = (one) => {
  const entries = entriesOf(one).map(({ declarations, specifier }) => {
    let text = readFileSync(declarations, "utf8")
    const { comments } = parseSync(declarations, text)
    for (const comment of comments.toReversed()) {
      const { start, end } = comment
      text = text.slice(0, start) + proseOf(comment) + text.slice(end)
    }
    return `## ${specifier}\n\n\`\`\`ts\n${text.replaceAll(/\n\s*\n/g, "\n").trim()}\n\`\`\`\n`
  })
  return `# ${one.manifest.name}\n\nWritten by \`npm run check:publish -- --update\`.\n\n${entries.join("\n")}`
}

/** Compares the declarations that were built last with the report of each package, or writes the reports. */
export const compareReports = (packages, isUpdate) =>
  packages
    .filter(({ manifest }) => Object.keys(manifest.exports).length > 0)
    .flatMap((one) => {
      const path = join(one.folder, "api.md")
      const report = reportOf(one)
      if (isUpdate) writeFileSync(path, report)
      if (readText(path) === report) return []
      return [`${one.manifest.name}: what apps may import has changed. npm run check:publish -- --update writes api.md`]
    })
