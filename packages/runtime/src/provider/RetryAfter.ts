import { DateTime, Option } from "effect"

type Headers = Readonly<Record<string, string | undefined>>

const weekday = /^(Mon|Tues?|Wed(nes)?|Thu(rs)?|Fri|Sat(ur)?|Sun)(day)?,? .*\d\d:\d\d:\d\d/
const timestamp = /^\d{4}-\d\d-\d\dT/
const duration = /^(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s)?(?:([\d.]+)ms)?$/

const numeral = (text: string): number | undefined => (/^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined)

/** No server is believed that asks for more, in milliseconds: whatever it counts, somebody may end it before. */
export const longest = 24 * 60 * 60_000

/** A wait that is past or unreadable counts as absent: it would make a hot loop. */
const positive = (millis: number | undefined): number | undefined =>
  millis !== undefined && millis > 0 ? Math.min(Math.ceil(millis), longest) : undefined

const until = (date: string, now: number): number | undefined =>
  Option.getOrUndefined(Option.map(DateTime.make(date), (at) => DateTime.toEpochMillis(at) - now))

/** An HTTP date in any of the forms of RFC 9110; asctime's has no zone, and is in GMT. */
const untilHttpDate = (text: string, now: number): number | undefined =>
  weekday.test(text) ? until(text.endsWith("GMT") ? text : `${text} GMT`, now) : undefined

/** Seconds, a moment in seconds or milliseconds, a timestamp, or a duration such as `6m0s`: each server has its own. */
const fromReset = (text: string, now: number): number | undefined => {
  const number = numeral(text)
  if (number !== undefined) return number > 1e12 ? number - now : number > 1e9 ? number * 1_000 - now : number * 1_000
  if (timestamp.test(text)) return until(text, now)
  const parts = duration.exec(text)
  if (parts === null || text === "") return undefined
  const [hours, minutes, seconds, millis] = parts.slice(1).map((part: string | undefined) => Number(part ?? 0))
  return (hours ?? 0) * 3_600_000 + (minutes ?? 0) * 60_000 + (seconds ?? 0) * 1_000 + (millis ?? 0)
}

/** The wait that the server asks for, in milliseconds. `now` is in milliseconds since 1970. */
export const retryAfter = (headers: Headers, now: number): number | undefined => {
  const millis = positive(numeral(headers["retry-after-ms"]?.trim() ?? ""))
  if (millis !== undefined) return millis
  const text = headers["retry-after"]?.trim() ?? ""
  const seconds = numeral(text)
  return positive(seconds === undefined ? untilHttpDate(text, now) : seconds * 1_000)
}

/** The wait until the last of the used-up limits is reset. A limit that does not say what remains of it counts as used up. */
export const rateLimitReset = (headers: Headers, now: number): number | undefined => {
  const resets = Object.entries(headers).flatMap(([name, text]) => {
    if (!name.startsWith("x-ratelimit-reset") || text === undefined) return []
    const remaining = numeral(headers[name.replace("reset", "remaining")] ?? "")
    const reset = remaining === undefined || remaining === 0 ? positive(fromReset(text.trim(), now)) : undefined
    return reset === undefined ? [] : [reset]
  })
  return resets.length === 0 ? undefined : Math.max(...resets)
}
