import { Effect } from "effect"
import { type ChildProcess, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { bowline as program } from "../plan/GatewayProcess.ts"
import type { Asked, Told } from "./runCommands.ts"

/** Runs the command line as a process of its own, killed with the scope if it still runs. */
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

/** What it has told, and how it has ended. */
export const toldByProcess = (...given: Parameters<typeof bowline>) =>
  Effect.scoped(Effect.flatMap(bowline(...given), ({ ended }) => ended))

/** The process that runs commands. `idle` is there when it has run the last one. */
let host: { readonly child: ChildProcess; readonly told: () => Promise<Told>; idle: Promise<Told> } | undefined

const startHost = () => {
  const env = { PATH: process.env["PATH"], BOWLINE_TEST_BUNDLE: process.env["BOWLINE_TEST_BUNDLE"] }
  const child = fork(join(import.meta.dirname, "runCommands.ts"), { env, execArgv: [], stdio: "ignore" })
  child.unref()
  child.channel?.unref()
  const ended = once(child, "close").then(() => Promise.reject(new Error("The process that runs commands has ended")))
  ended.catch(() => undefined)
  const told = async () => {
    const [message] = (await Promise.race([once(child, "message"), ended])) as [Told]
    return message
  }
  return { child, told, idle: told() }
}

/**
 * What a command has told that reads no stdin and needs nobody else to end: a process of the tests runs them one behind the other, since most of what a process of its own
 * takes is its start. Once each command is a process of its own, as are those that meet signals, or streams that break.
 */
export const told = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>>) =>
  Effect.promise(async () => {
    const { child, idle, told } = (host ??= startHost())
    host.idle = idle.then(() => {
      child.channel?.ref()
      child.send({ args, environment: { PATH: process.env["PATH"] ?? "", ...environment } } satisfies Asked)
      return told()
    })
    const answer = await host.idle
    child.channel?.unref()
    return { ...answer, signal: null }
  })
