import type { ToolDefinition } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"
import { promptTool, demoTools } from "./DemoPeers.ts"
import { textInputs } from "./DemoInput.ts"

/** How many tools fit a question equally well, at most, for all of them to be called. */
const atMost = 3

/** Words that say nothing about what is asked. */
const idle = new Set(
  "the and for with from that this what which who whom when where why how does did are was were has have can could would should please ask tell give show use you your not any all some one get its it's into about our their them than then there".split(
    " "
  )
)

const split = (text: string): ReadonlyArray<string> =>
  text
    .replaceAll(/(?<=\p{Ll})(?=\p{Lu})/gu, " ")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word.length > 2 && !idle.has(word))

/** Whether two words are forms of one: `order` and `orders`, `forecast` and `forecasting`. */
const isSame = (one: string, other: string): boolean =>
  one === other || (Math.min(one.length, other.length) > 3 && (one.startsWith(other) || other.startsWith(one)))

/** The words of a question as names of agents and tools are written. */
const namesIn = (text: string): ReadonlyArray<string> =>
  text
    .split(/[^\p{L}\p{N}._-]+/u)
    .map((word) =>
      word
        .replace(/[._-]+$/, "")
        .replaceAll(/[^A-Za-z0-9_-]/g, "_")
        .toLowerCase()
    )
    .filter((word) => word !== "")

const propertiesOf = ({ properties }: ToolDefinition["inputSchema"]): ReadonlyArray<string> =>
  Predicate.isObject(properties) ? Object.keys(properties) : []

/** How many words of the question a tool is about. Its name counts twice. */
const score = ({ description, inputSchema, name }: ToolDefinition, asked: ReadonlyArray<string>): number => {
  const matches = (words: ReadonlyArray<string>) =>
    asked.filter((word) => words.some((one) => isSame(one, word))).length
  return 2 * matches(split(name)) + matches([...split(description), ...propertiesOf(inputSchema).flatMap(split)])
}

/** The tools that fit best, if any fits. */
const best = (tools: ReadonlyArray<ToolDefinition>, asked: ReadonlyArray<string>): ReadonlyArray<ToolDefinition> => {
  const scored = tools.map((tool) => ({ tool, points: score(tool, asked) }))
  const most = Math.max(0, ...scored.map(({ points }) => points))
  return most === 0 ? [] : scored.filter(({ points }) => points === most).map(({ tool }) => tool)
}

/** Whether the tool takes a question in plain words, and nothing else. */
const takesWords = ({ inputSchema }: ToolDefinition): boolean => {
  const names = propertiesOf(inputSchema)
  return names.length > 0 && names.every((name) => textInputs.has(name))
}

/**
 * The tools that a question asks for, without those that may destroy something. The name of a tool is the agent's, `_` and the skill's. Of an
 * agent or a server that the question names, the tools that fit it best; else of all those that are not the demo's own. If none fits, the first one that takes plain words: the demo's agents, of which one never answers, are called by their names only,
 * but for `prompt`.
 */
export const chooseTools = (
  all: ReadonlyArray<ToolDefinition>,
  text: string,
  isForbidden: (tool: string) => boolean
): ReadonlyArray<ToolDefinition> => {
  const tools = all.filter(({ approvalReason, name }) => approvalReason !== "sensitive" && !isForbidden(name))
  const asked = Array.from(new Set(split(text)))
  const named = Array.from(new Set(namesIn(text))).flatMap((word) => {
    const ofWord = tools.filter(({ name }) => name.toLowerCase().startsWith(`${word}_`))
    const fitting = best(
      ofWord,
      asked.filter((one) => !isSame(one, word))
    )
    return [
      ...tools.filter(({ name }) => name.toLowerCase() === word),
      ...(fitting.length > 0 ? fitting : ofWord).slice(0, atMost)
    ]
  })
  if (named.length > 0) return Array.from(new Set(named))
  const own = tools.filter(({ name }) => !demoTools.has(name))
  const fitting = best(own, asked)
  if (fitting.length > 0) return fitting.slice(0, atMost)
  return [...own.filter(takesWords), ...tools.filter(({ name }) => name === promptTool)].slice(0, 1)
}
