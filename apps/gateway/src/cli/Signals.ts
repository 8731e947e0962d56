import { Effect } from "effect"
import { closeSync, openSync } from "node:fs"
import { constants } from "node:os"

/** Under npm a Ctrl-C arrives twice. Two signals within this time, in milliseconds, count as one. */
const echo = 500

/** Lets a signal end the process at once. The first process of a container ignores one that has no listener, and exits by itself. */
const endBy = (signal: NodeJS.Signals): void => {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
  process.exit(128 + constants.signals[signal])
}

/** Waits for SIGINT or SIGTERM. A second signal then ends the process at once. */
export const first = Effect.callback<void>((resume) => {
  const signals = ["SIGINT", "SIGTERM"] as const
  let since: number | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    const now = performance.now()
    if (since === undefined) {
      since = now
      resume(Effect.void)
    } else if (now - since > echo) endBy(signal)
  }
  for (const name of signals) process.on(name, onSignal)
})

const hasTerminal = (): boolean => {
  try {
    closeSync(openSync("/dev/tty", "r"))
    return true
  } catch {
    return false
  }
}

/** From now on a SIGHUP ends the process only if the process had a terminal that is gone. Each of them would, without a listener. */
export const outliveHangUps: Effect.Effect<void> = Effect.sync(() => {
  const hadTerminal = hasTerminal()
  process.on("SIGHUP", (signal) => {
    if (hadTerminal && !hasTerminal()) endBy(signal)
  })
})
