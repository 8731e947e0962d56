import { Effect } from "effect"

/** Under npm a Ctrl-C arrives twice. Two signals within this time, in milliseconds, count as one. */
const echo = 500

/** Waits for SIGINT or SIGTERM. A second signal then ends the process at once. */
export const first = Effect.callback<void>((resume) => {
  const signals = ["SIGINT", "SIGTERM"] as const
  let since: number | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    const now = performance.now()
    if (since === undefined) {
      since = now
      resume(Effect.void)
    } else if (now - since > echo) {
      for (const name of signals) process.off(name, onSignal)
      process.kill(process.pid, signal)
    }
  }
  for (const name of signals) process.on(name, onSignal)
})
