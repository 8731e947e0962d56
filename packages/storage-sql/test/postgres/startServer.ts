import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"

/** A Postgres of its own, for whoever starts it. */
export interface Server {
  /** A superuser's. */
  readonly url: string
  /** Ends the server as a crash does, with nothing written that is not on its disk, and waits until it runs again. */
  readonly crash: () => Promise<void>
  readonly stop: () => Promise<void>
}

export const startServer = async (): Promise<Server> => {
  const keeper = spawn(process.execPath, [join(import.meta.dirname, "keepServer.ts")], {
    // A session of its own: it must outlive a Ctrl-C, to clean up when this process is gone.
    detached: true,
    stdio: ["pipe", "pipe", "inherit"]
  })
  const ended = once(keeper, "close")
  const lines = createInterface({ input: keeper.stdout })
  const nextUrl = async () => {
    const url = await Promise.race([once(lines, "line").then(([line]) => String(line)), ended.then(() => undefined)])
    if (url === undefined) throw new Error("No Postgres for the tests: the reason is printed above")
    return url
  }
  return {
    url: await nextUrl(),
    crash: async () => {
      keeper.stdin.write("crash\n")
      await nextUrl()
    },
    stop: async () => {
      keeper.stdin.end()
      await ended
    }
  }
}
