import { Duration } from "effect"

const usual = Duration.minutes(5)
const longest = Duration.days(1)

/** For how long a card is good without asking again, by its `Cache-Control` (RFC 9111): a day at most, 5 minutes if it does not say. */
export const maxAgeOf = (cacheControl: string | undefined): Duration.Duration => {
  const directives = (cacheControl ?? "").toLowerCase().split(/\s*,\s*/)
  if (directives.some((directive) => /^\s*(no-store|no-cache)\b/.test(directive))) return Duration.zero
  const seconds = directives.map((directive) => /^\s*max-age="?(\d+)"?\s*$/.exec(directive)?.[1]).find(Boolean)
  return seconds === undefined ? usual : Duration.min(Duration.seconds(Number(seconds)), longest)
}
