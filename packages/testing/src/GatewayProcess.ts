import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"

/**
 * The gateway as a process of its own, once it listens, with the lines that it logs. `program` is the path of `bowline`, and `environment` all
 * that it gets of an environment. It is killed with the scope, if it still runs.
 */
export const start = (program: string, environment: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [program, "serve"], {
        env: environment,
        stdio: ["ignore", "ignore", "pipe"]
      })
      const ended = once(child, "close")
      const lines: Array<string> = []
      const listening = Promise.withResolvers<string>()
      createInterface({ input: child.stderr }).on("line", (line) => {
        lines.push(line)
        const url = /Listening on (http:\/\/[^"]+)/.exec(line)?.[1]
        if (url !== undefined) listening.resolve(url)
      })
      void ended.then(() => listening.reject(new Error(`The gateway ended:\n${lines.join("\n")}`)))
      const url = await listening.promise
      const { pid } = child
      if (pid === undefined) throw new Error("The gateway has no process")
      const kill = (signal: NodeJS.Signals) =>
        Effect.promise(async () => {
          child.kill(signal)
          await ended
          return child.exitCode
        })
      const signal = (signal: NodeJS.Signals) => Effect.sync(() => child.kill(signal))
      return { url, pid, ended, kill, signal, lines }
    }),
    ({ kill }) => kill("SIGKILL")
  )
