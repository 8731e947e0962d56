import xterm from "@xterm/headless"
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { bowline } from "../plan/GatewayProcess.ts"

/** Debian, and most other distributions, have it. What macOS calls `script` is another program. */
export const hasPty = spawnSync("script", ["--version"], { encoding: "utf8" }).stdout?.includes("util-linux") ?? false

const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

/**
 * Runs the command line on a terminal of so many columns: `script` has the terminal, and an emulator shows what a person would see.
 * `redirect` is for the shell, and `after` what it does behind the command. It is killed with the scope.
 */
export const onPty = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>,
  {
    after = "",
    columns = 80,
    redirect = ""
  }: { readonly after?: string; readonly columns?: number; readonly redirect?: string } = {}
) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const screen = new xterm.Terminal({ cols: columns, rows: 40, scrollback: 1_000, allowProposedApi: true })
      const words = [process.execPath, bowline, ...args].map(quote).join(" ")
      const run = after === "" ? `exec ${words} ${redirect}` : `${words} ${redirect}; ${after}`
      const command = `stty rows 40 cols ${columns}; ${run}`
      const child = spawn("script", ["-qefc", command, "/dev/null"], {
        env: { PATH: process.env["PATH"], TERM: "xterm-256color", ...environment },
        stdio: "pipe",
        // A session of its own: the whole group is killed with the scope.
        detached: true
      })
      child.stdin.on("error", () => undefined)
      const output = { text: "" }
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => (output.text += chunk))
      child.stdout.on("data", (chunk: string) => screen.write(chunk))
      let isClosed = false
      const closed = once(child, "close").then(() => (isClosed = true))

      /** What stands on the terminal, with the lines whole that it has wrapped. */
      const read = Effect.promise(async () => {
        await new Promise<void>((resolve) => screen.write("", resolve))
        const lines: Array<string> = []
        for (let index = 0; index < screen.buffer.active.length; index++) {
          const line = screen.buffer.active.getLine(index)
          const text = line?.translateToString(true) ?? ""
          if (line?.isWrapped) lines.push(`${lines.pop() ?? ""}${text}`)
          else lines.push(text)
        }
        while (lines.at(-1) === "") lines.pop()
        return lines
      })
      return {
        output,
        read,
        type: (text: string) => Effect.sync(() => child.stdin.write(text)),
        /** Waits until something like this stands on the terminal: all that stands there then. */
        shows: (pattern: RegExp) =>
          Effect.gen(function* () {
            for (;;) {
              const wasClosed = isClosed
              // More may come while it is read.
              const more = Promise.race([once(child.stdout, "data"), closed])
              const lines = yield* read
              if (pattern.test(lines.join("\n"))) return lines
              if (wasClosed) return yield* Effect.die(new Error(`Ended:\n${lines.join("\n")}`))
              yield* Effect.promise(() => more)
            }
          }),
        /** Also how many lines the terminal has wrapped. */
        ended: Effect.gen(function* () {
          yield* Effect.promise(() => closed)
          const lines = yield* read
          const { active } = screen.buffer
          const wraps = Array.from({ length: active.length }, (_, index) => active.getLine(index)?.isWrapped)
          return { code: child.exitCode, lines, wraps: wraps.filter((isWrapped) => isWrapped).length }
        }),
        child
      }
    }),
    ({ child }) =>
      Effect.sync(() => {
        if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
      })
  )

/** Ctrl-C, as a keyboard sends it. */
export const interrupt = "\u0003"
