import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { cores } from "./Cores.ts"

/** A server in a process of its own, which ends with the block that started it. */
export interface Child extends AsyncDisposable {
  readonly url: string
  readonly usage: () => Promise<Usage>
  /** Only of a gateway. It stops the process for some 100 ms. */
  readonly census: () => Promise<Census>
}

/** What a process has used so far. */
export interface Usage {
  /** CPU time of all its threads, user and system, in milliseconds. */
  readonly cpu: number
  /** Memory that it has resident, in KiB. */
  readonly resident: number
}

/** What lives in a process once its garbage is collected. Memory is in KiB. */
export interface Census {
  readonly resident: number
  readonly heap: number
  readonly fibers: number
  /** Open files: sockets are most of them. */
  readonly files: number
}

export const root = join(import.meta.dirname, "..", "..", "..", "..")

type Environment = { readonly [name: string]: string }

interface Placement {
  readonly core: number | string | undefined
  readonly cwd?: string
  readonly env?: Environment
}

const usageModule = new URL("./usage.mjs", import.meta.url).href

const usageOf = (child: ChildProcess) => async (): Promise<Usage> => {
  const answer = once(child, "message")
  child.send("usage")
  const [{ cpu, resident }] = (await answer) as [{ readonly cpu: NodeJS.CpuUsage; readonly resident: number }]
  return { cpu: (cpu.user + cpu.system) / 1_000, resident: resident / 1_024 }
}

const censusOf = (child: ChildProcess) => async (): Promise<Census> => {
  const answer = once(child, "message")
  child.send("census")
  const [census] = (await answer) as [Census]
  return { ...census, resident: census.resident / 1_024, heap: census.heap / 1_024 }
}

const launch = (script: string, args: ReadonlyArray<string>, { core, cwd = root, env = {} }: Placement) => {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(BOWLINE|OPENAI|DATABASE)_/.test(name))
  const pinned = core === undefined ? [] : ["taskset", "--cpu-list", String(core)]
  const [command = "", ...rest] = [...pinned, process.execPath, "--import", usageModule, script, ...args]
  const child = spawn(command, rest, {
    cwd,
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ["pipe", "pipe", "pipe", "ipc"]
  })
  const { stdin, stdout, stderr } = child
  if (stdin === null || stdout === null || stderr === null) throw new Error(`${script} has no pipes`)
  const errors: Array<string> = []
  createInterface({ input: stderr }).on("line", (line) => {
    if (errors.push(line) > 10) errors.shift()
  })
  const ended = once(child, "close")
  let isStopping = false
  const stop = async () => {
    isStopping = true
    stdin.end()
    child.kill("SIGTERM")
    const killed = setTimeout(5_000).then(() => child.kill("SIGKILL"))
    await Promise.race([ended, killed])
    await ended
  }
  const failed = ended.then(() => {
    const error = new Error(`${script} ended:\n${errors.join("\n")}`)
    // Who measures it only sees connections that break.
    if (!isStopping) process.stderr.write(`${error.message}\n`)
    throw error
  })
  failed.catch(() => {})
  return { running: { usage: usageOf(child), census: censusOf(child), [Symbol.asyncDispose]: stop }, stdout, failed }
}

/** Starts a program that prints the URL of its server as its first line; on this core, if one is given. */
export const start = async (script: URL | string, args: ReadonlyArray<string> = [], core?: number): Promise<Child> => {
  const path = script instanceof URL ? fileURLToPath(script) : script
  const { running, stdout, failed } = launch(path, args, { core })
  const lines = once(createInterface({ input: stdout }), "line")
  const [url] = (await Promise.race([lines, failed])) as [string]
  return { url, ...running }
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  return typeof address === "object" && address !== null ? address.port : 0
}

/** Starts the gateway of a checkout on the core of what is measured, or on others, and waits until it is ready. */
export const startGateway = async (
  env: Environment,
  checkout = root,
  core: Placement["core"] = cores.measured
): Promise<Child> => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const { running, stdout, failed } = launch("apps/gateway/bin/bowline.mjs", ["serve"], {
    core,
    cwd: checkout,
    env: { ...env, BOWLINE_PORT: String(port) }
  })
  stdout.resume()
  const isReady = () =>
    // Bounded: another process may have taken the port, and not answer.
    fetch(`${url}/ready`, { signal: AbortSignal.timeout(1_000) }).then(
      ({ ok }) => ok,
      () => false
    )
  const untilReady = async () => {
    while (!(await isReady())) await setTimeout(10)
  }
  await Promise.race([untilReady(), failed])
  return { url, ...running }
}
