import MiniSearch from "minisearch"
import type { JsonSchema, Tool } from "./Tool.ts"

/** Words that say nothing about what a tool does. */
const fillers: ReadonlySet<string> = new Set(
  "a all an and any are as at be by can do for from get has have i if in into is it its me my need of on or our please some that the their them there these they this to use using want was we what when where which who will with you your".split(
    " "
  )
)

const endings = /(?:ations?|ing|ed|es|s|e)$/u

/** Forms of one word come out alike, mostly: `issues` and `issue`, `creating` and `create`. A short one stays as it is. */
const stem = (word: string): string => {
  const short = word.replace(endings, "")
  return short.length < 3 ? word : short
}

/** The words of a text or a name: `createIssue`, `create_issue` and `Create an issue` have the same ones. */
const wordsOf = (text: string): Array<string> =>
  text
    .replaceAll(/(\p{Ll}|\d)(\p{Lu})/gu, "$1 $2")
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "")

const termOf = (word: string): string | null => {
  const lower = word.toLowerCase()
  return fillers.has(lower) ? null : stem(lower)
}

const maxDepth = 3

/** The names of the arguments, with those inside of them. */
const argumentsOf = ({ properties, items }: JsonSchema, depth = 0): ReadonlyArray<string> => {
  const inner = (value: unknown): ReadonlyArray<string> =>
    isObject(value) && depth < maxDepth ? argumentsOf(value, depth + 1) : []
  const own = isObject(properties)
    ? Object.entries(properties).flatMap(([name, schema]) => [name, ...inner(schema)])
    : []
  return [...own, ...inner(items)]
}

const isObject = (value: unknown): value is JsonSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Where a tool comes from: its agent or server, the client, or the app. */
export const sourceOf = ({ agent, kind }: Pick<Tool, "agent" | "kind">): string => agent ?? kind

export type Field = "name" | "description" | "arguments"

/** What a search reads of a tool. A match in its name counts most. */
const boosts: Readonly<Record<Field, number>> = { name: 3, description: 1.5, arguments: 1 }

/** Finds tools by words, by BM25 over their names, descriptions and the names of their arguments. */
export class ToolSearch {
  readonly #tools: ReadonlyMap<string, Tool>
  readonly #index: MiniSearch<{ readonly id: string }>

  constructor(tools: Iterable<Tool>, fields: ReadonlyArray<Field> = ["name", "description", "arguments"]) {
    this.#tools = new Map(Array.from(tools, (tool) => [tool.name, tool]))
    this.#index = new MiniSearch({
      fields: [...fields],
      tokenize: wordsOf,
      processTerm: termOf,
      searchOptions: {
        boost: boosts,
        prefix: (term) => term.length > 3,
        fuzzy: (term) => (term.length > 5 ? 0.15 : false)
      }
    })
    this.#index.addAll(
      Array.from(this.#tools.values(), ({ description, inputSchema, name }) => ({
        id: name,
        name,
        description,
        arguments: argumentsOf(inputSchema).join(" ")
      }))
    )
  }

  /** The tools that match best, best first; those of one source, if it is given. */
  find(query: string, limit: number, source?: string): ReadonlyArray<Tool> {
    const filter = (id: string) => {
      const tool = this.#tools.get(id)
      return tool !== undefined && (source === undefined || sourceOf(tool) === source)
    }
    return this.#index
      .search(query, { filter: ({ id }) => filter(String(id)) })
      .slice(0, limit)
      .flatMap(({ id }) => this.#tools.get(String(id)) ?? [])
  }
}
