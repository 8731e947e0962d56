import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Result } from "effect"
import type { SessionSummary } from "./SessionStore.ts"

/** Summaries that say something, each once: a caller may send back what it was given. */
export const distinct = (summaries: ReadonlyArray<string | null | undefined>): ReadonlyArray<string> =>
  Array.from(new Set(summaries.map((text) => text?.trim() ?? "").filter((text) => text !== "")))

/** A summary as one text, for callers and for prompts: what is earlier comes first. Null if there is nothing. */
export const shownSummary = ({ priors, text }: Pick<SessionSummary, "priors" | "text">): string | null => {
  const texts = distinct([...priors, text])
  return texts.length === 0 ? null : texts.join(separator)
}

/** A session keeps what callers say of earlier history for as long as it lives, and each prompt may hold all of it. */
const maxPriors = 32
const maxCharacters = 400_000

/** What stands between two summaries where they are shown as one text. */
export const separator = "\n\n"

/** Where the text goes on behind the summaries from `first` on that it begins with, as they are shown: its length at its end. */
const endOfShown = (shown: ReadonlyArray<string>, first: number, text: string): number => {
  let end = 0
  for (let at = 0, next = first; next < shown.length; next++) {
    const summary = shown[next] ?? ""
    if (!text.startsWith(summary, at)) break
    at += summary.length
    if (at === text.length) return at
    if (!text.startsWith(separator, at)) break
    at += separator.length
    end = at
  }
  return end
}

const behindShown = (shown: ReadonlyArray<string>, text: string): string =>
  text.slice(shown.reduce((end, _, first) => Math.max(end, endOfShown(shown, first, text)), 0)).trim()

/**
 * What of a caller's `prior_summary` is new to a session: nothing, if it is one of the summaries there are, or some of them in
 * their order, as a caller that sends back what it was shown has them; else what comes behind those. Fails if the session would
 * have too many, or too much.
 */
export const newPrior = (
  kept: { readonly priors: ReadonlyArray<string>; readonly summary: string | null },
  given: string
): Result.Result<string, InvalidRequest> => {
  const shown = [...kept.priors, kept.summary ?? ""].map((text) => text.trim()).filter((text) => text !== "")
  const text = behindShown(shown, behindShown(shown, given.trim()))
  if (text === "") return Result.succeed(text)
  const characters = kept.priors.reduce((sum, prior) => sum + prior.length, text.length)
  if (kept.priors.length < maxPriors && characters <= maxCharacters) return Result.succeed(text)
  const message = `Expected at most ${maxPriors} different summaries for a session, of ${maxCharacters} characters together`
  return Result.fail(new InvalidRequest({ issues: [{ path: ["prior_summary"], message }] }))
}
