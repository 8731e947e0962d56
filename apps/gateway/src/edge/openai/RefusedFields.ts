import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { Predicate } from "effect"

/** Says what to do instead, unless the value asks for nothing. */
type Refusal = (value: unknown) => string | undefined

const unless =
  (asksForNothing: (value: unknown) => boolean, message: string): Refusal =>
  (value) =>
    asksForNothing(value) ? undefined : message

const isEmpty = (value: unknown): boolean => Predicate.isObject(value) && Object.keys(value).length === 0
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0
const isOneOf =
  (...values: ReadonlyArray<unknown>) =>
  (value: unknown): boolean =>
    values.includes(value)

const choice = 'Expected "none" or "auto": the planner chooses its tools. Say in a message which one it is to call'

const noLogprobs = unless(
  isOneOf(0),
  "Expected none: a plan has no log probabilities. Ask the provider itself for them"
)

/** Fields of OpenAI's API that a plan cannot honour. One that asks for something is refused: ignored, the answer would be another one. */
export const refusedFields: Readonly<Record<string, Refusal>> = {
  n: unless(isOneOf(1), "Expected 1: send the request again for another answer"),
  functions: unless(isEmptyList, "Expected none: name them in tools, each with the type function"),
  tool_choice: unless(isOneOf("none", "auto"), choice),
  function_call: unless(isOneOf("none", "auto"), choice),
  logprobs: unless(isOneOf(false), "Expected false: a plan has no log probabilities. Ask the provider itself for them"),
  top_logprobs: noLogprobs,
  logit_bias: unless(isEmpty, "Expected none: say in the system message which words to use"),
  audio: unless(() => false, "Expected none: a plan answers in text. Have the text spoken afterwards"),
  modalities: unless(
    (value) => Array.isArray(value) && value.every(isOneOf("text")),
    'Expected ["text"]: a plan answers in text'
  ),
  prediction: unless(() => false, "Expected none: put the text that is to be changed into a message"),
  web_search_options: unless(
    () => false,
    "Expected none: name an agent or an MCP server that searches, in a preset or in bowline"
  )
}

/** The same of Responses, whose `tools` may name MCP servers. */
export const refusedInResponses: Readonly<Record<string, Refusal>> = {
  tool_choice: unless(isOneOf("none", "auto"), choice),
  top_logprobs: noLogprobs,
  prompt: unless(() => false, "Expected none: ask for a preset as the model, bowline/<name>, which has instructions")
}

/** What is wrong with the fields of a body that ask for what a plan cannot honour. */
export const refusals = (
  fields: Readonly<Record<string, Refusal>>,
  sent: Readonly<Record<string, unknown>>
): ReadonlyArray<Issue> =>
  Object.entries(fields).flatMap(([name, refusal]) => {
    const message = Object.hasOwn(sent, name) && sent[name] !== null ? refusal(sent[name]) : undefined
    return message === undefined ? [] : [{ path: name, message }]
  })
