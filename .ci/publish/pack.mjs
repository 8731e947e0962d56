import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { buffer } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { gunzipSync, gzipSync } from "node:zlib"
import zopfli from "@gfx/zopfli"
import { extract, pack as archive } from "tar-stream"
import { capture, pnpm, root } from "../setup.mjs"
import { build } from "./build.mjs"
import { packages } from "./workspace.mjs"

/** Where the tarballs are. */
export const packed = join(root, ".bowline", "packed")

/** Bytes of a tarball. That of the gateway, which has the console and the documentation, may have 3 MB. */
export const limit = 500_000

/** Zopfli makes a tarball 4 % smaller than zlib does, and takes a second for each MB. It is for the tarballs that are too large without it, except that of the gateway. */
const slow = 8_000_000

/** A module's name without its folder and its endings: its source, what was built of it, its declarations and its maps have the same. */
const moduleOf = (path) => path.replace(/^package\/(dist|src)\//, "").replace(/\.[^/]*$/, "")

/**
 * The files of a tarball with those of a module behind each other, and the maps behind all of them: gzip refers to what is at most 32 kB back, and they say nearly the same.
 */
const reorder = async (path) => {
  const entries = []
  const tar = extract()
  tar.end(gunzipSync(readFileSync(path)))
  for await (const entry of tar) entries.push({ header: entry.header, content: await buffer(entry) })
  const keyOf = ({ header: { name } }) => `${name.endsWith(".map")} ${moduleOf(name)}\n${basename(name)}`
  entries.sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
  const ordered = archive()
  for (const { header, content } of entries) ordered.entry(header, content)
  ordered.finalize()
  const content = await buffer(ordered)
  const quick = gzipSync(content, { level: 9 })
  const isEnough = quick.length <= limit || content.length > slow
  writeFileSync(path, isEnough ? quick : await zopfli.gzipAsync(content, { numiterations: 1 }))
}

/** Builds the packages and packs them. Returns what went wrong, if anything did. */
export const pack = async (options) => {
  const problem = await build(options)
  if (problem !== undefined) return problem
  rmSync(packed, { recursive: true, force: true })
  mkdirSync(packed, { recursive: true })
  const filters = packages.flatMap(({ manifest }) => ["--filter", manifest.name])
  const args = [...filters, "-r", "pack", "--pack-destination", packed]
  const { code, output } = await capture("npx", ["-y", pnpm, ...args], options)
  if (code !== 0) return output
  for (const name of readdirSync(packed)) await reorder(join(packed, name))
  return undefined
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problem = await pack()
  process.stderr.write(`${problem ?? `The tarballs are in ${packed}`}\n`)
  if (problem !== undefined) process.exitCode = 1
}
