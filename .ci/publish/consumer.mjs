import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, writeFileSync } from "node:fs"
import { devNull } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { bin, capture, environment, pnpm, root } from "../setup.mjs"
import { readJson } from "./workspace.mjs"

/** What the consumer needs besides: the peers of the packages, and the types of Node.js. */
const peers = ["effect", "@effect/platform-node", "@effect/sql-pg", "@types/node"]

/** Its declarations need libraries that only those have who use these entries. */
const needsMore = /^@bowline\/client\/(ag-ui|ai-sdk)$/

const options = {
  module: "nodenext",
  target: "es2024",
  lib: ["es2024", "dom", "dom.iterable", "esnext.disposable"],
  types: ["node"],
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
  allowImportingTsExtensions: true,
  noEmit: true
}

const resolutions = { nodenext: options, bundler: { ...options, module: "esnext", moduleResolution: "bundler" } }

const write = (folder, path, content) => {
  mkdirSync(join(folder, path, ".."), { recursive: true })
  writeFileSync(join(folder, path), typeof content === "string" ? content : JSON.stringify(content, null, 2))
}

/** Settings of npm and pnpm that this machine has would lead to other registries. */
const isolated = (folder, registry) => {
  const others = Object.entries(environment()).filter(([name]) => !/^p?npm_|^(https?|all)_proxy$/i.test(name))
  const cache = join(folder, ".cache")
  return Object.fromEntries([
    ...others,
    ...["npm", "pnpm"].flatMap((tool) => [
      [`${tool}_config_registry`, `${registry}/`],
      [`${tool}_config_userconfig`, devNull],
      [`${tool}_config_cache`, cache],
      [`${tool}_config_cache_dir`, cache],
      [`${tool}_config_store_dir`, join(cache, "store")]
    ]),
    ["npm_config_audit", "false"],
    ["npm_config_fund", "false"],
    ["npm_config_update_notifier", "false"]
  ])
}

const specifiersOf = (tarballs) =>
  tarballs
    .flatMap(({ manifest }) => Object.keys(manifest.exports).map((entry) => join(manifest.name, entry)))
    .filter((specifier) => !needsMore.test(specifier))

/** An empty folder with a program that imports every entry, the app of the example `embedded`, and the examples of the documents. */
export const makeConsumer = (folder, tarballs, examples) => {
  const versions = new Map(tarballs.map(({ manifest }) => [manifest.name, manifest.version]))
  const { version } = readJson(join(root, "node_modules/effect/package.json"))
  for (const name of peers) versions.set(name, name === "effect" ? version : "*")
  write(folder, "package.json", {
    name: "consumer",
    private: true,
    type: "module",
    dependencies: Object.fromEntries(versions)
  })
  const every = specifiersOf(tarballs).map((specifier, index) => `export * as entry${index} from "${specifier}"\n`)
  write(folder, "src/every.ts", every.join(""))
  cpSync(join(root, "examples/embedded/src"), join(folder, "src/embedded"), { recursive: true })
  for (const { path, text } of examples) write(folder, join("src/examples", path), text)
  for (const [name, compilerOptions] of Object.entries(resolutions)) {
    write(folder, `tsconfig.${name}.json`, { compilerOptions, include: ["src"] })
  }
}

const installs = {
  npm: async () => ["npm", "install", "--strict-peer-deps", "--loglevel", "error"],
  pnpm: async () => {
    const { output } = await capture("npx", ["-y", "-p", pnpm, "-c", "command -v pnpm"])
    return [output.split("\n").at(-1), "install", "--strict-peer-dependencies"]
  }
}

/** Installs what the folder asks for, or these packages, all from the registry. Returns what went wrong, if anything did. */
export const install = async (manager, folder, registry, names = []) => {
  const [command, ...args] = await installs[manager]()
  const { code, output } = await capture(command, [...args, ...names], { cwd: folder, env: isolated(folder, registry) })
  return code === 0 ? [] : [`${manager} install has ended with ${code}:\n${output}`]
}

const run = async (what, command, args, options) => {
  // It only has the processors that the tests leave it.
  const { code, output } = await capture(command, args, { timeout: 1_200_000, ...options })
  return code === 0 ? [] : [`${what} has ended with ${code}:\n${output.slice(0, 4000)}`]
}

/** Compiles the consumer with the compiler of this checkout. */
export const checkTypes = (resolution, folder) =>
  run(`tsc under ${resolution}`, bin("tsc"), ["-p", `tsconfig.${resolution}.json`, "--checkers", "1"], { cwd: folder })

/** Loads every entry, and runs the app. */
export const runApp = async (folder) => {
  const options = { cwd: folder }
  return [
    ...(await run("The load of every entry", bin("node"), ["src/every.ts"], options)),
    ...(await run("The app", bin("node"), ["src/embedded/main.ts"], options))
  ]
}

/** How a process has ended that was told to: it runs no plan that it could wait for, so that 5 min are plenty, also beside the tests. */
export const endOf = async (ended) => {
  const [code, signal] = await Promise.race([ended, sleep(300_000, [undefined, "no end in 5 min"], { ref: false })])
  return code ?? signal
}

/** How many questions the demo prints. */
const printed = 4

/** Asks what the demo has printed, one after the other: the third question is about the first. */
const ask = async (questions, options) => {
  const problems = []
  for (const question of questions) {
    const { code, output } = await capture("sh", ["-c", question], options)
    if (code !== 0 || !/^(event: done|data: \[DONE\])/m.test(output))
      problems.push(`${question}\nhas answered:\n${output}`)
  }
  return problems
}

/** Npm may be gone before the gateway is. The program `kill` is no way: some of them take `-123` for `-1`, which is every process there is. */
const killGroup = (pid) => {
  try {
    process.kill(-pid, "SIGKILL")
  } catch (error) {
    if (error.code !== "ESRCH") throw error
  }
}

/** Starts the demo, asks what it prints, and ends it as Ctrl-C does: by a signal for the whole group of processes. */
export const runDemo = async (folder, [command, ...args], settings) => {
  const options = { cwd: folder, env: { ...environment(), BOWLINE_PORT: "0", ...settings } }
  const checked = await run("bowline check", command, [...args, "check"], options)
  if (checked.length > 0) return checked
  const stdio = ["ignore", "ignore", "pipe"]
  const child = spawn(command, args, { ...options, detached: true, stdio })
  const ended = once(child, "close")
  const lines = []
  try {
    for await (const line of createInterface({ input: child.stderr })) {
      lines.push(line)
      const questions = lines.filter((line) => /^ *curl /.test(line))
      if (questions.length < printed) continue
      child.stderr.resume()
      const problems = await ask(questions, options)
      process.kill(-child.pid, "SIGINT")
      const end = await endOf(ended)
      // Npm dies of the signal once the gateway has ended.
      if (end === 0 || end === 130 || end === "SIGINT") return problems
      return [...problems, `After Ctrl-C bowline has ended with ${end}`]
    }
    return [`bowline did not print ${printed} questions:\n${lines.join("\n")}`]
  } finally {
    killGroup(child.pid)
  }
}
