/** One line of the story of a run. `at` is in milliseconds of virtual time since the run began. */
export interface TraceLine {
  readonly at: number
  /** Who it happened to: a replica such as `a.1`, or `world`. */
  readonly where: string
  /** The name of a plan; empty where it is about none. */
  readonly plan: string
  readonly what: string
}

const time = (at: number): string => `${Math.floor(at / 1_000)}.${String(Math.floor(at % 1_000)).padStart(3, "0")}`

/** A line as it is printed: seconds, who, which plan, what. */
export const print = ({ at, plan, what, where }: TraceLine): string =>
  `${time(at).padStart(9)} ${where.padEnd(6)} ${plan.padEnd(5)} ${what}`
