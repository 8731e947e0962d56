/** What a screen reader is told of a text that grows: whole sentences, each one once. */
export interface Spoken {
  /** How many characters of the text are spoken. */
  readonly upTo: number
  /** What to say now; empty if no sentence has ended since. */
  readonly say: string
}

const ends = /[.!?…:](?:["'”’)\]]*)(?=\s)|\n/gu

/** The next whole sentences of a text. The rest of it is said when it is `over`. */
export const nextSentences = (text: string, spoken: number, over: boolean): Spoken => {
  // A text that is shorter than what was said is another one: an attempt was retracted, or a step has begun.
  const from = text.length < spoken ? 0 : spoken
  const fresh = text.slice(from)
  let end = over ? fresh.length : 0
  if (!over) for (const match of fresh.matchAll(ends)) end = match.index + match[0].length
  return { upTo: from + end, say: fresh.slice(0, end).trim() }
}
