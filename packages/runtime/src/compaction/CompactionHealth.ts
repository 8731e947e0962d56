import type { SessionId } from "@bowline/domain/session/Session"

/** After this many failures in a row a session is not summarised for this many milliseconds. */
const limit = 3
const pause = 10 * 60_000

/** Sessions to remember. Beyond that, the session whose last failure is oldest is forgotten. */
const capacity = 1_000

interface Trouble {
  readonly failures: number
  /** Milliseconds since 1970. */
  readonly lastAt: number
}

/** The sessions whose summaries failed lately in this process. It only saves requests, so it is not stored. */
export class CompactionHealth {
  readonly #troubles = new Map<SessionId, Trouble>()

  isPaused(session: SessionId, now: number): boolean {
    const trouble = this.#troubles.get(session)
    return trouble !== undefined && trouble.failures >= limit && now < trouble.lastAt + pause
  }

  failed(session: SessionId, now: number): void {
    const { failures = 0, lastAt = now } = this.#troubles.get(session) ?? {}
    this.#troubles.delete(session)
    // After a pause the count begins again.
    const isOver = failures >= limit && now >= lastAt + pause
    this.#troubles.set(session, { failures: isOver ? 1 : failures + 1, lastAt: now })
    const [oldest] = this.#troubles.keys()
    if (this.#troubles.size > capacity && oldest !== undefined) this.#troubles.delete(oldest)
  }

  succeeded(session: SessionId): void {
    this.#troubles.delete(session)
  }
}
