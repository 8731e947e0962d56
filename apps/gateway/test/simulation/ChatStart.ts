import type { PlanId } from "@bowline/domain/plan/Plan"
import { toEvent } from "@bowline/runtime/unstable/store/EventRow"
import type { Options } from "@bowline/testing/simulation/Simulation"
import type { ReplicaClient, Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Effect, Schema } from "effect"
import { askOpenAi, askWholeOpenAi, codeOf, onBlocks, type WholeFailure } from "./Answers.ts"
import { type BrokenOff, isExplained } from "./BrokenOff.ts"
import type { Wire } from "./MemoryServer.ts"

type Rule = NonNullable<Options["rules"]>[string]
type Plan = Parameters<Rule>[0]["plans"][number]

/** A stream of Chat Completions as its client has read it. */
export interface HeardChat {
  readonly plan: PlanId
  text: string
  /** Why the answer has ended, as its last choice says. */
  finish: string | null
  /** `[DONE]`, or the code of the error; undefined as long as neither has come. */
  end: string | undefined
  /** Why the stream ends before its plan, if it does. */
  broken: BrokenOff | undefined
  /** The gateway has ended the answer. */
  isClosed: boolean
}

const Chunk = Schema.fromJsonString(
  Schema.Union([
    Schema.Struct({ error: Schema.Struct({ code: Schema.String }) }),
    Schema.Struct({
      choices: Schema.Array(
        Schema.Struct({
          delta: Schema.Struct({ content: Schema.optionalKey(Schema.String) }),
          finish_reason: Schema.NullOr(Schema.String)
        })
      )
    })
  ])
)
const decodeChunk = Schema.decodeUnknownSync(Chunk)

/** Ends that are not the plan's own. */
const ofStream: ReadonlyArray<string | undefined> = ["draining", "interrupted", "text_retracted"]

const hear = (heard: HeardChat, block: string, { process, world }: Site): void => {
  if (block.startsWith(":")) return
  if (heard.end !== undefined) throw new Error(`Something comes behind the end ${heard.end}: ${block}`)
  const data = block.slice("data: ".length)
  if (data === "[DONE]") {
    heard.end = data
    return
  }
  const chunk = decodeChunk(data)
  if ("error" in chunk) {
    heard.end = chunk.error.code
    if (ofStream.includes(heard.end)) heard.broken = { code: heard.end, replica: process.name, at: world.now }
  } else {
    for (const { delta, finish_reason } of chunk.choices) {
      heard.text += delta.content ?? ""
      heard.finish = finish_reason
    }
  }
}

const questionOf = ({ question }: { readonly question: string }) => ({
  messages: [{ role: "user", content: question }]
})

/** Asks as a client of OpenAI's API does. What comes shows only that the connection lives: behind the end of its plan the caller reads the plan. */
export const make =
  (
    site: Site,
    wire: Wire["Service"],
    all: Array<HeardChat>,
    read: ReplicaClient["Service"]["read"]
  ): ReplicaClient["Service"]["start"] =>
  (asked, { begin, take }) =>
    Effect.gen(function* () {
      const { answer, plan } = yield* askOpenAi(wire, "/v1/chat/completions", asked, questionOf)
      const heard: HeardChat = {
        plan,
        text: "",
        finish: null,
        end: undefined,
        broken: undefined,
        isClosed: false
      }
      all.push(heard)
      yield* begin(heard.plan)
      yield* onBlocks(answer, (blocks) => {
        for (const block of blocks) hear(heard, block, site)
        return take(["ping"])
      })
      heard.isClosed = true
      if (heard.broken === undefined) yield* read(heard.plan, 0, { begin: () => Effect.void, take })
    }).pipe(Effect.scoped)

/** The text of all steps, without what was retracted, with a blank line between two. */
const textOf = ({ frames }: Plan): string => {
  const steps = new Map<number, Map<number, string>>()
  for (const { data, event } of frames.map(toEvent)) {
    if (event !== "text.delta" && event !== "text.retract") continue
    const attempts = steps.get(data.step) ?? new Map<number, string>()
    steps.set(data.step, attempts)
    if (event === "text.delta") attempts.set(data.attempt, (attempts.get(data.attempt) ?? "") + data.delta)
    else attempts.delete(data.attempt)
  }
  return Array.from(steps.values(), (attempts) => Array.from(attempts.values()).join(""))
    .filter((text) => text !== "")
    .join("\n\n")
}

/** Why a completed plan has ended, in the words of Chat Completions. */
const finishOf = ({ plan: { final } }: Plan): string => {
  const reason = final?.stop_reason ?? ""
  if (reason === "stop" || reason === "pause") return "stop"
  return reason === "content_filter" || reason === "refusal" ? "content_filter" : "length"
}

/** A stream of Chat Completions ends, and says the truth: the whole answer in front of `[DONE]`, or the error of its plan. */
export const rule =
  (all: Array<HeardChat>): Rule =>
  (observed) =>
    // The next run begins with none.
    all.splice(0).flatMap(({ broken, end, finish, isClosed, plan: id, text }) => {
      const plan = observed.plans.find(({ plan }) => plan.plan_id === id)
      if (!isClosed || plan === undefined) return []
      if (end === undefined) return [`the chat of ${plan.name} ends in silence`]
      // A plan that nobody could resume ends with a code that streams have, too.
      if (broken !== undefined && codeOf(plan.plan.error?.code) !== end) {
        const isRetracted = end === "text_retracted" && plan.frames.some(({ event }) => event === "text.retract")
        return isRetracted || (end !== "text_retracted" && isExplained(observed, broken))
          ? []
          : [`the chat of ${plan.name} breaks off with ${end}`]
      }
      const { error, state } = plan.plan
      if (end !== "[DONE]") {
        return codeOf(error?.code) === end ? [] : [`the chat of ${plan.name} ends with ${end}`]
      }
      if (state !== "completed") return [`the chat of ${plan.name} is done, and the plan is ${state}`]
      if (finish !== finishOf(plan)) return [`the chat of ${plan.name} ends for ${finish}, not ${finishOf(plan)}`]
      const said = textOf(plan)
      return text === said ? [] : [`the chat of ${plan.name} says "${text}", the plan "${said}"`]
    })

const Completion = Schema.Struct({
  choices: Schema.Tuple([
    Schema.Struct({ message: Schema.Struct({ content: Schema.String }), finish_reason: Schema.String })
  ]),
  usage: Schema.Struct({ prompt_tokens: Schema.Int, completion_tokens: Schema.Int })
})
const decodeCompletion = Schema.decodeUnknownSync(Schema.fromJsonString(Completion))

/** The answer to a client that did not ask for a stream. */
export interface HeardCompletion {
  readonly plan: PlanId
  readonly told: typeof Completion.Type | WholeFailure
}

/** Asks, and waits for the answer as one object. Behind it the caller reads the plan. */
export const whole =
  (
    wire: Wire["Service"],
    all: Array<HeardCompletion>,
    read: ReplicaClient["Service"]["read"]
  ): ReplicaClient["Service"]["start"] =>
  (asked, { begin, take }) =>
    Effect.gen(function* () {
      const fields = (question: Parameters<typeof questionOf>[0]) => ({ ...questionOf(question), stream: false })
      const { failure, plan, text = "" } = yield* askWholeOpenAi(wire, "/v1/chat/completions", asked, fields)
      all.push({ plan, told: failure ?? decodeCompletion(text) })
      yield* begin(plan)
      yield* read(plan, 0, { begin: () => Effect.void, take })
    }).pipe(Effect.scoped)

/** The object has the whole answer and what it has used, or the error of its plan. */
export const wholeRule =
  (all: Array<HeardCompletion>): Rule =>
  ({ plans }) =>
    // The next run begins with none.
    all.splice(0).flatMap(({ plan: id, told }) => {
      const plan = plans.find(({ plan }) => plan.plan_id === id)
      if (plan === undefined) return [`the completion of ${id} is of no plan that is stored`]
      const { error, usage } = plan.plan
      const said = (what: string) => [`the completion of ${plan.name} ${what}`]
      if ("code" in told) {
        const isTrue = told.code === codeOf(error?.code) && told.mayRetry === error?.retryable
        return isTrue ? [] : said(`fails with ${JSON.stringify(told)}, the plan with ${JSON.stringify(error)}`)
      }
      const [{ finish_reason, message }] = told.choices
      if (error !== null || message.content !== textOf(plan)) return said(`says "${message.content}"`)
      if (finish_reason !== finishOf(plan)) return said(`ends for ${finish_reason}, not ${finishOf(plan)}`)
      const { completion_tokens, prompt_tokens } = told.usage
      return prompt_tokens === usage.input_tokens && completion_tokens === usage.output_tokens
        ? []
        : said(`has used ${JSON.stringify(told.usage)}, the plan ${JSON.stringify(usage)}`)
    })
