import { stall } from "@bowline/testing/http/Move"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { send, start } from "../http/RunningGateway.ts"

const main = join(import.meta.dirname, "../../bin/bowline.mjs")

const hasTmux = spawnSync("tmux", ["-V"]).status === 0

/** A command in a window of a tmux of its own, which ends with the scope. */
const inTmux = (command: string) => {
  const socket = `bowline-${process.pid}`
  const tmux = (...args: ReadonlyArray<string>) =>
    spawnSync("tmux", ["-L", socket, "-f", "/dev/null", ...args], { encoding: "utf8" }).stdout
  return Effect.acquireRelease(
    Effect.sync(() => {
      tmux("new-session", "-d", "-x", "80", "-y", "24", `${command}; echo "exit code $?"; exec cat`)
      const read = Effect.sync(() => tmux("capture-pane", "-p").trimEnd())
      return {
        type: (key: string) => Effect.sync(() => tmux("send-keys", key)),
        /** What stands there once it has this text. tmux has to be asked again and again. */
        shows: (pattern: RegExp) =>
          Effect.repeat(read, { until: (screen) => pattern.test(screen), schedule: Schedule.spaced("50 millis") })
      }
    }),
    () => Effect.sync(() => tmux("kill-server"))
  )
}

describe.skipIf(!hasTmux)("bowline under tmux (skipped where there is none)", () => {
  it.live("shows progress in one line, and cancels the plan on Ctrl-C", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[stall]])
      const window = yield* inTmux(`BOWLINE_URL=${url} ${process.execPath} ${main} ask What?`)
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
})
