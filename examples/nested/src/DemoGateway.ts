import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"

const program = join(import.meta.dirname, "../../../apps/gateway/bin/bowline.mjs")

/** Starts a gateway of its own process, without a provider: then it has a scripted one, and three agents. */
export const startGateway = async () => {
  const gateway = spawn(process.execPath, [program, "serve"], {
    env: { BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:" },
    stdio: ["ignore", "ignore", "pipe"]
  })
  const ended = once(gateway, "close")
  for await (const line of createInterface({ input: gateway.stderr })) {
    const url = /Listening on (http:\/\/[^\s"]+)/.exec(line)?.[1]
    if (url === undefined) continue
    gateway.stderr.resume()
    const stop = async () => {
      gateway.kill()
      await ended
    }
    return { url, stop }
  }
  throw new Error("The gateway has ended before it listened")
}
