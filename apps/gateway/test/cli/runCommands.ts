import { join } from "node:path"
import { pathToFileURL } from "node:url"

/** A command line, and the variables of its process. */
export interface CommandLine {
  readonly args: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
}

/** What its process would have printed, and its exit code. */
export interface CommandOutput {
  readonly stdout: string
  readonly stderr: string
  readonly code: number
}

// The commands of the sources, or of the bundle, as a process of `bin/bowline.mjs` loads them.
const bundle = process.env["BOWLINE_TEST_BUNDLE"]
const path = bundle === undefined ? join(import.meta.dirname, "../../src/cli/Cli.ts") : join(bundle, "../Cli.mjs")
const { run } = (await import(pathToFileURL(path).href)) as { readonly run: () => void }

const signals = ["SIGINT", "SIGTERM"] as const

// Runs one command after the other, each as if the process were its own, until the parent is gone.
process.on("message", ({ args, environment }: CommandLine) => {
  process.argv.splice(2, Infinity, ...args)
  // The same object, changed: with another one in its place Node.js would not notice a new `TZ`.
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, environment)
  process.exitCode = undefined
  const printed = { stdout: [] as Array<Uint8Array>, stderr: [] as Array<Uint8Array> }
  for (const name of ["stdout", "stderr"] as const) {
    const write = (chunk: string | Uint8Array, done?: () => void) => {
      printed[name].push(Buffer.from(chunk))
      done?.()
      return true
    }
    Object.assign(process[name], { write })
  }
  let isOver = false
  const exit = (code = process.exitCode ?? 0) => {
    if (isOver) return
    isOver = true
    for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners("error")
    for (const signal of signals) process.removeAllListeners(signal)
    const [stdout, stderr] = [printed.stdout, printed.stderr].map((chunks) => Buffer.concat(chunks).toString())
    process.send?.({ stdout, stderr, code })
  }
  Object.assign(process, { exit })
  run()
})
process.once("disconnect", () => process.kill(process.pid, "SIGKILL"))
process.send?.({ stdout: "", stderr: "", code: 0 } satisfies CommandOutput)
