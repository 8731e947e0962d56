import { truncate } from "../tool/Envelope.ts"
import type { CountTokens } from "./TokenEstimate.ts"

/** The most that each may have, so that all together have no more than `room`; there is no limit if they fit. */
export const fairShare = (sizes: ReadonlyArray<number>, room: number): number => {
  let left = room
  for (const [at, size] of [...sizes].sort((a, b) => a - b).entries()) {
    const share = Math.floor(left / (sizes.length - at))
    if (size > share) return Math.max(0, share)
    left -= size
  }
  return Infinity
}

/** What a mark of what was left out takes, and a word on each side of it. */
const least = 40

/** Head and tail of a text that is no more than so many tokens, or as few as a text that was cut can have. */
export const toTokens = (count: CountTokens, text: string, tokens: number): string => {
  let short = text
  let limit = text.length
  for (let weight = count(text); weight > tokens && limit > least; weight = count(short)) {
    limit = Math.max(least, Math.floor(limit * Math.min(0.9, tokens / weight)))
    short = truncate(text, limit).text
  }
  return short
}
