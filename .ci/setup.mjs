// Runs on whatever Node a machine has (20 or later), before anything is installed: no dependencies, no TypeScript.
import { spawn } from "node:child_process"
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync
} from "node:fs"
import { constants, setPriority } from "node:os"
import { basename, delimiter, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"

export const root = join(import.meta.dirname, "..")
export const bin = (name) => join(root, "node_modules", ".bin", name)

/** The console as Vite writes it, and the documentation as VitePress does. */
export const builtConsole = join(root, "apps", "gateway", "console")
export const builtDocs = join(root, "apps", "gateway", "docs")

/** The gateway as `bundle.mjs` writes it. */
export const bundle = join(root, "node_modules", ".bowline-bundle", "src", "gateway", "bowline.mjs")

/** The environment of every command: Node 24 of node_modules comes first, whichever Node started this script. The compiler, a program in Go, collects garbage less often. */
export const environment = () => ({
  GOGC: "400",
  ...process.env,
  PATH: `${bin("")}${delimiter}${process.env.PATH ?? ""}`
})

export const pnpm = "pnpm@12.21.0"
const lock = join(root, ".bowline", "setup.lock")
const store = join(root, "node_modules", ".pnpm")
const stamp = join(root, "node_modules", ".bowline-setup")
/** The packages that `prune` has taken files out of, one a line. */
const pruned = join(root, "node_modules", ".bowline-pruned")

const wanted = (level) =>
  [level, process.platform, process.arch, pnpm, readFileSync(join(root, "pnpm-lock.yaml"), "utf8")].join("\n")

/** Whether what a level needs is there: `all`, or what it takes to `serve`. Who has all can serve. */
export const isInstalled = (level = "all") => {
  if (!existsSync(stamp) || !existsSync(bin("node"))) return false
  const found = readFileSync(stamp, "utf8")
  return found === wanted("all") || (level === "serve" && found === wanted("serve"))
}

const isCopied = (path) =>
  !["node_modules", ".git", ".bowline", "dist"].includes(basename(path)) &&
  ![builtConsole, builtDocs].some((built) => path.startsWith(built))

/** Copies what is no product of an install or a build. */
export const copyCheckout = (to) => cpSync(root, to, { recursive: true, filter: isCopied })

/** Bytes on the disk. A file with several names counts once. */
const sizeOf = (path, seen) => {
  const { blocks, ino, nlink } = lstatSync(path)
  if (nlink > 1 && seen.has(ino)) return 0
  seen.add(ino)
  const within = lstatSync(path).isDirectory() ? readdirSync(path).map((name) => sizeOf(join(path, name), seen)) : []
  return within.reduce((sum, size) => sum + size, blocks * 512)
}

/** What a folder takes of the disk, as `du -m` counts it. */
export const megabytesOf = (path) => Math.ceil(sizeOf(path, new Set()) / 1024 ** 2)

/**
 * Runs a command to its end and keeps what it prints. Beside something else it gets the processors that nobody else wants. A program in Go counts on one there: the linter
 * checks the types of libraries once for each, which takes 49 s of CPU on two, and 30 s on one.
 */
export const capture = (command, args, { isBeside = false, ...options } = {}) =>
  new Promise((resolve) => {
    const env = isBeside ? { ...environment(), GOMAXPROCS: "1" } : environment()
    const child = spawn(command, args, { cwd: root, env, ...options, stdio: ["ignore", "pipe", "pipe"] })
    if (isBeside && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
    let output = ""
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8")
      stream.on("data", (chunk) => (output += chunk))
    }
    child.once("error", (error) => resolve({ code: 127, output: `${command}: ${error.message}` }))
    child.once("close", (code, signal) => resolve({ code: code ?? signal, output: output.trimEnd() }))
  })

const fail = (message, output) => {
  process.stderr.write(`${output}\n\n${message}\n`)
  process.exit(1)
}

const offline = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|fetch failed|META_FETCH_FAIL/i

/** Has pnpm install what these arguments say, as the lockfile has it. Returns what went wrong, if anything did. */
export const installInto = async (cwd, selected, options) => {
  // The machine's own Node has the machine's settings of npm, its registry among them; that of node_modules has none of them.
  const own = (process.env.PATH ?? "").split(delimiter).filter((folder) => !folder.startsWith(root))
  // Under `npm --silent` it would not say why it failed.
  const env = { ...environment(), PATH: own.join(delimiter), CI: "true", npm_config_loglevel: "warn" }
  // Its value `production` would leave the tools out.
  delete env.NODE_ENV
  const args = ["-y", pnpm, "install", "--frozen-lockfile", ...selected]
  const { code, output } = await capture("npx", args, { env, ...options, cwd })
  if (code === 0) return undefined
  const why = offline.test(output)
    ? "Dependencies are missing, and the package registry cannot be reached. Connect to a network and try again."
    : `Installing the dependencies failed: npx ${args.join(" ")}`
  return { why, output }
}

/** What a package needs, and the root has, without what only tests need. */
export const needsOf = (name) => ["--prod", "--filter-prod", `${name}...`]

const install = async (level) => {
  process.stderr.write("Installing dependencies …\n")
  const failed = await installInto(root, level === "serve" ? needsOf("@bowline/gateway") : [])
  if (failed !== undefined) fail(failed.why, failed.output)
}

/** What nobody needs who only runs a package: declarations, source maps, the sources beside what was built of them, and the headers of Node.js. */
const isSpare = (path) =>
  /\.(?:d\.[cm]?ts|map)$/.test(path) ||
  /\/node_modules\/(?:effect|zod|gpt-tokenizer)\/(?:src|cjs)\//.test(path) ||
  /\/node_modules\/node-(?:bin-)?\w+-\w+\/(?:include|share)\//.test(path)

const filesBelow = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : []
  })

/** Deletes what is spare of every package. They are links into pnpm's store, which keeps its files. */
const prune = () => {
  const spare = readdirSync(store, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => ({ name, files: filesBelow(join(store, name)).filter(isSpare) }))
    .filter(({ files }) => files.length > 0)
  writeFileSync(pruned, spare.map(({ name }) => name).join("\n"))
  for (const path of spare.flatMap(({ files }) => files)) rmSync(path)
}

/** Has pnpm install the pruned packages anew: it takes a package that is there for a whole one. */
const unprune = () => {
  if (!existsSync(pruned)) return
  for (const name of readFileSync(pruned, "utf8").split("\n")) {
    if (name !== "") rmSync(join(store, name), { recursive: true, force: true })
  }
  rmSync(join(root, "node_modules", ".pnpm-workspace-state-v1.json"), { force: true })
  rmSync(pruned)
}

/** Adds the Effect diagnostics to TypeScript, unless they are there: an install of pnpm alone leaves them out. */
export const patchTypeScript = async () => {
  if ((await capture(bin("tsc"), ["--version"])).output.includes("effect-tsgo")) return
  const { code, output } = await capture(bin("effect-tsgo"), ["patch"])
  if (code !== 0) fail("Adding the Effect diagnostics to TypeScript failed: effect-tsgo patch", output)
}

/** Whether a process of this machine has this number, which may be one that came later. */
export const isAlive = (pid) => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === "EPERM"
  }
}

/** A process that waits for a processor touches nothing for long, and still works: its lock is left over where it is gone. The age says it where another process has its number. */
const isLeftOver = () => {
  const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
  const pid = existsSync(lock) ? Number(readFileSync(lock, "utf8")) : 0
  return age > (pid > 0 && isAlive(pid) ? 180_000 : 15_000)
}

/** Does what is not done yet, one process of a checkout at a time. Who holds the lock touches it. */
export const lockedUntil = async (isDone, work) => {
  for (let waited = false; ; waited = true) {
    // Another one may have done it, and gone on to something else that takes the lock.
    if (isDone()) return undefined
    mkdirSync(join(root, ".bowline"), { recursive: true })
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" })
      break
    } catch (error) {
      if (error.code !== "EEXIST") throw error
    }
    if (isLeftOver()) rmSync(lock, { force: true })
    else {
      if (!waited) process.stderr.write("Waiting for another set-up of this checkout …\n")
      await sleep(500)
    }
  }
  // On a machine that stands still for long, another one may have taken it.
  const isOwn = () => existsSync(lock) && readFileSync(lock, "utf8") === String(process.pid)
  const touch = setInterval(() => {
    if (isOwn()) utimesSync(lock, new Date(), new Date())
  }, 2_000)
  const release = () => {
    if (isOwn()) rmSync(lock, { force: true })
  }
  process.once("exit", release)
  try {
    return isDone() ? undefined : await work()
  } finally {
    clearInterval(touch)
    release()
    process.removeListener("exit", release)
  }
}

/** Installs what a level needs and is missing: nothing to do, and nothing said, when the lockfile is the one that was installed last. */
export const setup = async (level = "all") => {
  const isDone = () => isInstalled(level)
  await lockedUntil(isDone, async () => {
    // Whoever had all keeps it: a checkout in which somebody works needs it again soon.
    const next = existsSync(stamp) && readFileSync(stamp, "utf8").startsWith("all\n") ? "all" : level
    rmSync(stamp, { force: true })
    unprune()
    await install(next)
    if (next === "all") await patchTypeScript()
    else prune()
    writeFileSync(stamp, wanted(next))
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await setup()
