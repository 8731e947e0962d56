import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

/**
 * Starts the gateway's demo as a process of its own that keeps nothing, on a free port, and resolves when it listens. It has a scripted
 * provider and the preset `demo` with three agents. `program` and `config` are the paths of the gateway and of its configuration file.
 *
 * @example
 * ```ts
 * import { startDemo } from "@bowline/testing/DemoProcess"
 *
 * const gateway = await startDemo(new URL("node_modules/@bowline/gateway/bin/bowline.mjs", `file://${process.cwd()}/`))
 * console.log((await fetch(`${gateway.url}/health`)).status)
 * await gateway.stop()
 * ```
 */
export const startDemo = async (program: URL, config?: URL) => {
  const gateway = spawn(process.execPath, [fileURLToPath(program), "serve"], {
    env: {
      BOWLINE_PORT: "0",
      BOWLINE_DATA_DIR: "memory:",
      ...(config !== undefined && { BOWLINE_CONFIG: fileURLToPath(config) })
    },
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
