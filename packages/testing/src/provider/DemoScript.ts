import type { ToolDefinition } from "@bowline/runtime/provider/Provider"
import { slow } from "../http/Move.ts"
import { question, results, type Asked } from "./Script.ts"
import { callTool, say, type Turn } from "./Turn.ts"

/**
 * A provider for a gateway without one. It calls the tools that the question names, by agent or by name, or all of them, and
 * quotes their results. Without tools it says how many questions it has seen. Words come some milliseconds apart.
 */
export const demo = (asked: Asked): Turn => {
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
