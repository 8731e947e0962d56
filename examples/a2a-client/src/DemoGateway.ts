import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const program = join(import.meta.dirname, "../../../apps/gateway/bin/bowline.mjs")

/** Starts a gateway of its own process that may notify clients. Without a provider it has a scripted one, and three agents. */
export const startGateway = async () => {
  const folder = mkdtempSync(join(tmpdir(), "bowline-a2a-client-"))
  const config = join(folder, "gateway.json")
  writeFileSync(config, JSON.stringify({ a2a: { push_notifications: true } }))
  const gateway = spawn(process.execPath, [program, "serve"], {
    env: { BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", BOWLINE_CONFIG: config },
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
      rmSync(folder, { recursive: true })
    }
    return { url, stop }
  }
  throw new Error("The gateway has ended before it listened")
}
