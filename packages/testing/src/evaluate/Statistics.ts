/** The estimate of a difference, and the interval that has the true one in 95 of 100 evaluations. */
export interface Difference {
  readonly mean: number
  readonly low: number
  readonly high: number
  /** How many cases both have. */
  readonly cases: number
  /** How many such cases tell a difference of this size from none in 80 of 100 evaluations; null where none was seen. */
  readonly needed: number | null
}

export const meanOf = (values: ReadonlyArray<number>): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

/** The value that the share `p` of all is not above, between two of them in proportion (type 7 of Hyndman and Fan). */
export const quantileOf = (values: ReadonlyArray<number>, p: number): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const place = (sorted.length - 1) * p
  const [low = Number.NaN, high = low] = sorted.slice(Math.floor(place), Math.floor(place) + 2)
  return low + (high - low) * (place - Math.floor(place))
}

/** The normal distribution's quantiles of 0.975 and of 0.8: 95 % of it are between −z and z. */
const z = 1.959_963_985
const power = 0.841_621_234

/** The 0.975 quantile of Student's t: exact to three digits (Abramowitz and Stegun, 26.7.5). */
export const quantileOfT = (degrees: number): number => {
  if (degrees <= 2) return degrees < 2 ? 12.706 : 4.303
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    (79 * z ** 9 + 776 * z ** 7 + 1_482 * z ** 5 - 1_920 * z ** 3 - 945 * z) / 92_160
  ]
  return terms.reduce((sum, term, index) => sum + term / degrees ** (index + 1), z)
}

/**
 * The mean of paired differences, one of each case, with its interval. Shares (`bounded`: each difference is between −1 and 1) get two more cases, of which half of one says 1 and
 * half of one says −1 (Agresti and Min 2005, for pairs): else fifty cases without a difference would say for certain that there is none. One case alone has no interval.
 */
export const differenceOf = (differences: ReadonlyArray<number>, bounded: boolean): Difference | undefined => {
  const cases = differences.length
  if (cases === 0 || (cases === 1 && !bounded)) return undefined
  const mean = meanOf(differences)
  const count = cases + (bounded ? 2 : 0)
  const center = differences.reduce((sum, one) => sum + one, 0) / count
  const squares = differences.reduce((sum, one) => sum + one ** 2, bounded ? 1 : 0)
  const variance = Math.max(squares / count - center ** 2, 0) * (bounded ? 1 : count / (count - 1))
  const margin = quantileOfT(Math.max(cases - 1, 1)) * Math.sqrt(variance / count)
  const within = (value: number) => (bounded ? Math.min(Math.max(value, -1), 1) : value)
  return {
    mean,
    low: within(Math.min(center - margin, mean)),
    high: within(Math.max(center + margin, mean)),
    cases,
    needed: mean === 0 ? null : Math.max(Math.ceil(((z + power) ** 2 * variance) / mean ** 2), 2)
  }
}
