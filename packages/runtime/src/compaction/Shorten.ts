import { truncate } from "../tool/Envelope.ts"
import type { CountTokens } from "./TokenEstimate.ts"

/** The largest size that each may have so that all of them fit into `room`; `Infinity` if they fit as they are. */
export const fairShare = (sizes: ReadonlyArray<number>, room: number): number => {
  let left = room
  for (const [at, size] of [...sizes].sort((a, b) => a - b).entries()) {
    const share = Math.floor(left / (sizes.length - at))
    if (size > share) return Math.max(0, share)
    left -= size
  }
  return Infinity
}

/** Characters of the mark for an omission, with a word on each side. */
const least = 40

/** Cuts the middle out of a text that has more than so many tokens. At least 40 characters stay. */
export const toTokens = (count: CountTokens, text: string, tokens: number): string => {
  let short = text
  let limit = text.length
  for (let weight = count(text); weight > tokens && limit > least; weight = count(short)) {
    limit = Math.max(least, Math.floor(limit * Math.min(0.9, tokens / weight)))
    short = truncate(text, limit).text
  }
  return short
}
