import { cpSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { stripTypeScriptTypes } from "node:module"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { parseSync } from "vite"
import { buildConsole, buildDocs } from "../pages.mjs"
import { bin, capture, root } from "../setup.mjs"
import { llmsOf } from "./llms.mjs"
import { packages } from "./workspace.mjs"

const compiled = join(root, ".bowline", "build")

/** The program without its types, comments and `.ts`: every line stays where it is in the source. */
const toJavaScript = (file) => {
  const source = readFileSync(file, "utf8")
  let code = stripTypeScriptTypes(source)
  const { comments, module } = parseSync(file.replace(/\.ts$/, ".js"), code)
  const put = (start, end, text) => (code = code.slice(0, start) + text + code.slice(end))
  for (const { start, end } of comments) put(start, end, code.slice(start, end).replaceAll(/[^\n]/g, " "))
  const requests = [
    ...module.staticImports,
    ...module.staticExports.flatMap(({ entries }) => entries),
    ...module.dynamicImports
  ]
  for (const { moduleRequest } of requests) {
    if (moduleRequest === null || moduleRequest === undefined) continue
    const { start, end } = moduleRequest
    put(start, end, code.slice(start, end).replace(/^(["']\.[^"']*\.)ts(["'])$/, "$1js$2"))
  }
  // What is gone has left spaces, one for each character.
  const kept = code.replaceAll(/ /g, (space, at) => (source[at] === space ? space : ""))
  return kept.replaceAll(/ +$/gm, "")
}

/** A map without what nobody reads of it: whose it is, its name says already. */
const mapOf = (source, mappings) => ({ version: 3, sources: [source], names: [], mappings })

/** Since the lines are the same, a map of the lines is enough. */
const mappingsOf = (code) => `AAAA${";AACA".repeat(code.split("\n").length - 1)}`

/** The types that an app can reach: those of the modules that it can import, and of what these name. */
const typesOf = (folder) => {
  const { publishConfig } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const reached = new Set(Object.values(publishConfig?.exports ?? {}).map(({ types }) => join(folder, types)))
  for (const path of reached) {
    for (const [, request] of readFileSync(path, "utf8").matchAll(/["'](\.{1,2}\/[^"']+)\.[jt]s["']/g)) {
      reached.add(join(dirname(path), `${request}.d.ts`))
    }
  }
  return reached
}

const write = (folder, source) => {
  const path = join(folder, "dist", source.replace(/\.ts$/, ".js"))
  const name = path.slice(dirname(path).length + 1)
  const code = toJavaScript(join(folder, "src", source))
  writeFileSync(path, `${code}//# sourceMappingURL=${name}.map\n`)
  const map = mapOf(relative(dirname(path), join(folder, "src", source)), mappingsOf(code))
  writeFileSync(`${path}.map`, JSON.stringify(map))
}

const finish = (one) => {
  const { folder } = one
  const [src, dist] = [join(folder, "src"), join(folder, "dist")]
  rmSync(dist, { recursive: true, force: true })
  mkdirSync(dist, { recursive: true })
  renameSync(join(compiled, relative(root, src)), dist)
  const types = typesOf(folder)
  for (const file of globSync("**/*.d.ts", { cwd: dist })) if (!types.has(join(dist, file))) rmSync(join(dist, file))
  for (const file of globSync("**/*.*", { cwd: src })) {
    if (file.endsWith(".ts")) write(folder, file)
    else cpSync(join(src, file), join(dist, file))
  }
  writeFileSync(join(folder, "llms.txt"), llmsOf(one))
}

/** Writes the `dist` of every package, and builds the console and the documentation. Returns what went wrong, if anything did. */
export const build = async (options) => {
  rmSync(compiled, { recursive: true, force: true })
  const { code, output } = await capture(bin("tsc"), ["-p", "tsconfig.build.json", "--checkers", "1"], options)
  if (code !== 0) return output
  for (const one of packages) finish(one)
  rmSync(compiled, { recursive: true, force: true })
  return (await buildConsole()) ?? buildDocs()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problem = await build()
  if (problem !== undefined) {
    process.stderr.write(`${problem}\n`)
    process.exitCode = 1
  }
}
