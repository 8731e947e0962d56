import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { Effect } from "effect"

/** What one message costs, in milliseconds, and how much of it may come at once. */
const cost = 1
const burst = 1_000

/**
 * Takes in how many messages a server has sent, and waits while it sends more than 1,000 a second: a server that never stops would leave the
 * process no time for others.
 */
export const make = (): ((messages: number) => Effect.Effect<void>) => {
  let paidUntil = -Infinity
  return (messages) =>
    Effect.flatMap(Monotonic.now, (now) => {
      paidUntil = Math.max(paidUntil, now - burst) + messages * cost
      return paidUntil <= now ? Effect.void : Effect.sleep(paidUntil - now)
    })
}
