import { Effect } from "effect"
import { type ChildProcess, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { bowline as program } from "../plan/GatewayProcess.ts"
import type { CommandLine, CommandOutput } from "./runCommands.ts"

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

/** Runs a command as a process of its own, and gives what it has printed and how it has ended. */
export const outputOfProcess = (...given: Parameters<typeof bowline>) =>
  Effect.scoped(Effect.flatMap(bowline(...given), ({ ended }) => ended))

interface Host {
  readonly child: ChildProcess
  readonly kill: () => void
  /** What the running command prints. */
  readonly nextOutput: () => Promise<CommandOutput>
  /** When the last command has ended that was given to it. */
  idle: Promise<CommandOutput>
}

/** The process that runs commands until the tests of this worker are over. */
let host: Host | undefined

const startHost = (): Host => {
  const env = { PATH: process.env["PATH"], BOWLINE_TEST_BUNDLE: process.env["BOWLINE_TEST_BUNDLE"] }
  const child = fork(join(import.meta.dirname, "runCommands.ts"), { env, execArgv: [], stdio: "ignore" })
  child.unref()
  child.channel?.unref()
  const forget = () => {
    // The next command gets a new one.
    if (host?.child === child) host = undefined
  }
  const ended = once(child, "close").then(() => {
    forget()
    throw new Error("The process that runs commands has ended")
  })
  ended.catch(() => undefined)
  const nextOutput = async () => {
    const [message] = (await Promise.race([once(child, "message"), ended])) as [CommandOutput]
    return message
  }
  const kill = () => {
    forget()
    child.kill("SIGKILL")
  }
  return { child, kill, nextOutput, idle: nextOutput() }
}

/**
 * What a command prints that reads no stdin and ends by itself. One process of the tests runs such commands one after the other, since most of the time of a process is its start. Commands that get
 * signals, or whose streams break, run as processes of their own, and most commands do so once.
 */
export const outputOf = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>>) =>
  Effect.promise(async (signal) => {
    const { child, idle, kill, nextOutput } = (host ??= startHost())
    const output = idle.then(() => {
      // A command that hangs ends with its test, and not with those behind it.
      signal.addEventListener("abort", kill)
      child.channel?.ref()
      child.send({ args, environment: { PATH: process.env["PATH"] ?? "", ...environment } } satisfies CommandLine)
      return nextOutput()
    })
    host.idle = output
    const printed = await output
    child.channel?.unref()
    return { ...printed, signal: null }
  })
