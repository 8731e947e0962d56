import { stall } from "@bowline/testing/http/Move"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawnSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { send, start } from "../http/RunningGateway.ts"
import { bowline } from "../plan/GatewayProcess.ts"

const hasTmux = spawnSync("tmux", ["-V"]).status === 0

/** A command in a window of a tmux of its own, which ends with the scope. A server that ends may still answer under its name. */
const inTmux = (command: string) => {
  const socket = `bowline-${randomUUID()}`
  const run = (...args: ReadonlyArray<string>) =>
    spawnSync("tmux", ["-L", socket, "-f", "/dev/null", ...args], { encoding: "utf8" })
  const tmux = (...args: ReadonlyArray<string>) => {
    const { status, stderr, stdout } = run(...args)
    assert.strictEqual(status, 0, stderr)
    return stdout
  }
  return Effect.acquireRelease(
    Effect.sync(() => {
      tmux("new-session", "-d", "-x", "80", "-y", "24", `${command}; echo "exit code $?"; exec cat`)
      const read = Effect.sync(() => tmux("capture-pane", "-p").trimEnd())
      return {
        /** Of the command, if it takes the place of its shell. */
        pid: Number(tmux("list-panes", "-F", "#{pane_pid}")),
        close: Effect.sync(() => tmux("kill-server")),
        type: (key: string) => Effect.sync(() => tmux("send-keys", key)),
        /** What stands there once it has this text. tmux has to be asked again and again. */
        shows: (pattern: RegExp) =>
          Effect.repeat(read, { until: (screen) => pattern.test(screen), schedule: Schedule.spaced("50 millis") })
      }
    }),
    () => Effect.sync(() => run("kill-server"))
  )
}

describe.skipIf(!hasTmux)("bowline under tmux (skipped where there is none)", () => {
  it.live("shows progress in one line, and cancels the plan on Ctrl-C", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[stall]])
      const window = yield* inTmux(`BOWLINE_URL=${url} ${process.execPath} ${bowline} ask What?`)
      yield* window.shows(/^\S \d+s · asking the model · step 1$/m)
      const later = yield* window.shows(/^\S [1-9]\d*s · asking the model · step 1$/m)
      assert.lengthOf(later.match(/asking/g) ?? [], 1)
      yield* window.type("C-c")
      const screen = yield* window.shows(/exit code/)
      assert.match(screen, /\nCancelling the plan\. Ctrl-C quits at once\nCancelled\nexit code 130$/)
      assert.notInclude(screen, "asking")
      const { body } = yield* send(`${url}/plans`)
      assert.include(JSON.stringify(body["plans"]), '"reason":"cancelled"')
    })
  )

  it.live("serve reads its configuration again on SIGHUP, and ends when its terminal is closed", () =>
    Effect.gen(function* () {
      // A log on the terminal would end the process by itself: nobody can write to a terminal that is closed.
      const log = join(yield* folderOf({ log: "" }), "log")
      const settings = "BOWLINE_PORT=0 BOWLINE_DATA_DIR=memory:"
      const { close, pid } = yield* inTmux(`exec env ${settings} ${process.execPath} ${bowline} serve 2> ${log}`)
      const logged = (text: string) =>
        Effect.repeat(
          Effect.sync(() => readFileSync(log, "utf8")),
          { until: (lines) => lines.includes(text), schedule: Schedule.spaced("50 millis") }
        )
      const [, url = ""] = /Listening on ([^"]+)/.exec(yield* logged("Listening on")) ?? []
      const answers = Effect.promise(() => fetch(`${url}/health`).then(Boolean, () => false))
      assert.isTrue(yield* answers)
      assert.isAbove(pid, 1)
      process.kill(pid, "SIGHUP")
      yield* logged("configuration_reread")
      yield* close
      yield* Effect.repeat(answers, { while: (alive) => alive, schedule: Schedule.spaced("50 millis") })
    }).pipe(Effect.scoped)
  )
})
