/** Where a text shows a secret, from its first to behind its last UTF-16 unit. */
export interface Range {
  readonly start: number
  readonly end: number
}

const mark = "[redacted]"

/** The text without the ranges, each of which leaves a mark at its end. The text starts at the offset. */
export const without = (text: string, offset: number, ranges: ReadonlyArray<Range>): string => {
  let kept = ""
  let at = offset
  const end = offset + text.length
  for (const range of ranges) {
    if (range.end <= offset || range.start >= end) continue
    kept += text.slice(at - offset, Math.max(range.start - offset, 0))
    if (range.end <= end) kept += mark
    at = Math.min(range.end, end)
  }
  return kept + text.slice(at - offset)
}

/**
 * Adds ranges that end behind the known ones. Those that overlap become one, in order; the first known ones stay as they
 * are, as many as `kept`.
 */
export const addRanges = (known: Array<Range>, found: ReadonlyArray<Range>, kept = 0): Array<Range> => {
  for (const { end, start } of found.toSorted((left, right) => left.start - right.start)) {
    const range = { start, end }
    for (let last = known.at(-1); last !== undefined && range.start < last.end; last = known.at(-1)) {
      if (known.length === kept) break
      range.start = Math.min(range.start, last.start)
      range.end = Math.max(range.end, last.end)
      known.pop()
    }
    known.push(range)
  }
  return known
}
