import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { bowline as program } from "../plan/GatewayProcess.ts"

/** Runs the command line, killed with the scope if it still runs. */
export const bowline = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>,
  {
    main = program,
    nodeArgs = [],
    stdin = "",
    under = []
  }: {
    readonly main?: string
    readonly nodeArgs?: ReadonlyArray<string>
    readonly stdin?: string
    /** A command that runs it. */
    readonly under?: ReadonlyArray<string>
  } = {}
) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const [command = "", ...rest] = [...under, process.execPath, ...nodeArgs, main, ...args]
      const child = spawn(command, rest, {
        env: { PATH: process.env["PATH"], ...environment },
        stdio: "pipe"
      })
      // Most commands do not read it.
      child.stdin.on("error", () => undefined).end(stdin)
      const output = { stdout: "", stderr: "" }
      for (const name of ["stdout", "stderr"] as const) {
        child[name].setEncoding("utf8").on("data", (chunk: string) => (output[name] += chunk))
      }
      const closed = once(child, "close")
      const ended = Effect.promise(async () => {
        await closed
        return { ...output, code: child.exitCode, signal: child.signalCode }
      })
      return { child, ended, output }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )
