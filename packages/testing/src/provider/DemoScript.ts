import type { ToolDefinition } from "@bowline/runtime/provider/Provider"
import { cut, slow } from "../http/Move.ts"
import { question, results, type Asked } from "./Script.ts"
import { callTool, error, say, type Turn } from "./Turn.ts"

/** After how many steps a question about compaction finds its prompt too long. */
const longSteps = 3

/** Words of an answer that is shown before its connection breaks. */
const shownWords = 8

/**
 * Makes a provider for a gateway without one. It calls the tools that the question names, by agent or by name, or all of them, and
 * quotes their results. Without tools it says how many questions it has seen. Words come some milliseconds apart. For a question that says
 * "change your mind" its first connection breaks in the middle of the answer. For one that says "compaction" it looks something up, step by
 * step, until it refuses a prompt as too long, once.
 */
export const makeDemo = (): ((asked: Asked) => Turn) => {
  /** The questions that have had their trouble, and get their answer next. */
  const troubled = new Set<string>()
  const isTroubled = (asked: Asked): boolean => {
    if (troubled.delete(question(asked))) return false
    troubled.add(question(asked))
    return true
  }

  return (asked) => {
    const isSummary = asked.toolChoice === "none"
    const text = question(asked)
    if (!isSummary && /change your mind/i.test(text) && isTroubled(asked)) {
      return [...answer(asked).slice(0, shownWords), cut]
    }
    const [tool] = wanted(asked.tools, text)
    if (isSummary || tool === undefined || !/compaction/i.test(text)) return answer(asked)
    const steps = results(asked).length
    if (steps < longSteps && !troubled.has(text)) return [callTool(tool.name, { input: longText(text, steps + 1) })]
    return isTroubled(asked)
      ? [error(400, { code: "context_length_exceeded", message: "Demo: the prompt is too long" })]
      : speak(
          "Demo answer. The history was too long for the model, so its head became a summary, and the plan went on."
        )
  }
}

const longText = (text: string, step: number): string => `Part ${step}. ${`${text} `.repeat(40)}`

const answer = (asked: Asked): Turn => {
  const said = results(asked)
  if (said.length > 0) return speak(`Demo answer. ${said.map(quote).join(" ")}`)
  const tools = asked.toolChoice === "none" ? [] : wanted(asked.tools, question(asked))
  if (tools.length > 0) return tools.map(({ name }) => callTool(name, { input: question(asked) }))
  const earlier = asked.messages.filter(({ role }) => role === "user").length - 1
  return speak(
    `Demo answer, from a scripted provider: no model is configured. You asked “${shorten(question(asked))}”. ` +
      `I see ${earlier === 1 ? "1 earlier question" : `${earlier} earlier questions`} of this session.`
  )
}

/** The name of a tool is the agent's, `_` and the skill's, in the characters that providers accept. */
const wanted = (tools: ReadonlyArray<ToolDefinition>, text: string): ReadonlyArray<ToolDefinition> => {
  const words = text
    .split(/[^\p{L}\p{N}._-]+/u)
    .map((word) =>
      word
        .replace(/[._-]+$/, "")
        .replaceAll(/[^A-Za-z0-9_-]/g, "_")
        .toLowerCase()
    )
    .filter((word) => word !== "")
  const named = tools.filter(({ name }) =>
    words.some((word) => name.toLowerCase() === word || name.toLowerCase().startsWith(`${word}_`))
  )
  return named.length > 0 ? named : tools
}

/** Takes off the envelope around the result of a tool. */
const quote = (result: string): string =>
  `A tool said: “${shorten(result.replaceAll(/^<\/?result .*>$/gm, "").trim())}”.`

const shorten = (text: string): string => (text.length <= 500 ? text : `${text.slice(0, 500)}…`)

const speak = (text: string): Turn => [slow("5 millis"), ...(text.match(/\S+\s*/g) ?? []).map(say)]
