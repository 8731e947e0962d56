import type { SessionId } from "@bowline/domain/session/Session"

/** So many failures in a row pause the summaries of a session, for so many milliseconds. */
const limit = 3
const pause = 10 * 60_000

/** Sessions that are remembered; of more the one is forgotten that has failed longest ago. */
const capacity = 1_000

interface Trouble {
  readonly failures: number
  /** Milliseconds since 1970. */
  readonly lastAt: number
}

/** Of which sessions this process could not make a summary lately. It is a saving, and so not kept. */
export class CompactionHealth {
  readonly #troubles = new Map<SessionId, Trouble>()

  isPaused(session: SessionId, now: number): boolean {
    const trouble = this.#troubles.get(session)
    return trouble !== undefined && trouble.failures >= limit && now < trouble.lastAt + pause
  }

  failed(session: SessionId, now: number): void {
    const { failures = 0, lastAt = now } = this.#troubles.get(session) ?? {}
    this.#troubles.delete(session)
    // A pause that is over is a new beginning.
    const isOver = failures >= limit && now >= lastAt + pause
    this.#troubles.set(session, { failures: isOver ? 1 : failures + 1, lastAt: now })
    const [oldest] = this.#troubles.keys()
    if (this.#troubles.size > capacity && oldest !== undefined) this.#troubles.delete(oldest)
  }

  succeeded(session: SessionId): void {
    this.#troubles.delete(session)
  }
}
