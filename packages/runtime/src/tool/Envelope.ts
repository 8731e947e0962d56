import type { Verified } from "@bowline/domain/plan/PlanEvent"

/**
 * How much of a result a model gets to read, in characters: 30 % of a context window of so many tokens, counted with three
 * characters a token, and never more than 400,000.
 */
export const resultLimit = (contextWindow: number): number => Math.min(400_000, Math.floor(contextWindow * 0.3) * 3)

/** Stands in place of so many characters of a text. */
export const omission = (characters: number): string => `\n[… ${characters} characters left out …]\n`

/** Head and tail of a text that is too long, with a mark where it was cut. */
export const truncate = (text: string, limit: number): { readonly text: string; readonly truncated: boolean } => {
  if (text.length <= limit) return { text, truncated: false }
  const half = Math.floor(limit / 2)
  return {
    text: `${text.slice(0, half)}${omission(text.length - limit)}${text.slice(-half)}`.toWellFormed(),
    truncated: true
  }
}

/** Who said what is in an envelope. `verified` is whether the DID has signed all of it. */
export interface Source {
  readonly tool: string
  readonly agent: string | null
  readonly did: string | null
  readonly verified: Verified
}

/**
 * Remote content as data for the model: between two lines that hold a delimiter, random per plan, which is taken out of the
 * content, so that nothing in it can close the envelope.
 */
export const wrap = (delimiter: string, { tool, agent, did, verified }: Source, content: string) =>
  [
    `<result ${delimiter} tool=${JSON.stringify(tool)} agent=${JSON.stringify(agent)} did=${JSON.stringify(did)} verified="${verified}">`,
    content.replaceAll(delimiter, ""),
    `</result ${delimiter}>`
  ].join("\n")

const enveloped = /^<result [^\n]*\n([\s\S]*)\n<\/result [^\n]*>/

/** What is in an envelope, whatever its delimiter; a text that is in none is its own content. */
export const contentOf = (text: string): string => enveloped.exec(text)?.[1] ?? text
