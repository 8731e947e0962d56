import { Cron, DateTime, Result } from "effect"

const hour = 3_600_000

/** The instants at which a clock on the wall shows a time. A time that is skipped has the instant at which the skipped hour ends instead. */
type Instants = { readonly first: number; readonly last: number } | { readonly gapEnd: number }

/** What a cron expression of five fields fires in a time zone. */
export class CronTimes {
  readonly #walls: Cron.Cron
  readonly #zone: DateTime.TimeZone.Named
  readonly #isFixed: boolean

  private constructor(cron: string, walls: Cron.Cron, zone: DateTime.TimeZone.Named) {
    const [minute = "", hours = ""] = cron.trim().split(/\s+/)
    this.#walls = walls
    this.#zone = zone
    this.#isFixed = !/[*/]/.test(minute + hours)
  }

  /** `undefined` where the expression, or the zone, is none. */
  static parse(cron: string, timeZone: string): CronTimes | undefined {
    const walls = Cron.parse(cron, "UTC")
    const zone = DateTime.zoneMakeNamed(timeZone)
    return Result.isSuccess(walls) && zone._tag === "Some" ? new CronTimes(cron, walls.success, zone.value) : undefined
  }

  /**
   * The first time after `after`, both in milliseconds since 1970, or `undefined` if there is none. `Cron` only counts the days and hours of a clock that is never
   * set: near a gap its own times are late by the gap. What a change of the clock does is that of cron(8).
   *
   * - Minute and hour are fixed: what is skipped fires when the gap ends. Of a time that comes twice the first one fires.
   * - One of them has a `*` or a step: what is skipped does not fire, and what comes twice fires twice.
   */
  next(after: number): number | undefined {
    return this.#nearest(after, 1)
  }

  /** The last time before `before`. */
  previous(before: number): number | undefined {
    return this.#nearest(before, -1)
  }

  #nearest(from: number, direction: 1 | -1): number | undefined {
    const [behind = 0, here = 0, ahead = 0] = [-3, 0, 3].map((hours) => this.#offsetAt(from + direction * hours * hour))
    // Within the hour that comes twice the clock has shown more, or shows less again.
    const start = from + (direction === 1 ? Math.min(here, ahead) : Math.max(here, ahead))
    const search = (pick: (at: Instants) => number | undefined): number | undefined => {
      for (let wall = this.#step(start, direction); wall !== undefined; wall = this.#step(wall, direction)) {
        const found = pick(this.#instantsOf(wall))
        if (found !== undefined && (found - from) * direction > 0) return found
      }
      return undefined
    }
    if (this.#isFixed) return search((at) => ("first" in at ? at.first : at.gapEnd))
    const first = () => search((at) => ("first" in at ? at.first : undefined))
    const last = () => search((at) => ("last" in at ? at.last : undefined))
    if (behind === here && here === ahead) return direction === 1 ? first() : last()
    // `from` may lie between the two.
    const both = [first(), last()].filter((found) => found !== undefined)
    return both.toSorted((a, b) => (a - b) * direction)[0]
  }

  #step(wall: number, direction: 1 | -1): number | undefined {
    // It throws where no such day comes in the years that it looks at.
    const found = Result.try(() => (direction === 1 ? Cron.next : Cron.prev)(this.#walls, wall).getTime())
    return Result.isSuccess(found) ? found.success : undefined
  }

  #instantsOf(wall: number): Instants {
    const before = wall - this.#offsetAt(wall - 24 * hour)
    const behind = wall - this.#offsetAt(wall + 24 * hour)
    if (before === behind) return { first: before, last: before }
    const shown = [before, behind].filter((instant) => instant + this.#offsetAt(instant) === wall)
    if (shown.length > 0) return { first: Math.min(...shown), last: Math.max(...shown) }
    // It is skipped: the clock is set forward between the two.
    let [low, high] = [behind, before]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (middle + this.#offsetAt(middle) < wall) low = middle
      else high = middle
    }
    return { gapEnd: high }
  }

  #offsetAt(instant: number): number {
    return DateTime.zonedOffset(DateTime.makeZonedUnsafe(instant, { timeZone: this.#zone }))
  }
}
