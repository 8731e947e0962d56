// Runs on whatever Node a machine has (20 or later), before anything is installed: no dependencies, no TypeScript.
import { spawn } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { constants, setPriority } from "node:os"
import { delimiter, join } from "node:path"
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
const stamp = join(root, "node_modules", ".bowline-setup")

const wanted = () =>
  [process.platform, process.arch, pnpm, readFileSync(join(root, "pnpm-lock.yaml"), "utf8")].join("\n")

const isInstalled = () => existsSync(stamp) && existsSync(bin("node")) && readFileSync(stamp, "utf8") === wanted()

/** Runs a command to its end and keeps what it prints. Beside something else it gets the processors that nobody else wants. */
export const capture = (command, args, { isBeside = false, ...options } = {}) =>
  new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, env: environment(), ...options, stdio: ["ignore", "pipe", "pipe"] })
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

const install = async () => {
  process.stderr.write("Installing dependencies …\n")
  // Under `npm --silent` it would not say why it failed.
  const env = { ...environment(), CI: "true", npm_config_loglevel: "warn" }
  // Its value `production` would leave the tools out.
  delete env.NODE_ENV
  const args = ["-y", pnpm, "install", "--frozen-lockfile"]
  const { code, output } = await capture("npx", args, { env })
  if (code === 0) return
  fail(
    offline.test(output)
      ? "Dependencies are missing, and the package registry cannot be reached. Connect to a network and try again."
      : `Installing the dependencies failed: npx ${args.join(" ")}`,
    output
  )
}

/** Adds the Effect diagnostics to TypeScript, unless they are there: an install of pnpm alone leaves them out. */
export const patchTypeScript = async () => {
  if ((await capture(bin("tsc"), ["--version"])).output.includes("effect-tsgo")) return
  const { code, output } = await capture(bin("effect-tsgo"), ["patch"])
  if (code !== 0) fail("Adding the Effect diagnostics to TypeScript failed: effect-tsgo patch", output)
}

/** Only one set-up of a checkout at a time. Who holds the lock touches it; one that nobody touched is left over. */
export const locked = async (work) => {
  mkdirSync(join(root, ".bowline"), { recursive: true })
  for (let waited = false; ; waited = true) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" })
      break
    } catch (error) {
      if (error.code !== "EEXIST") throw error
    }
    const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    if (age > 15_000) rmSync(lock, { force: true })
    else {
      if (!waited) process.stderr.write("Waiting for another set-up of this checkout …\n")
      await sleep(500)
    }
  }
  const touch = setInterval(() => utimesSync(lock, new Date(), new Date()), 2_000)
  const release = () => rmSync(lock, { force: true })
  process.once("exit", release)
  try {
    return await work()
  } finally {
    clearInterval(touch)
    release()
    process.removeListener("exit", release)
  }
}

/** Installs what is missing: nothing to do, and nothing said, when the lockfile is the one that was installed last. */
export const setup = async () => {
  if (isInstalled()) return
  await locked(async () => {
    if (isInstalled()) return
    await install()
    await patchTypeScript()
    writeFileSync(stamp, wanted())
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await setup()
