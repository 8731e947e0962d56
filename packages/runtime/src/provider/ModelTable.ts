import type { Sampling } from "@bowline/domain/plan/PlanRequest"
import { addCost, type Cost, type Usage } from "@bowline/domain/plan/Usage"
import data from "./models.json" with { type: "json" }

/** A kind of content that a model may take. */
export type Input = "text" | "image" | "pdf"

/** What is known of a model. */
export interface Model {
  /** Tokens of prompt and answer together. */
  readonly contextWindow: number
  /** Tokens of one answer. */
  readonly outputLimit?: number
  /** It thinks without being asked to, and may be silent for long. */
  readonly isReasoning: boolean
  /** Its provider holds an answer to a JSON Schema. */
  readonly structuredOutput?: boolean
  /** Fields of `Sampling` that its provider answers with an error. */
  readonly refuses?: ReadonlyArray<string>
  /** What it takes besides text: text alone, where nothing is said. */
  readonly input?: ReadonlyArray<Input>
  /** The largest image that its provider takes, in bytes: 5 MiB, where nothing is said. */
  readonly maxImageBytes?: number
  /** How many pages of a PDF its provider takes: 100, where nothing is said. */
  readonly maxPdfPages?: number
  /** US dollars for a million tokens. `cached` is for what was read from a cache, where that costs less. */
  readonly price?: { readonly input: number; readonly cached?: number; readonly output: number }
}

const refusable = ["temperature", "top_p", "stop", "seed", "reasoning_effort"] as const

/** The fields of a sampling that the model refuses. One that is known not to reason refuses to be told how much it should. */
export const refusedOf = (
  sampling: Sampling,
  model: Pick<Model, "isReasoning" | "refuses"> | undefined
): ReadonlyArray<(typeof refusable)[number]> => {
  const refused = [...(model?.refuses ?? []), ...(model?.isReasoning === false ? ["reasoning_effort"] : [])]
  return refusable.filter((field) => sampling[field] !== undefined && refused.includes(field))
}

/** What these tokens of the model cost. */
export const costOf = (usage: Usage, model: Pick<Model, "price"> | undefined): Cost => {
  if (model?.price === undefined) return null
  const { input, cached = input, output } = model.price
  const read = Math.min(usage.cached_input_tokens, usage.input_tokens)
  const dollars = (usage.input_tokens - read) * input + read * cached + usage.output_tokens * output
  return addCost(0, dollars / 1_000_000)
}

const isInput = (input: string): input is Input => input === "text" || input === "image" || input === "pdf"

const models: ReadonlyMap<string, Model> = new Map(
  Object.entries<Omit<Model, "input"> & { readonly input?: ReadonlyArray<string> }>(data).map(
    ([name, { input, ...model }]) => [name, { ...model, ...(input !== undefined && { input: input.filter(isInput) }) }]
  )
)

/** `openrouter/anthropic/`; OpenAI's `ft:` of a model that was tuned; Bedrock's `us.anthropic.`. */
const prefixes = /^(?:.*\/)?(?:ft:)?(?:[a-z]+\.)*/

const normalise = (id: string): string =>
  id
    .toLowerCase()
    .replace(prefixes, "")
    .replace(/[^a-z0-9]+/g, "-")

/** What the configuration says about models. The table says the rest. */
export interface ModelOverrides {
  /** Of one model of one provider, by its `provider/model` in lower case. */
  readonly exact: ReadonlyMap<string, Partial<Model>>
  /** By a name like those of the table. */
  readonly named: ReadonlyMap<string, Partial<Model>>
}

/** For a configuration that says nothing about models. */
export const noOverrides: ModelOverrides = { exact: new Map(), named: new Map() }

/** A key with a provider in front means one model of that provider; any other key is a name like those of the table. */
export const overrides = (entries: ReadonlyArray<readonly [key: string, model: Partial<Model>]>): ModelOverrides => ({
  exact: new Map(entries.filter(([key]) => key.includes("/")).map(([key, model]) => [key.toLowerCase(), model])),
  named: new Map(entries.filter(([key]) => !key.includes("/")).map(([key, model]) => [normalise(key), model]))
})

const longest = (name: string, isKnown: (name: string) => boolean): string => {
  let rest = name
  while (rest !== "" && !isKnown(rest)) rest = rest.slice(0, Math.max(0, rest.lastIndexOf("-")))
  return rest
}

/**
 * Looks a model up by any of the ways to write its id: with a provider in front, with dots or dashes, with a date, a `-latest`
 * or a variant behind. Of several names that fit, the longest one counts: an unknown variant counts as the model that it is a
 * variant of. A result without a context window means that the window is not known.
 */
export const find = (
  id: string,
  { exact, named }: ModelOverrides = noOverrides
): (Partial<Model> & Pick<Model, "isReasoning">) | undefined => {
  const name = normalise(id)
  const known = models.get(longest(name, (name) => models.has(name)))
  const ofName = named.get(longest(name, (name) => models.has(name) || named.has(name)))
  const ofId = exact.get(id.toLowerCase())
  if (known === undefined && ofName === undefined && ofId === undefined) return undefined
  return { isReasoning: false, ...known, ...ofName, ...ofId }
}
