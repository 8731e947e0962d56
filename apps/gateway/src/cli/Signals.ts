import { Effect } from "effect"

/** A Ctrl-C under npm comes twice: what comes within this time, in milliseconds, is one. */
const echo = 500

/** Waits for SIGINT or SIGTERM. From then on a second one ends the process at once, as if nobody listened. */
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
