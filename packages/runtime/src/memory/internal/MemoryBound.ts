import { sizeOf } from "../../process/MemorySize.ts"

/** What the bound has to know of a session. */
interface Bounded {
  /** What is stored of it. */
  bytes: number
  /** Its plans that are not over. */
  readonly open: ReadonlySet<unknown>
  readonly lease: unknown
  /** How many read events of its plans. */
  readonly readers: number
}

const isIdle = ({ open, lease, readers }: Bounded): boolean => open.size === 0 && lease === undefined && readers === 0

/**
 * Drops the idle sessions that nobody has used for the longest time, while all of them have more than `maxBytes`. The last idle one
 * stays: somebody has just used it.
 */
export class MemoryBound<S extends Bounded> {
  readonly #maxBytes: number
  readonly #drop: (session: S) => void
  /** The least recently used one first. */
  readonly #idle = new Set<S>()
  #bytes = 0

  constructor(maxBytes: number, drop: (session: S) => void) {
    this.#maxBytes = maxBytes
    this.#drop = drop
  }

  /** The session has got something more to keep. */
  grow(session: S, value: unknown): void {
    const size = sizeOf(value)
    session.bytes += size
    this.#bytes += size
  }

  /** Somebody uses the session, or has just stopped to. */
  touch(session: S): void {
    this.#idle.delete(session)
    if (isIdle(session)) this.#idle.add(session)
    for (const oldest of this.#idle) {
      if (this.#bytes <= this.#maxBytes || this.#idle.size === 1) break
      this.#drop(oldest)
    }
  }

  /** The session is gone. */
  remove(session: S): void {
    this.#idle.delete(session)
    this.#bytes -= session.bytes
  }
}
