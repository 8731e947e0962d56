import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Result } from "effect"
import type { SessionSummary } from "./SessionStore.ts"

/** The summaries that are not empty, each once: a caller may send back a summary that it was shown. */
export const distinct = (summaries: ReadonlyArray<string | null | undefined>): ReadonlyArray<string> =>
  Array.from(new Set(summaries.map((text) => text?.trim() ?? "").filter((text) => text !== "")))

/** All summaries of a session as one text, the earliest first, for callers and prompts. Null if there are none. */
export const shownSummary = ({ priors, text }: Pick<SessionSummary, "priors" | "text">): string | null => {
  const texts = distinct([...priors, text])
  return texts.length === 0 ? null : texts.join(separator)
}

/** A session keeps all prior summaries for as long as it lives, and a prompt may contain all of them: so they are limited. */
const maxPriors = 32
const maxCharacters = 400_000

/** Separates two summaries in one text. */
export const separator = "\n\n"

/** How many characters at the start of `text` are the shown summaries from `first` on, with their separators. */
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
 * The part of a caller's `prior_summary` that is new to a session. A caller may send back the summaries that it was shown, one or
 * several in their order: these are not new, only the text after them is. Fails if the session would have too many summaries, or
 * too many characters in them.
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
