import type { Message } from "@bowline/domain/session/Message"
import { Effect, Option, Schema } from "effect"
import { toolName as fileTool } from "../tool/FileTool.ts"
import type { JsonSchema, Tool, ToolResult } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"
import { sourceOf, ToolSearch } from "../tool/ToolSearch.ts"
import { toolName as waitTool } from "../tool/WaitTool.ts"

/** The tool with which the model searches those that are not declared. No tool of a request may have its name. */
export const toolName = "find_tools"

/** How many found tools stay declared: the newest. */
const maxFound = 64

/** How many others stay declared, because they were called, or the question names them: the newest. With those found and the gateway's own they are less than the 128 of a provider. */
const maxKept = 56

const maxResults = 10

const inputSchema: JsonSchema = {
  type: "object",
  properties: {
    query: { type: "string", minLength: 1, maxLength: 1_000, description: "What the tool has to do, in words" },
    source: { type: "string", description: "Only tools of this agent or server" },
    limit: { type: "integer", minimum: 1, maximum: maxResults, default: maxResults }
  },
  required: ["query"],
  additionalProperties: false
}

const Query = Schema.Struct({
  query: Schema.String,
  source: Schema.optionalKey(Schema.String),
  limit: Schema.optionalKey(Schema.Int)
})
const decodeQuery = Schema.decodeUnknownOption(Query)

/** Where the tools of a plan come from, and how many there are, for the prompt. */
export interface Source {
  readonly name: string
  readonly description: string | null
  readonly tools: number
}

/** Names, the newest last, and so many at most. */
class Newest {
  readonly #names = new Set<string>()
  readonly #atMost: number

  constructor(atMost: number) {
    this.#atMost = atMost
  }

  /** Says whether the name is new. */
  add(name: string): boolean {
    const isNew = !this.#names.delete(name)
    this.#names.add(name)
    for (const oldest of this.#names) {
      if (this.#names.size <= this.#atMost) break
      this.#names.delete(oldest)
    }
    return isNew
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }
}

const problemOf = (message: string): ToolResult => ({
  state: "invalid",
  content: message,
  error: { code: "invalid", message }
})

/**
 * The tools that the model is told of. It is all of them, or, where they are more than `atMost`, those that it needs: what was called in the session,
 * what the question names, and what it has found by `find_tools`. All others can be called, too.
 *
 *     a plan's tools ──called before, or named──▶ declared ◀──found by find_tools── not declared
 */
export class DeclaredTools {
  readonly #tools: ReadonlyMap<string, Tool>
  readonly #atMost: number
  readonly #kept = new Newest(maxKept)
  readonly #found = new Newest(maxFound)
  /** In the order in which the model was told of them: what is said of the first ones stays the same for the provider's cache. */
  readonly #order = new Set<string>()
  #search: ToolSearch | undefined
  #isNews = false

  /** `tools` are those that the plan has now: the owner of the map changes it, and says so. */
  constructor(tools: ReadonlyMap<string, Tool>, atMost: number) {
    this.#tools = tools
    this.#atMost = atMost
  }

  /** Whether the plan has more tools than it declares. */
  get isSearched(): boolean {
    return this.#tools.size - (this.#tools.has(toolName) ? 1 : 0) > this.#atMost
  }

  /** What the next request declares. */
  get list(): ReadonlyArray<Tool> {
    if (!this.isSearched) return Array.from(this.#tools.values())
    const own = Array.from(this.#tools.values()).filter(isOwn)
    return [...own, ...Array.from(this.#order, (name) => this.#tools.get(name)).filter((tool) => tool !== undefined)]
  }

  /** Whether the list is another one than when this was asked last. */
  takeNews(): boolean {
    const isNews = this.#isNews
    this.#isNews = false
    return isNews
  }

  /** The plan has other tools. */
  changed(): void {
    this.#search = undefined
  }

  /** Keeps what was called in these messages of the session, the oldest first, and in those of this plan what texts name, and what was found: it searches once more. */
  remember(messages: ReadonlyArray<Message>, plan_id: string): void {
    for (const { parts, plan_id: of, role } of messages) {
      for (const part of parts) {
        if (part.type === "tool_call") this.#keep(part.tool)
        if (of !== plan_id) continue
        if (role === "user" && part.type === "text") this.readNames(part.text)
        // What it gave may have been too long for the history.
        if (part.type === "tool_call" && part.tool === toolName)
          this.#find(Option.getOrUndefined(decodeQuery(part.input)))
      }
    }
  }

  /** Keeps what this text of the user names: by the name of the tool, or by the one that its server gives it. */
  readNames(text: string): void {
    if (!this.isSearched) return
    const words = new Set(text.split(/[^\w-]+/u))
    for (const { name, skill } of this.#tools.values()) {
      const isNamed = words.has(name) || (skill !== null && /[_-]/u.test(skill) && words.has(skill))
      if (isNamed) this.#keep(name)
    }
  }

  #keep(name: string): void {
    const tool = this.#tools.get(name)
    if (tool !== undefined && !isOwn(tool)) this.#declare(this.#kept, name)
  }

  #declare(names: Newest, name: string): void {
    if (!names.add(name)) return
    this.#isNews = true
    this.#order.add(name)
    for (const one of this.#order) if (!this.#isDeclared(one)) this.#order.delete(one)
  }

  #isDeclared(name: string): boolean {
    return this.#kept.has(name) || this.#found.has(name)
  }

  /** How many tools each source has, in the order of the tools; without the gateway's own. */
  sources(descriptions: ReadonlyMap<string, string>): ReadonlyArray<Source> {
    const counts = new Map<string, number>()
    for (const tool of this.#tools.values()) {
      if (!isOwn(tool)) counts.set(sourceOf(tool), (counts.get(sourceOf(tool)) ?? 0) + 1)
    }
    return Array.from(counts, ([name, tools]) => ({ name, description: descriptions.get(name) ?? null, tools }))
  }

  /** Searches what can be called, and declares what it finds from the next step on. */
  readonly tool: Tool = {
    name: toolName,
    kind: "local",
    agent: null,
    endpoint: null,
    skill: null,
    description:
      "Finds tools by what they do, or by words of their names. What it finds is declared from the next step on, and can be called.",
    inputSchema,
    timeoutMs: undefined,
    isIdempotent: true,
    isPolling: false,
    approval: "never",
    identify: Effect.succeed(null),
    call: ({ input }) => Effect.sync(() => this.#find(Option.getOrUndefined(decodeQuery(input))))
  }

  #find(asked: typeof Query.Type | undefined): ToolResult {
    if (asked === undefined) return problemOf("Expected {query, source?, limit?}")
    const { limit = maxResults, query, source } = asked
    const known = this.sources(new Map()).map(({ name }) => name)
    if (source !== undefined && !known.includes(source)) {
      return problemOf(`There is no source ${ToolName.withNearest(source, known)}`)
    }
    this.#search ??= new ToolSearch(Array.from(this.#tools.values()).filter((tool) => !isOwn(tool)))
    const found = this.#search.find(query, Math.min(limit, maxResults), source)
    // The best one is the newest.
    for (const { name } of found.toReversed()) this.#declare(this.#found, name)
    const tools = found.map((tool) => ({
      name: tool.name,
      source: sourceOf(tool),
      description: tool.description,
      input_schema: tool.inputSchema
    }))
    const hint =
      tools.length === 0 ? { hint: "Nothing matches. Try other words, or another source", sources: known } : {}
    return { state: "completed", content: JSON.stringify({ tools, ...hint }) }
  }
}

/** Whether the gateway itself brings the tool: it is always declared, and its calls reach nothing outside. */
export const isOwn = ({ kind, name }: Pick<Tool, "kind" | "name">): boolean =>
  kind === "recipe" || (kind === "local" && [fileTool, toolName, waitTool].includes(name))
