import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { bin, builtConsole, capture, locked, root } from "./setup.mjs"

/** Without `node_modules`, whose links lead in circles: Node.js follows them. */
const sources = ["apps/console/src", "apps/console/index.html", "apps/console/vite.config.ts", "packages/client/src"]

const filesIn = (path) =>
  statSync(path).isDirectory() ? readdirSync(path, { recursive: true }).map((name) => join(path, name)) : [path]

/** Milliseconds since 1970 at which the console's sources changed last. */
const changedAt = () =>
  Math.max(
    ...sources
      .map((path) => join(root, path))
      .filter((path) => existsSync(path))
      .flatMap(filesIn)
      .map((path) => statSync(path).mtimeMs)
  )

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
