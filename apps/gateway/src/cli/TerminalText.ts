import truncated from "fast-string-truncated-width"

/** C0 but for tab and line feed, DEL, C1, and what turns the direction of text around. */
const unsafe = /(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

const codePoint = (character: string): string => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`

/** Text of a model, a peer or a caller for a terminal: control characters are shown, and have no effect. Line feeds and tabs stay. */
export const harmless = (text: string): string =>
  text.replaceAll("\r\n", "\n").replaceAll(unsafe, (character) => {
    const code = character.charCodeAt(0)
    if (code < 0x20) return String.fromCharCode(0x2400 + code)
    return code === 0x7f ? "\u2421" : codePoint(character)
  })

/** The same in one line. */
export const oneLine = (text: string): string => harmless(text.replaceAll(/\s+/g, " ").trim())

/** One line of JSON that a terminal can show, too: what has an effect there is escaped. */
export const toJson = (value: unknown): string => JSON.stringify(value).replaceAll(unsafe, codePoint)

/** How many columns of a terminal a line takes. */
export const widthOf = (line: string): number => truncated(line).width

/** The line, or its beginning and `…`, in so many columns. */
export const fit = (line: string, width: number): string => {
  const { ellipsed, index, truncated: isCut } = truncated(line, { limit: width, ellipsis: "…", ellipsisWidth: 1 })
  return isCut ? `${line.slice(0, index)}${ellipsed ? "…" : ""}` : line
}

const units = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1]
] as const

/** How long ago a time in ISO 8601 was, `3m ago`. */
export const ago = (iso: string, now: number): string => {
  const seconds = (now - Date.parse(iso)) / 1_000
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1]
  // Made here: it takes 15 ms of CPU, and most processes do not need it.
  return new Intl.RelativeTimeFormat("en", { style: "narrow" }).format(-Math.trunc(seconds / size), unit)
}
