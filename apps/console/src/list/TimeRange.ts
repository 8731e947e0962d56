/** How far back somebody looks, up to now: the range moves on with the clock. */
export const spans = [
  { name: "15m", label: "15 min", ms: 900_000 },
  { name: "1h", label: "1 h", ms: 3_600_000 },
  { name: "24h", label: "24 h", ms: 86_400_000 },
  { name: "7d", label: "7 d", ms: 604_800_000 }
] as const

export type SpanName = (typeof spans)[number]["name"]

/** The name of a span; the one to fall back to where it is none. */
export const spanOf = <A>(name: string | null, fallback: A): SpanName | A =>
  spans.find((span) => span.name === name)?.name ?? fallback

/** The instant at which a span began that ends at this time, in epoch milliseconds. */
export const beginOf = (name: SpanName, end: number): string => {
  const { ms } = spans.find((span) => span.name === name) ?? spans[2]
  return new Date(end - ms).toISOString()
}

/** An instant as a URL has it; undefined if it is none. Without a zone it is one of the reader's own clock. */
export const instantOf = (text: string | null): string | undefined => {
  const time = new Date(text ?? "")
  return text === null || Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}

const two = (value: number): string => String(value).padStart(2, "0")

/** The same for a field that somebody types into: the reader's own clock, to the second where it is not a whole minute. */
export const fieldOf = (instant: string): string => {
  const time = new Date(instant)
  if (Number.isNaN(time.getTime())) return ""
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`
  const minute = `${day}T${two(time.getHours())}:${two(time.getMinutes())}`
  return time.getTime() % 60_000 === 0
    ? minute
    : `${minute}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`
}

/** An instant on the axis of a range: its time, or its day where the range is longer than two days. */
export const axisTime = (at: number, length: number): string =>
  length > 172_800_000
    ? new Date(at).toLocaleDateString([], { weekday: "short", day: "numeric" })
    : new Date(at).toLocaleTimeString([], {
        hour: "2-digit",
        minute: "2-digit",
        ...(length <= 900_000 && { second: "2-digit" })
      })
