import { spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout } from "node:timers/promises"
import { fileURLToPath } from "node:url"

/** A server in a process of its own, which ends with the block that started it. */
export interface Child extends AsyncDisposable {
  readonly url: string
  readonly pid: number
}

export const root = join(import.meta.dirname, "..", "..", "..", "..")

type Environment = { readonly [name: string]: string }

const launch = (script: string, args: ReadonlyArray<string>, env: Environment) => {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(BOWLINE|OPENAI|DATABASE)_/.test(name))
  const child = spawn(process.execPath, [script, ...args], {
    cwd: root,
    env: { ...Object.fromEntries(inherited), ...env }
  })
  const errors: Array<string> = []
  createInterface({ input: child.stderr }).on("line", (line) => {
    if (errors.push(line) > 10) errors.shift()
  })
  const ended = once(child, "close")
  const stop = async () => {
    child.stdin.end()
    child.kill("SIGTERM")
    const killed = setTimeout(5_000).then(() => child.kill("SIGKILL"))
    await Promise.race([ended, killed])
    await ended
  }
  const failed = ended.then(() => {
    throw new Error(`${script} ended:\n${errors.join("\n")}`)
  })
  failed.catch(() => {})
  return { child, stop, failed }
}

/** Starts a program that prints the URL of its server as its first line. */
export const start = async (script: URL | string, args: ReadonlyArray<string> = []): Promise<Child> => {
  const { child, stop, failed } = launch(script instanceof URL ? fileURLToPath(script) : script, args, {})
  const lines = once(createInterface({ input: child.stdout }), "line")
  const [url] = (await Promise.race([lines, failed])) as [string]
  return { url, pid: child.pid ?? 0, [Symbol.asyncDispose]: stop }
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  return typeof address === "object" && address !== null ? address.port : 0
}

/** Starts a gateway, and waits until it is ready. */
export const startGateway = async (env: Environment): Promise<Child> => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const { child, stop, failed } = launch("apps/gateway/bin/bowline.mjs", ["serve"], {
    ...env,
    BOWLINE_PORT: String(port)
  })
  child.stdout.resume()
  const isReady = () =>
    fetch(`${url}/ready`).then(
      ({ ok }) => ok,
      () => false
    )
  const untilReady = async () => {
    while (!(await isReady())) await setTimeout(50)
  }
  await Promise.race([untilReady(), failed])
  return { url, pid: child.pid ?? 0, [Symbol.asyncDispose]: stop }
}
