import { Duration } from "effect"
import { fail, ok, warn } from "./Finding.ts"

const advice = "Synchronise the clock of this machine, or of the other one, by NTP"

/** Compares clocks: tokens and signatures are refused by minutes, and times in logs do not fit by seconds. */
export const skew = (whose: string, aheadMs: number) => {
  const apart = Math.abs(aheadMs)
  const detail = `${whose} is ${Duration.format(Duration.seconds(Math.round(apart / 1_000)))} ${aheadMs < 0 ? "behind" : "ahead"}`
  const finding =
    apart >= 300_000 ? fail(detail, advice) : apart >= 10_000 ? warn(detail, advice) : ok(`${whose} agrees`)
  return { check: "clock", ...finding }
}
