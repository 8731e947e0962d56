import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { parseSync } from "vite"
import { entriesOf } from "./workspace.mjs"

/** What their arguments are is inferred: whoever builds a graph, or calls an API, does not write them down. */
const inferred = new Set(["Layer.Layer", "HttpApi.HttpApi"])

const nameOf = (node) => (node.type === "TSQualifiedName" ? `${nameOf(node.left)}.${node.right.name}` : node.name)

/** Where the imports of a module come from: the file of a declaration or the entry of a package, and the name there, by the name here. */
const originsOf = (program, toOrigin) =>
  new Map(
    program.body
      .filter(({ type }) => type === "ImportDeclaration")
      .flatMap(({ source, specifiers }) =>
        specifiers.map(({ imported, local }) => [local.name, { from: toOrigin(source.value), name: imported?.name }])
      )
  )

/** Calls `found` with each name that a declaration mentions, `A.B` for a member of what is imported as a whole. */
const visit = (node, found) => {
  if (Array.isArray(node)) for (const one of node) visit(one, found)
  if (typeof node?.type !== "string" || node.type === "ImportDeclaration") return
  if (node.type === "TSTypeReference" && inferred.has(nameOf(node.typeName))) return
  if (node.type === "TSQualifiedName" || node.type === "Identifier") found(nameOf(node))
  // The type of a parameter is below its name.
  for (const child of Object.values(node)) visit(child, found)
}

const read = ({ declarations, specifier }) => {
  const { program } = parseSync(declarations, readFileSync(declarations, "utf8"))
  const toOrigin = (source) =>
    source.startsWith(".") ? join(dirname(declarations), source.replace(/\.ts$/, ".d.ts")) : source
  const origins = originsOf(program, toOrigin)
  const originOf = (name) => {
    const [first, member] = name.split(".")
    const { from, name: imported = member } = origins.get(first) ?? {}
    return from === undefined || imported === undefined ? undefined : { from, name: imported }
  }
  const exported = program.body
    .filter(({ type }) => type === "ExportNamedDeclaration")
    .flatMap(({ source, specifiers }) =>
      specifiers.map(({ local }) =>
        source === null ? originOf(local.name) : { from: toOrigin(source.value), name: local.name }
      )
    )
  const mentioned = new Map()
  visit(program.body, (name) => {
    const origin = originOf(name)
    if (origin !== undefined) mentioned.set(`${origin.from} ${origin.name}`, origin)
  })
  return { specifier, exported: exported.filter((origin) => origin !== undefined), mentioned }
}

/** Types of declarations that an app may import, which the app cannot name without an unstable entry, a line each. */
export const findUnnamed = (packages) => {
  const entries = packages.flatMap(entriesOf)
  const known = new Set(entries.flatMap(({ declarations, specifier }) => [declarations, specifier]))
  const modules = entries.map(read)
  const named = new Set(modules.flatMap(({ exported }) => exported.map(({ from, name }) => `${from} ${name}`)))
  return modules.flatMap(({ specifier, mentioned }) =>
    [...mentioned]
      .filter(([key, { from }]) => !known.has(from) && /^(\/|@bowline\/)/.test(from) && !named.has(key))
      .map(
        ([, { name }]) =>
          `${specifier}: its declarations name ${name}, which no public entry exports. Export its type here`
      )
  )
}
