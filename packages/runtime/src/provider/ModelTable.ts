import data from "./models.json" with { type: "json" }

/** What is known of a model. */
export interface Model {
  /** Tokens of prompt and answer together. */
  readonly contextWindow: number
  /** Tokens of one answer. */
  readonly outputLimit?: number
  /** It thinks without being asked to, and may be silent meanwhile. */
  readonly isReasoning: boolean
  /** US dollars for a million tokens. `cached` is for what was read from a cache, where that costs less. */
  readonly price?: { readonly input: number; readonly cached?: number; readonly output: number }
}

const models: ReadonlyMap<string, Model> = new Map(Object.entries(data))

/** `openrouter/anthropic/`; OpenAI's `ft:` of a model that was tuned; Bedrock's `us.anthropic.`. */
const prefixes = /^(?:.*\/)?(?:ft:)?(?:[a-z]+\.)*/

const normalise = (id: string): string =>
  id
    .toLowerCase()
    .replace(prefixes, "")
    .replace(/[^a-z0-9]+/g, "-")

/**
 * Looks a model up by any of the ways to write its id: with a provider in front, with dots or dashes, with a date, a `-latest`
 * or a variant behind. Of several names that fit, the longest one counts; so a variant that is not in the table is taken for
 * what it is a variant of.
 */
export const find = (id: string): Model | undefined => {
  let name = normalise(id)
  while (name !== "" && !models.has(name)) name = name.slice(0, Math.max(0, name.lastIndexOf("-")))
  return models.get(name)
}
