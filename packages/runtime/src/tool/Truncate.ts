/**
 * How much of a result a model gets to read, in characters: 30 % of a context window of so many tokens, counted with three
 * characters a token, and never more than 400,000.
 */
export const resultLimit = (contextWindow: number): number => Math.min(400_000, Math.floor(contextWindow * 0.3) * 3)

/** Head and tail of a text that is too long, with a mark where it was cut. */
export const truncate = (text: string, limit: number): { readonly text: string; readonly truncated: boolean } => {
  if (text.length <= limit) return { text, truncated: false }
  const mark = `\n[… ${text.length - limit} characters left out …]\n`
  const half = Math.floor(limit / 2)
  return { text: `${text.slice(0, half)}${mark}${text.slice(-half)}`.toWellFormed(), truncated: true }
}
