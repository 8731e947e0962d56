import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { bin, builtConsole, capture, locked, root } from "./setup.mjs"

const sources = ["apps/console", "packages/client/src"]

/** Milliseconds since 1970 at which something in the folder changed last. Packages in node_modules link to each other in circles: it stays out of them. */
const changedIn = (folder) =>
  Math.max(
    0,
    ...readdirSync(folder, { withFileTypes: true })
      .filter(({ name }) => name !== "node_modules" && name !== "test")
      .map((entry) => {
        const path = join(folder, entry.name)
        return entry.isDirectory() ? changedIn(path) : statSync(path).mtimeMs
      })
  )

/** Milliseconds since 1970 at which the console's sources changed last. */
const changedAt = () =>
  Math.max(
    ...sources
      .map((folder) => join(root, folder))
      .filter((folder) => existsSync(folder))
      .map(changedIn)
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
