/** A length of time in words an operator reads at a glance: `340 ms`, `4.2 s`, `3 min 12 s`, `1 h 5 min`. */
export const duration = (ms: number): string => {
  const length = Math.max(0, ms)
  if (length < 1_000) return `${Math.round(length)} ms`
  if (length < 59_950) return `${(length / 1_000).toFixed(1)} s`
  const seconds = Math.round(length / 1_000)
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 2_880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.round(minutes / 1_440)} days`
}

/** A length of time within a sentence: nothing that is 0 behind a whole number. */
export const span = (ms: number): string => duration(ms).replace(/(?<=\d)\.0(?= s$)|(?<= min) 0 s$|(?<= h) 0 min$/, "")

/** A running clock: whole seconds, so that its text changes once a second. */
export const elapsed = (ms: number): string =>
  ms < 1_000 ? "0 s" : duration(Math.floor(ms / 1_000) * 1_000).replace(".0 s", " s")

/** An instant as seen from now: `just now`, `12 s ago`, `in 3 min`. */
export const relative = (at: number, now: number): string => {
  const distance = Math.abs(at - now)
  if (distance < 1_000) return "just now"
  const units = [
    [86_400_000, "days"],
    [3_600_000, "h"],
    [60_000, "min"],
    [1_000, "s"]
  ] as const
  const [size, unit] = units.find(([size]) => distance >= size) ?? [1_000, "s"]
  const words = `${Math.floor(distance / size)} ${unit}`
  return at > now ? `in ${words}` : `${words} ago`
}

/** What nobody knows. It is never shown as 0. */
export const unknown = "–"

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 20 })

/** A number with its thousands apart. */
export const count = (value: number): string => grouped.format(value)

/** `1 step`, `2 steps`. */
export const counted = (value: number, noun: string, nouns = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : nouns}`

/** US dollars with as many digits as a small price needs, or that nobody knows it. */
export const cost = (usd: number | null): string => {
  if (usd === null) return "price unknown"
  if (usd === 0 || usd >= 1) return `$${usd.toFixed(2)}`
  return usd < 0.000_001 ? "under $0.000001" : `$${usd.toFixed(Math.min(7, 2 - Math.floor(Math.log10(usd))))}`
}

/** The head of an id: enough to tell two of them apart. */
export const shortId = (id: string): string => id.replace(/^([a-z]+_)?(.{8}).+$/, "$1$2")

/** A name that fits: its end tells more than its middle. */
export const cutMiddle = (name: string, length = 32): string =>
  name.length <= length
    ? name
    : `${name.slice(0, Math.ceil((length - 1) / 2))}…${name.slice(name.length - Math.floor((length - 1) / 2))}`

/** JSON for people. A string is shown as it is. */
export const pretty = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "")

/** The first line of a text, cut to a length. */
export const firstLine = (text: string, length = 120): string => {
  const line = text.trimStart().split("\n", 1)[0] ?? ""
  return line.length > length ? `${line.slice(0, length)}…` : line
}
