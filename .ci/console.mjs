import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { bin, builtConsole, capture, locked, root } from "./setup.mjs"

const sources = [
  "apps/console/index.html",
  "apps/console/package.json",
  "apps/console/vite.config.ts",
  "apps/console/src",
  "packages/client/src"
]

/** The files of a source. Never a folder with `node_modules`: the links of packages lead in circles. */
const filesOf = (source) => {
  const path = join(root, source)
  if (!existsSync(path)) return []
  return statSync(path).isFile() ? [path] : readdirSync(path, { recursive: true }).map((name) => join(path, name))
}

/** Milliseconds since 1970 at which the console's sources changed last. */
const changedAt = () => Math.max(...sources.flatMap(filesOf).map((path) => statSync(path).mtimeMs))

const isBuilt = () =>
  (statSync(join(builtConsole, "index.html"), { throwIfNoEntry: false })?.mtimeMs ?? 0) > changedAt()

const build = async () => {
  if (isBuilt()) return undefined
  const next = `${builtConsole}.new`
  const args = ["build", "--outDir", next, "--emptyOutDir"]
  const { code, output } = await capture(bin("vite"), args, { cwd: join(root, "apps", "console") })
  if (code !== 0) return output
  rmSync(builtConsole, { recursive: true, force: true })
  renameSync(next, builtConsole)
  return undefined
}

/** Builds the console unless it is there and as new as its sources. Returns what went wrong, if anything did. A build that is cut short changes nothing. */
export const buildConsole = async () => (isBuilt() ? undefined : locked(build))
