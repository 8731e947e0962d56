import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { gunzipSync } from "node:zlib"
import { isBuiltin } from "node:module"
import { extract } from "tar-stream"
import { parseSync } from "vite"
import { root } from "../setup.mjs"
import { limit, packed } from "./pack.mjs"

const filesIn = async (content) => {
  const files = new Map()
  const tar = extract()
  tar.end(gunzipSync(content))
  for await (const entry of tar) files.set(entry.header.name.replace(/^package\//, ""), await buffer(entry))
  return files
}

/** What was packed last: the bytes of each tarball, its files by their paths, and its manifest. */
export const readTarballs = () =>
  Promise.all(
    globSync("*.tgz", { cwd: packed }).map(async (name) => {
      const content = readFileSync(join(packed, name))
      const files = await filesIn(content)
      return { content, files, manifest: JSON.parse(String(files.get("package.json"))) }
    })
  )

/** Those that are larger, in bytes. */
const limits = { "@bowline/gateway": 3_000_000 }

const needed = ["README.md", "LICENSE", "CHANGELOG.md", "llms.txt"]

const strayFile = /(^|\/)(test|tests|node_modules|\.env[^/]*)(\/|$)|\.(test|spec)\.|\.tsbuildinfo$|\.pem$|\.key$/

/** Keys as their issuers write them, and headers of files with keys. */
const secret =
  /\b(sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16})|-----BEGIN [A-Z ]*PRIVATE KEY-----/

const isText = (path) => /\.([cm]?[jt]sx?|json|md|map|txt|css|html|svg)$|(^|\/)LICENSE$/.test(path)

const ofManifest = ({ manifest }) => {
  const { dependencies = {}, peerDependencies = {}, devDependencies = {}, peerDependenciesMeta = {} } = manifest
  const problems = Object.entries({ ...devDependencies, ...peerDependencies, ...dependencies })
    .filter(([, range]) => /^(workspace|catalog|file|link):/.test(range))
    .map(([name, range]) => `package.json asks for ${name} ${range}`)
  for (const [name, range] of Object.entries(peerDependencies)) {
    // Npm refuses to install a package beside another version of its peer, also of one that the app does not need.
    if (peerDependenciesMeta[name]?.optional && !range.endsWith("|| *")) {
      problems.push(
        `package.json asks for the optional peer ${name} ${range}: an app may have any, so put "|| *" behind`
      )
    }
  }
  if (manifest.type !== "module") problems.push("package.json is not of type module")
  if (manifest.engines?.node !== ">=22.19") problems.push("package.json has no engines.node of >=22.19")
  for (const [entry, target] of Object.entries(manifest.exports)) {
    if (Object.keys(target)[0] !== "types") problems.push(`exports ${entry} without its types first`)
  }
  return problems
}

const ofFile = (path, content) => {
  if (strayFile.test(path)) return [`${path} is not for those who install the package`]
  if (!isText(path)) return []
  const text = String(content)
  const problems = []
  if (text.includes(root)) problems.push(`${path} has the path of this checkout`)
  if (secret.test(text)) problems.push(`${path} seems to hold a secret`)
  return problems
}

/** What the map names must be in the tarball, too. */
const ofMap = (path, files) =>
  JSON.parse(String(files.get(path)))
    .sources.map((source) => join(path, "..", source))
    .filter((source) => !files.has(source))
    .map((source) => `${path} names ${source}, which is not packed`)

/** The packages that a module loads. */
const importsOf = (path, content) => {
  const text = String(content)
  const { module } = parseSync(path, text)
  const requests = [
    ...module.staticImports,
    ...module.staticExports.flatMap(({ entries }) => entries),
    ...module.dynamicImports
  ]
  return requests
    .filter(({ moduleRequest }) => moduleRequest !== null && moduleRequest !== undefined)
    .map(
      ({ moduleRequest: { start, end } }) =>
        /^["']((?:@[^/"']+\/)?[^./#"'][^/"']*).*["']$/.exec(text.slice(start, end))?.[1]
    )
    .filter((name) => name !== undefined && !isBuiltin(name))
}

/** An install brings what the manifest asks for. What is there by luck is missing elsewhere; a second copy of Effect has other services. */
const ofImports = ({ files, manifest }) => {
  const { name, dependencies = {}, peerDependencies = {} } = manifest
  const modules = [...files].filter(([path]) => /^(bin|dist)\/.*\.m?[jt]s$/.test(path))
  const loaded = new Set(modules.flatMap(([path, content]) => importsOf(path, content)))
  const missing = [...loaded].filter((one) => one !== name && !(one in dependencies) && !(one in peerDependencies))
  const copies =
    name === "@bowline/gateway" ? [] : Object.keys(dependencies).filter((one) => /^(@effect\/|effect$)/.test(one))
  return [
    ...missing.map((one) => `loads ${one}, which is neither in its dependencies nor in its peerDependencies`),
    ...copies.map((one) => `has ${one} in its dependencies: put it into its peerDependencies`)
  ]
}

/** What is wrong with a tarball, a line each. */
export const problemsOf = (tarball) => {
  const { content, files, manifest } = tarball
  const problems = [...ofManifest(tarball), ...[...files].flatMap(([path, content]) => ofFile(path, content))]
  problems.push(...ofImports(tarball))
  const maps = [...files.keys()].filter((path) => path.startsWith("dist/") && path.endsWith(".map"))
  problems.push(...maps.flatMap((path) => ofMap(path, files)))
  for (const path of needed) if (!files.has(path)) problems.push(`has no ${path}`)
  for (const target of [
    ...Object.values(manifest.exports).flatMap(Object.values),
    ...Object.values(manifest.bin ?? {})
  ]) {
    if (!files.has(target.replace("./", ""))) problems.push(`has no ${target}, which its manifest names`)
  }
  const most = limits[manifest.name] ?? limit
  if (content.length > most) problems.push(`has ${content.length} bytes, more than ${most}`)
  const pages = manifest.name === "@bowline/gateway" ? ["console/index.html", "docs/index.html"] : []
  problems.push(...pages.filter((page) => !files.has(page)).map((page) => `has no ${page}`))
  return problems.map((problem) => `${manifest.name} ${problem}`)
}
