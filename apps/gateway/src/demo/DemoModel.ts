import { ContextOverflow, ProviderError, Transport } from "@bowline/domain/provider/ProviderError"
import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { Effect, Layer, Stream } from "effect"
import { makeAnswer, makeInput, textInputs } from "./DemoInput.ts"
import { chooseTools } from "./ToolChoice.ts"

/** After how many steps a question about compaction finds its prompt too long. */
const longSteps = 3

/** Words of an answer that is shown before its connection breaks. */
const shownWords = 8

/** How long the model needs for a word. */
const pace = "5 millis"

/** What the model does next. */
export type Turn =
  | { readonly _tag: "Say"; readonly text: string }
  /** The connection breaks behind the text. */
  | { readonly _tag: "Break"; readonly text: string }
  | { readonly _tag: "Call"; readonly calls: ReadonlyArray<{ readonly name: string; readonly input: object }> }
  | { readonly _tag: "TooLong" }

/** A call since the last question, and what came of it. */
interface Done {
  readonly tool: string
  readonly input: object
  readonly content: string
}

type Messages = ProviderRequest["messages"]

const textOf = ({ parts }: Messages[number]): string =>
  parts.flatMap((part) => (part.type === "text" && part.partial !== true ? [part.text] : [])).join("\n\n")

const questionOf = (messages: Messages): string => {
  const last = messages.findLast(({ role }) => role === "user")
  return last === undefined ? "" : textOf(last)
}

/** The calls that were made since the last question, in order. */
const doneOf = (messages: Messages): ReadonlyArray<Done> => {
  const since = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1).flatMap(({ parts }) => parts)
  const calls = new Map(since.flatMap((part) => (part.type === "tool_call" ? [[part.task_id, part] as const] : [])))
  return since.flatMap((part) => {
    if (part.type !== "tool_result") return []
    const { input = {}, tool = "" } = calls.get(part.task_id) ?? {}
    return [{ tool, input, content: part.content }]
  })
}

/**
 * Makes the model of a gateway without a provider. It [chooses tools](ToolChoice.ts) by the words of the question, makes their arguments up
 * from their schemas, and quotes their results. Without tools it says how many questions it has seen. An answer that has a schema is made up, too. For a question that says "change your
 * mind" its first connection breaks in the middle of the answer. For one that says "compaction" it looks something up, step by step, until it
 * refuses a prompt as too long, once.
 */
export const makeTurns = (isForbidden: (tool: string) => boolean): ((request: ProviderRequest) => Turn) => {
  /** The questions that have had their trouble, and get their answer next. */
  const troubled = new Set<string>()
  const isTroubled = (text: string): boolean => {
    if (troubled.delete(text)) return false
    troubled.add(text)
    return true
  }

  return ({ messages, outputSchema, toolChoice, tools }) => {
    const text = questionOf(messages)
    const done = doneOf(messages)
    const isSummary = toolChoice === "none"
    const chosen = isSummary ? [] : chooseTools(tools, text, isForbidden)
    const call = (said: string): Turn => ({
      _tag: "Call",
      calls: chosen.map(({ inputSchema, name }) => ({ name, input: makeInput(inputSchema, said) }))
    })
    const answer = (): Turn => {
      if (outputSchema !== undefined && (done.length > 0 || chosen.length === 0)) {
        return say(JSON.stringify(makeAnswer(outputSchema, text)))
      }
      if (done.length > 0) return say(`Demo answer. ${done.map(quote).join(" ")}`)
      return chosen.length > 0 ? call(text) : say(plainAnswer(messages, text))
    }
    if (!isSummary && /change your mind/i.test(text) && isTroubled(text)) {
      const turn = answer()
      if (turn._tag !== "Say") return { _tag: "Break", text: "" }
      return { _tag: "Break", text: words(turn.text).slice(0, shownWords).join("") }
    }
    if (chosen.length === 0 || !/compaction/i.test(text)) return answer()
    if (done.length < longSteps && !troubled.has(text)) return call(longText(text, done.length + 1))
    return isTroubled(text)
      ? { _tag: "TooLong" }
      : say("Demo answer. The history was too long for the model, so its head became a summary, and the plan went on.")
  }
}

const say = (text: string): Turn => ({ _tag: "Say", text })

const longText = (text: string, step: number): string => `Part ${step}. ${`${text} `.repeat(40)}`

const plainAnswer = (messages: Messages, text: string): string => {
  const earlier = messages.filter(({ role }) => role === "user").length - 1
  return (
    `Demo answer, from a scripted provider: no model is configured. You asked “${shorten(text)}”. ` +
    `I see ${earlier === 1 ? "1 earlier question" : `${earlier} earlier questions`} of this session.`
  )
}

/** What a tool said, without the envelope around it. A model that makes arguments up says so. */
const quote = ({ content, input, tool }: Done): string => {
  const said = `“${shorten(content.replaceAll(/^<\/?result .*>$/gm, "").trim())}”`
  const isQuestion = Object.keys(input).every((key) => textInputs.has(key))
  return isQuestion
    ? `A tool said: ${said}.`
    : `I called ${tool} with ${shorten(JSON.stringify(input))}, which I made up from its schema and your words, and it said: ${said}.`
}

const shorten = (text: string): string => (text.length <= 500 ? text : `${text.slice(0, 500)}…`.toWellFormed())

const words = (text: string): ReadonlyArray<string> => text.match(/\S+\s*/g) ?? []

const spoken = (text: string): Stream.Stream<ProviderPart> =>
  Stream.fromIterable(words(text)).pipe(
    Stream.mapEffect((delta) => Effect.delay(Effect.succeed<ProviderPart>({ _tag: "TextDelta", delta }), pace))
  )

const finished = (reason: "stop" | "tool_calls"): ProviderPart => ({ _tag: "Finished", reason, inferred: false })

const failed = (reason: ProviderError["reason"]) => Stream.fail(new ProviderError({ reason }))

const play = (turn: Turn): Stream.Stream<ProviderPart, ProviderError> => {
  switch (turn._tag) {
    case "Say":
      return Stream.concat(spoken(turn.text), Stream.succeed(finished("stop")))
    case "Break":
      return Stream.concat(
        spoken(turn.text),
        failed(new Transport({ kind: "reset", message: "Demo: the connection broke in the middle of the answer" }))
      )
    case "Call":
      return Stream.fromIterable<ProviderPart>([
        ...turn.calls.map((_, call): ProviderPart => ({ _tag: "ToolCallFragment", call })),
        ...turn.calls.map(({ input, name }, call): ProviderPart => ({
          _tag: "ToolCall",
          call,
          id: `call_${call}`,
          name,
          arguments: JSON.stringify(input)
        })),
        finished("tool_calls")
      ])
    case "TooLong":
      return failed(new ContextOverflow({ message: "Demo: the prompt is too long", status: 400 }))
  }
}

/** The model as a provider of this name. Tools that are forbidden it never calls. */
export const layer = (name: string, isForbidden: (tool: string) => boolean): Layer.Layer<Provider> =>
  Layer.sync(Provider, () => {
    const turnOf = makeTurns(isForbidden)
    return Provider.of({ name, stream: (request) => Stream.suspend(() => play(turnOf(request))) })
  })
