import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { capture, pnpm, root } from "../setup.mjs"
import { build } from "./build.mjs"
import { packages } from "./workspace.mjs"

/** Where the tarballs are. */
export const packed = join(root, ".bowline", "packed")

/** Builds the packages and packs them. Returns what went wrong, if anything did. */
export const pack = async (options) => {
  const problem = await build(options)
  if (problem !== undefined) return problem
  rmSync(packed, { recursive: true, force: true })
  mkdirSync(packed, { recursive: true })
  const filters = packages.flatMap(({ manifest }) => ["--filter", manifest.name])
  const args = [...filters, "-r", "pack", "--pack-destination", packed, "--pack-gzip-level", "9"]
  const { code, output } = await capture("npx", ["-y", pnpm, ...args], options)
  return code === 0 ? undefined : output
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problem = await pack()
  process.stderr.write(`${problem ?? `The tarballs are in ${packed}`}\n`)
  if (problem !== undefined) process.exitCode = 1
}
