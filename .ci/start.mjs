import { spawn } from "node:child_process"
import { constants } from "node:os"
import { buildConsole, buildDocs } from "./pages.mjs"
import { bin, environment, root, setup } from "./setup.mjs"

// An exit gives the lock of the set-up back; a process that a signal ends does not.
let stop = (signal) => process.exit(128 + constants.signals[signal])
// A Ctrl-C reaches this process twice, from the terminal and from npm: the gateway takes a second signal as impatience.
const lastSeen = new Map()
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    const now = performance.now()
    if (now - (lastSeen.get(signal) ?? -Infinity) > 500) stop(signal)
    lastSeen.set(signal, now)
  })
}

await setup("serve")
const problem = await buildConsole()
// The API works without its page.
if (problem !== undefined) process.stderr.write(`${problem}\n\nThe console could not be built.\n`)

const args = ["apps/gateway/bin/bowline.mjs", "serve", ...process.argv.slice(2)]
const gateway = spawn(bin("node"), args, { cwd: root, env: environment(), stdio: "inherit" })
stop = (signal) => gateway.kill(signal)

// The documentation follows: the gateway looks for it when somebody asks.
const ended = new AbortController()
const document = async () => {
  const problem = await buildDocs({ isBeside: true, signal: ended.signal })
  if (problem === undefined || ended.signal.aborted) return
  process.stderr.write(`${problem}\n\nThe documentation could not be built.\n`)
}
void document()

gateway.once("error", (error) => {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
})
gateway.once("close", (code, signal) => {
  ended.abort()
  process.exitCode = signal === null ? (code ?? 1) : 128 + constants.signals[signal]
})
