import { omission } from "../tool/Envelope.ts"
import { type CountTokens, uuid } from "./TokenEstimate.ts"

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

/** Characters of an id. */
const idLength = 36

/** Where the id begins and ends that a cut at this place would halve; the place itself if there is none. */
const around = (text: string, at: number): readonly [start: number, end: number] => {
  const from = Math.max(0, at - idLength + 1)
  const [{ index } = { index: at - from }] = text.slice(from, at + idLength - 1).matchAll(uuid)
  return index < at - from ? [from + index, from + index + idLength] : [at, at]
}

/** Keeps the head and the tail of a text, about so many characters. An id that a cut would halve is left out as a whole: half of one is of no use, and a replay, which draws new ids, keeps the same text. */
const cut = (text: string, limit: number): string => {
  const half = Math.floor(limit / 2)
  const [start] = around(text, half)
  const [, end] = around(text, text.length - half)
  return `${text.slice(0, start)}${omission(end - start)}${text.slice(end)}`.toWellFormed()
}

/** Cuts the middle out of a text that has more than so many tokens. At least 40 characters stay, less the ids that a cut would halve. */
export const toTokens = (count: CountTokens, text: string, tokens: number): string => {
  let short = text
  let limit = text.length
  for (let weight = count(text); weight > tokens && limit > least; weight = count(short)) {
    limit = Math.max(least, Math.floor(limit * Math.min(0.9, tokens / weight)))
    short = cut(text, limit)
  }
  return short
}
