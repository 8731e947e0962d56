// Starts the gateway in a copy of the checkout in which nothing is installed, as `npm start` does for somebody who has just cloned it. Says how large the
// install is, and ends with 1 if it is too large, or if the gateway does not answer.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { copyCheckout, environment, megabytesOf } from "./setup.mjs"

/** Megabytes of node_modules, as `du -m` counts them. */
const largest = 200

const copy = mkdtempSync(join(tmpdir(), "bowline-serving-"))
copyCheckout(copy)
const since = performance.now()
const settings = { NODE_ENV: "", BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", LOG_FORMAT: "json" }
const providers = Object.keys(process.env).filter((name) =>
  /^(OPENAI|ANTHROPIC|OPENROUTER|BOWLINE)_|^DATABASE_URL$/.test(name)
)
const env = { ...environment(), ...settings }
for (const name of providers) if (!(name in settings)) delete env[name]
const gateway = spawn(process.execPath, [join(copy, ".ci/start.mjs")], {
  cwd: copy,
  env,
  stdio: ["ignore", "ignore", "pipe"]
})
const ended = once(gateway, "close")
const lines = []
const problems = []
try {
  let url
  for await (const line of createInterface({ input: gateway.stderr })) {
    lines.push(line)
    url = /Listening on (http:[^\s"]+)/.exec(line)?.[1]
    if (url !== undefined) break
  }
  if (url === undefined) problems.push(`The gateway has not listened:\n${lines.join("\n")}`)
  else {
    const seconds = ((performance.now() - since) / 1000).toFixed(1)
    gateway.stderr.resume()
    const body = JSON.stringify({ question: "Ask prompt what a bowline is.", preset: "demo" })
    const headers = { "content-type": "application/json", accept: "application/json" }
    const answer = await (await fetch(`${url}/plan`, { method: "POST", headers, body })).text()
    if (!answer.includes("given at once")) problems.push(`The demo has answered ${answer}`)
    const page = await fetch(`${url}/`, { headers: { accept: "text/html" } })
    if (!(await page.text()).includes("<script")) problems.push(`There is no console:\n${lines.join("\n")}`)
    const megabytes = megabytesOf(join(copy, "node_modules"))
    process.stdout.write(`${megabytes} MB, ${seconds} s\n`)
    if (megabytes > largest) problems.push(`Serving needs ${megabytes} MB of packages: ${largest} is the limit`)
  }
} finally {
  gateway.kill("SIGTERM")
  await ended
  rmSync(copy, { recursive: true, force: true, maxRetries: 5 })
}
for (const problem of problems) process.stdout.write(`${problem}\n`)
process.exitCode = problems.length > 0 ? 1 : 0
