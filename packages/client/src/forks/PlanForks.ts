import type { PlanOptions } from "../Bowline.ts"
import { systemClock } from "../Clock.ts"
import type { GivenFork } from "../ForkWire.ts"
import { openStream, type PlanStream } from "../PlanStream.ts"
import { type BowlineOptions, fullJitter, grace, makeRequests, pathOf, randomKey, type System } from "../Requests.ts"

export type { GivenFork } from "../ForkWire.ts"

/** Runs plans again from a step on. */
export interface PlanForks {
  /**
   * Starts a plan that goes on from a step of another one, and reads it, as `plan` of the client does. Without more it is the last step, asked once more: calls get what
   * was recorded, and none is made.
   */
  readonly fork: (planId: string, wanted?: GivenFork, options?: PlanOptions) => PlanStream
}

/**
 * As `createForks`, with another clock.
 *
 * @example
 * ```ts
 * import type { makeForks } from "@bowline/client/forks"
 *
 * // For a clock of a test, or of another runtime: `@bowline/client/effect` is made so.
 * export type System = Parameters<typeof makeForks>[0]
 * ```
 */
export const makeForks = (system: System): PlanForks => {
  const requests = makeRequests(system)
  return {
    fork: (planId, wanted = {}, { idempotencyKey = randomKey(), signal } = {}) => {
      const { preferences = {} } = wanted
      const endsWithCaller = preferences.on_disconnect !== "continue"
      const asked = { ...(endsWithCaller && { on_disconnect: "cancel", disconnect_grace_ms: grace }), ...preferences }
      const headers = { accept: "text/event-stream", "idempotency-key": idempotencyKey }
      const body = { ...wanted, preferences: asked }
      const start = { method: "POST", path: pathOf("plans", planId, "/fork"), headers, body }
      return openStream(requests, { start, endsWithCaller, signal })
    }
  }
}

/**
 * Runs plans of a gateway again from a step on.
 *
 * @example
 * ```ts
 * import { createForks } from "@bowline/client/forks"
 *
 * const { fork } = createForks({ baseUrl: "http://127.0.0.1:3774" })
 *
 * // What another model says to the third step of a plan, with the results that its calls had.
 * export const askAnother = async (planId: string): Promise<string> =>
 *   (await fork(planId, { step: 3, model: "anthropic/claude-opus-4-5" }).result()).text
 * ```
 */
export const createForks = (options: BowlineOptions): PlanForks =>
  makeForks({ options, clock: systemClock, backoff: fullJitter(systemClock) })
