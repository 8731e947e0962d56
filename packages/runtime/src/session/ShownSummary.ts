import type { SessionSummary } from "./SessionStore.ts"

/** A summary as one text, for callers and for prompts: what is earlier comes first. Null if there is nothing. */
export const shownSummary = ({ priors, text }: Pick<SessionSummary, "priors" | "text">): string | null => {
  const texts = text === null ? priors : [...priors, text]
  return texts.length === 0 ? null : texts.join("\n\n")
}
