// Starts the gateway twice at once in a copy of the checkout in which nothing is installed, as `npm start` does for somebody who has just cloned it, and once more behind
// another lockfile. Says how large the install is, and ends with 1 if it is too large, or if a gateway does not answer.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { appendFileSync, cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { createInterface } from "node:readline"
import { builtDocs, copyCheckout, environment, megabytesOf, root } from "./setup.mjs"

/** Megabytes of node_modules, as `du -m` counts them. */
const largest = 200

const copy = mkdtempSync(join(tmpdir(), "bowline-serving-"))
copyCheckout(copy)
// What has been built already is not built again: a start builds the documentation beside the gateway, and nothing here asks for it.
if (existsSync(builtDocs)) cpSync(builtDocs, join(copy, relative(root, builtDocs)), { recursive: true })
const settings = { NODE_ENV: "", BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", LOG_FORMAT: "json" }
const providers = Object.keys(process.env).filter((name) =>
  /^(OPENAI|ANTHROPIC|OPENROUTER|BOWLINE)_|^DATABASE_URL$/.test(name)
)
const env = { ...environment(), ...settings }
for (const name of providers) if (!(name in settings)) delete env[name]

const running = new Set()

/** A gateway that asks its demo and serves its console, and how long it took to listen; or what went wrong. */
const serve = async () => {
  const since = performance.now()
  const gateway = spawn(process.execPath, [join(copy, ".ci/start.mjs")], {
    cwd: copy,
    env,
    stdio: ["ignore", "ignore", "pipe"]
  })
  running.add({ gateway, ended: once(gateway, "close") })
  const lines = []
  let url
  for await (const line of createInterface({ input: gateway.stderr })) {
    lines.push(line)
    url = /Listening on (http:[^\s"]+)/.exec(line)?.[1]
    if (url !== undefined) break
  }
  if (url === undefined) return { problem: `The gateway has not listened:\n${lines.join("\n")}` }
  const seconds = (performance.now() - since) / 1000
  gateway.stderr.resume()
  const body = JSON.stringify({ question: "Ask prompt what a bowline is.", preset: "demo" })
  const headers = { "content-type": "application/json", accept: "application/json" }
  const answer = await (await fetch(`${url}/plan`, { method: "POST", headers, body })).text()
  if (!answer.includes("given at once")) return { problem: `The demo has answered ${answer}` }
  const page = await fetch(`${url}/`, { headers: { accept: "text/html" } })
  if (!(await page.text()).includes("<script")) return { problem: `There is no console:\n${lines.join("\n")}` }
  return { seconds }
}

/** The largest packages of an install. */
const packagesOf = (store) =>
  readdirSync(store)
    .map((name) => [name, megabytesOf(join(store, name))])
    .toSorted(([, left], [, right]) => right - left)
    .slice(0, 10)

const served = []
try {
  served.push(...(await Promise.all([serve(), serve()])))
  const megabytes = megabytesOf(join(copy, "node_modules"))
  if (megabytes > largest) {
    const most = packagesOf(join(copy, "node_modules/.pnpm")).map(([name, size]) => `${name} ${size} MB`)
    served.push({ problem: `Serving needs ${megabytes} MB of packages: ${largest} is the limit\n${most.join("\n")}` })
  }
  appendFileSync(join(copy, "pnpm-lock.yaml"), "\n# Another lockfile\n")
  served.push(await serve())
  const times = served.flatMap(({ seconds }) => (seconds === undefined ? [] : [`${seconds.toFixed(1)} s`]))
  process.stdout.write(`${megabytes} MB, ${times.join(", ")}\n`)
} finally {
  for (const { gateway } of running) gateway.kill("SIGTERM")
  for (const { ended } of running) await ended
  rmSync(copy, { recursive: true, force: true, maxRetries: 5 })
}
const problems = served.flatMap(({ problem }) => (problem === undefined ? [] : [problem]))
for (const problem of problems) process.stdout.write(`${problem}\n`)
process.exitCode = problems.length > 0 ? 1 : 0
