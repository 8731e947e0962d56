import { separator } from "./PriorSummaries.ts"
import type { SessionSummary } from "./SessionStore.ts"

/** Summaries that say something, each once: a caller may send back what it was given. */
export const distinct = (summaries: ReadonlyArray<string | null | undefined>): ReadonlyArray<string> =>
  Array.from(new Set(summaries.map((text) => text?.trim() ?? "").filter((text) => text !== "")))

/** A summary as one text, for callers and for prompts: what is earlier comes first. Null if there is nothing. */
export const shownSummary = ({ priors, text }: Pick<SessionSummary, "priors" | "text">): string | null => {
  const texts = distinct([...priors, text])
  return texts.length === 0 ? null : texts.join(separator)
}
