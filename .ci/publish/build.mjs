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

/** The program without its types, comments and `.ts`: every line and column stays where it is in the source. */
const toJavaScript = (file) => {
  let code = stripTypeScriptTypes(readFileSync(file, "utf8"))
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
  return code.replaceAll(/ +$/gm, "")
}

/** A map without what nobody reads of it: whose it is, its name says already. */
const mapOf = (source, mappings) => ({ version: 3, sources: [source], names: [], mappings })

/** Since the columns are the same, a map of the lines is enough. */
const mappingsOf = (code) => `AAAA${";AACA".repeat(code.split("\n").length - 1)}`

const write = (folder, source) => {
  const path = join(folder, "dist", source.replace(/\.ts$/, ".js"))
  const name = path.slice(dirname(path).length + 1)
  const code = toJavaScript(join(folder, "src", source))
  writeFileSync(path, `${code}//# sourceMappingURL=${name}.map\n`)
  const map = mapOf(relative(dirname(path), join(folder, "src", source)), mappingsOf(code))
  writeFileSync(`${path}.map`, JSON.stringify(map))
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/** The numbers of a segment (ECMA-426): of each digit, five bits are of the number, the lowest ones first, and the sixth says that there are more. */
const decodeVlq = (segment) => {
  const numbers = []
  let [bits, shift] = [0, 0]
  for (const digit of segment) {
    const value = digits.indexOf(digit)
    bits += (value & 31) << shift
    shift += 5
    if (value & 32) continue
    numbers.push(bits & 1 ? -(bits >> 1) : bits >> 1)
    ;[bits, shift] = [0, 0]
  }
  return numbers
}

const encodeVlq = (number) => {
  let text = ""
  let bits = number < 0 ? (-number << 1) | 1 : number << 1
  do {
    text += digits[(bits & 31) | (bits > 31 ? 32 : 0)]
    bits >>= 5
  } while (bits > 0)
  return text
}

/** Where each line begins in the source. Who looks a declaration up goes to its line; the columns would be a tenth of the tarball. */
const linesOf = (mappings) => {
  let [line, written] = [0, 0]
  return mappings
    .split(";")
    .map((segments) => {
      const moves = segments === "" ? [] : segments.split(",").map((segment) => decodeVlq(segment)[2] ?? 0)
      const [first] = moves
      if (first === undefined) return ""
      const begins = line + first
      line += moves.reduce((sum, move) => sum + move, 0)
      const segment = `AA${encodeVlq(begins - written)}A`
      written = begins
      return segment
    })
    .join(";")
}

/** The map of a declaration names its source from where it was written, which is not where it is read. */
const moveMap = (folder, map) => {
  const [path, source] = [join(folder, "dist", map), join(folder, "src", map.replace(/\.d\.ts\.map$/, ".ts"))]
  const { mappings } = JSON.parse(readFileSync(path, "utf8"))
  writeFileSync(path, JSON.stringify(mapOf(relative(dirname(path), source), linesOf(mappings))))
}

const finish = (one) => {
  const { folder } = one
  const [src, dist] = [join(folder, "src"), join(folder, "dist")]
  rmSync(dist, { recursive: true, force: true })
  mkdirSync(dist, { recursive: true })
  renameSync(join(compiled, relative(root, src)), dist)
  for (const map of globSync("**/*.d.ts.map", { cwd: dist })) moveMap(folder, map)
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
