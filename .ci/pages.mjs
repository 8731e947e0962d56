import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import {
  builtConsole,
  builtDocs,
  capture,
  copyCheckout,
  environment,
  installInto,
  isInstalled,
  lockedUntil,
  needsOf,
  root,
  setup
} from "./setup.mjs"

/** What a build puts where, with which tool of which package in which folder, and out of which sources. */
const consolePage = {
  to: builtConsole,
  tool: "vite",
  name: "@bowline/console",
  folder: "apps/console",
  sources: ["apps/console", "packages/client/src"]
}
const docs = {
  to: builtDocs,
  tool: "vitepress",
  name: "@bowline/docs",
  folder: "apps/docs",
  sources: ["apps/docs", "docs", "examples", "deploy", "CONTRIBUTING.md"]
}

const isSource = ({ name }) => !["node_modules", "test", ".temp"].includes(name)

/** Files that are links are left out, as are folders: those of `node_modules` go in circles. */
const filesOf = (path) =>
  statSync(path).isFile()
    ? [path]
    : readdirSync(path, { withFileTypes: true })
        .filter((entry) => isSource(entry) && (entry.isFile() || entry.isDirectory()))
        .flatMap(({ name }) => filesOf(join(path, name)))

/** Milliseconds since 1970 at which one of the sources changed last. */
const changedAt = (sources) =>
  Math.max(
    ...sources
      .map((path) => join(root, path))
      .filter((path) => existsSync(path))
      .flatMap((path) => filesOf(path).map((file) => statSync(file).mtimeMs))
  )

const isBuilt = ({ sources, to }) =>
  (statSync(join(to, "index.html"), { throwIfNoEntry: false })?.mtimeMs ?? 0) > changedAt(sources)

/**
 * Runs the tool of a site in a checkout. Where only serving is set up, it runs in a copy in a temporary folder, with what the site needs: nothing of that stays
 * on the disk.
 */
const runTool = async ({ folder, name, tool }, args, options) => {
  // Tests build, too, and theirs is "test": the page would have paths of this machine.
  const env = { ...environment(), NODE_ENV: "production" }
  const runIn = (checkout) =>
    capture(join(checkout, folder, "node_modules/.bin", tool), args, { env, ...options, cwd: join(checkout, folder) })
  if (isInstalled()) return runIn(root)
  const copy = mkdtempSync(join(tmpdir(), "bowline-pages-"))
  try {
    copyCheckout(copy)
    const failed = await installInto(copy, needsOf(name), options)
    return failed === undefined ? await runIn(copy) : { code: 1, output: `${failed.output}\n\n${failed.why}` }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Builds what is not there, or older than its sources. Returns what went wrong, if anything did. A build that is cut short changes nothing. */
const build = (site, options) => {
  const isDone = () => isBuilt(site)
  return lockedUntil(isDone, async () => {
    const next = `${site.to}.new`
    const { code, output } = await runTool(site, ["build", "--outDir", next, "--emptyOutDir"], options)
    if (code !== 0) return output
    rmSync(site.to, { recursive: true, force: true })
    renameSync(next, site.to)
    return undefined
  })
}

/** Builds the console. */
export const buildConsole = () => build(consolePage)

/** Builds the documentation. */
export const buildDocs = (options) => build(docs, options)

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await setup("serve")
  const problems = [await buildConsole(), await buildDocs()].filter((problem) => problem !== undefined)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (problems.length > 0) process.exitCode = 1
}
