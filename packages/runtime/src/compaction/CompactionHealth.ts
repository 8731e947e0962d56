import type { SessionId } from "@bowline/domain/session/Session"
import { LruCache } from "../process/LruCache.ts"

/** After this many failures in a row a session is not summarised for this many milliseconds. */
const limit = 3
const pause = 10 * 60_000

/** Sessions that are remembered. Over that, the one whose last failure is oldest is forgotten. */
const capacity = 1_000

interface Trouble {
  readonly failures: number
  /** Milliseconds of the `Monotonic` clock. */
  readonly lastAt: number
}

/** The sessions whose summaries failed lately in this process. It only saves requests, so it is not stored. */
export class CompactionHealth {
  readonly #troubles = new LruCache<SessionId, Trouble>(capacity)

  isPaused(session: SessionId, now: number): boolean {
    const trouble = this.#troubles.peek(session)
    return trouble !== undefined && trouble.failures >= limit && now < trouble.lastAt + pause
  }

  failed(session: SessionId, now: number): void {
    const { failures = 0, lastAt = now } = this.#troubles.peek(session) ?? {}
    // After a pause the count begins again.
    const isOver = failures >= limit && now >= lastAt + pause
    this.#troubles.set(session, { failures: isOver ? 1 : failures + 1, lastAt: now })
  }

  succeeded(session: SessionId): void {
    this.#troubles.delete(session)
  }
}
