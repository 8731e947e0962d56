import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Options } from "@bowline/testing/simulation/Simulation"
import type { ReplicaClient, Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Effect, Schema } from "effect"
import { acceptedChat, askOpenAi, askWholeOpenAi, codeOf, decodeQuestion, onBlocks, textOf } from "./Answers.ts"
import { type BrokenOff, isExplained } from "./BrokenOff.ts"
import type { Wire } from "./MemoryServer.ts"

type Asked = Parameters<ReplicaClient["Service"]["start"]>[0]
type Question = ReturnType<typeof decodeQuestion>
type Rule = NonNullable<Options["rules"]>[string]

const Item = Schema.Struct({
  id: Schema.String,
  type: Schema.String,
  phase: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Struct({ text: Schema.String }))))
})
const Response = Schema.Struct({
  status: Schema.String,
  error: Schema.NullOr(Schema.Struct({ code: Schema.String })),
  output: Schema.Array(Item),
  usage: Schema.optionalKey(Schema.NullOr(Schema.Struct({ input_tokens: Schema.Int, output_tokens: Schema.Int })))
})
const Event = Schema.Struct({
  type: Schema.String,
  sequence_number: Schema.Int,
  code: Schema.optionalKey(Schema.String),
  item_id: Schema.optionalKey(Schema.String),
  delta: Schema.optionalKey(Schema.String),
  text: Schema.optionalKey(Schema.String),
  response: Schema.optionalKey(Response)
})
const decodeResponse = Schema.decodeUnknownSync(Schema.fromJsonString(Response))
const decodeEvent = Schema.decodeUnknownSync(Schema.fromJsonString(Event))

/** A stream of Responses as its client has read it. */
export interface HeardResponse {
  readonly plan: PlanId
  /** The blocks, without pings. */
  readonly blocks: Array<string>
  /** The texts that have come in deltas, by the ids of their items. */
  readonly texts: Map<string, string>
  /** The response in the last event that has one. */
  response: typeof Response.Type | undefined
  /** The type of the event that ends the stream. */
  end: string | undefined
  /** Why the stream breaks off, if it does. */
  broken: BrokenOff | undefined
  /** The gateway has ended the answer. */
  isClosed: boolean
}

const newResponse = (plan: PlanId): HeardResponse => ({
  plan,
  blocks: [],
  texts: new Map(),
  response: undefined,
  end: undefined,
  broken: undefined,
  isClosed: false
})

const texted = ({ content }: typeof Item.Type): string => (content ?? []).map(({ text }) => text).join("")

/** A response that came as one object. */
const hearWhole = (heard: HeardResponse, response: typeof Response.Type): void => {
  const { output, status } = response
  heard.response = response
  for (const item of output) heard.texts.set(item.id, texted(item))
  heard.end =
    status === "in_progress" ? "pause" : `response.${status === "cancelled" || status === "" ? "failed" : status}`
  heard.isClosed = true
}

const ends = ["response.completed", "response.incomplete", "response.failed", "error"]

const hear = (heard: HeardResponse, block: string, { process, world }: Site): void => {
  if (block.startsWith(":")) return
  if (heard.end !== undefined) throw new Error(`Something comes behind the end ${heard.end}: ${block}`)
  const [, type, data = ""] = /^event: (\S+)\ndata: (.*)$/.exec(block) ?? []
  const event = decodeEvent(data)
  if (event.type !== type) throw new Error(`No event: ${block}`)
  const { code = "", delta, item_id: id = "", response, sequence_number: number, text } = event
  const isEnd = ends.includes(type)
  const isPaused = response?.status === "in_progress" && isEnd
  // What the stream says for itself has the number of the event before it.
  const expected = heard.blocks.length - (isPaused || type === "error" ? 1 : 0)
  if (number !== Math.max(0, expected)) throw new Error(`Expected the number ${expected}: ${block}`)
  heard.blocks.push(block)
  if (delta !== undefined) heard.texts.set(id, (heard.texts.get(id) ?? "") + delta)
  if (type === "response.output_text.done" && text !== heard.texts.get(id)) throw new Error(`Another text: ${block}`)
  heard.response = response ?? heard.response
  if (isEnd) heard.end = isPaused ? "pause" : type
  if (type === "error") heard.broken = { code, replica: process.name, at: world.now }
}

const running: ReadonlyArray<string> = ["queued", "in_progress"]

/** A failure that came with the status of an error has no response. */
const failed = (code: string): typeof Response.Type => ({ status: "", error: { code }, output: [] })

const isInBackground = ({ preferences }: Question, { key }: Asked): boolean =>
  preferences["on_disconnect"] === "continue" && key !== undefined

const fieldsOf = (question: Question, asked: Asked) => ({
  input: question.question,
  background: isInBackground(question, asked)
})

/**
 * Asks as a client of OpenAI's Responses does. What comes shows only that the connection lives: behind the end of its plan the caller asks for the second half of
 * the events once more, and reads the plan.
 */
export const make = (
  site: Site,
  wire: Wire["Service"],
  all: Array<HeardResponse>,
  read: ReplicaClient["Service"]["read"]
) => {
  const start: ReplicaClient["Service"]["start"] = (asked, { begin, take }) =>
    Effect.gen(function* () {
      const { answer, plan } = yield* askOpenAi(wire, "/v1/responses", asked, (question) => fieldsOf(question, asked))
      const heard = newResponse(plan)
      all.push(heard)
      yield* begin(heard.plan)
      yield* onBlocks(answer, (blocks) => {
        for (const block of blocks) hear(heard, block, site)
        return take(["ping"])
      })
      heard.isClosed = true
      if (heard.broken !== undefined || heard.end === "pause") return
      const half = Math.floor(heard.blocks.length / 2)
      const path = `/v1/responses/resp_${heard.plan}?stream=true&starting_after=${half - 1}`
      const replayed: Array<string> = []
      yield* onBlocks(yield* acceptedChat(yield* wire.ask({ path })), (blocks) => {
        replayed.push(...blocks.filter((block) => !block.startsWith(":")))
        return take(["ping"])
      })
      const expected = heard.blocks.slice(half)
      if (!replayed.at(-1)?.startsWith("event: error") && replayed.join("\n") !== expected.join("\n")) {
        return yield* Effect.die(
          `The events of ${heard.plan} differ: ${replayed.join("\n")} are not ${expected.join("\n")}`
        )
      }
      yield* read(heard.plan, 0, { begin: () => Effect.void, take })
    }).pipe(Effect.scoped)

  /** The response as it is now. */
  const get = (plan: PlanId) =>
    wire
      .ask({ path: `/v1/responses/resp_${plan}` })
      .pipe(Effect.flatMap(acceptedChat), Effect.flatMap(textOf), Effect.map(decodeResponse), Effect.scoped)

  /** Asks, and waits for the response as one object, or looks for it as long as it goes on in the background. Behind its end the caller reads the plan. */
  const whole: ReplicaClient["Service"]["start"] = (asked, { begin, take }) =>
    Effect.gen(function* () {
      const given = yield* askWholeOpenAi(wire, "/v1/responses", asked, (question) => ({
        ...fieldsOf(question, asked),
        stream: false
      }))
      const { failure, plan } = given
      const heard = newResponse(plan)
      all.push(heard)
      yield* begin(plan)
      let response = failure === undefined ? decodeResponse(given.text) : failed(failure.code)
      while (isInBackground(decodeQuestion(asked.body), asked) && running.includes(response.status)) {
        yield* Effect.sleep(site.world.process.random.int(200, 3_000))
        response = yield* get(plan)
        yield* take(["ping"])
      }
      hearWhole(heard, response)
      if (heard.end !== "pause") yield* read(plan, 0, { begin: () => Effect.void, take })
    }).pipe(Effect.scoped)

  const cancel = (plan: PlanId) =>
    wire
      .ask({ method: "POST", path: `/v1/responses/resp_${plan}/cancel` })
      .pipe(Effect.flatMap(acceptedChat), Effect.flatMap(textOf), Effect.asVoid, Effect.scoped)

  return { start, whole, cancel }
}

/** A stream of Responses ends, and says the truth: the whole answer, the error of its plan, the calls that wait, or why it breaks off. */
export const rule =
  (all: Array<HeardResponse>): Rule =>
  (observed) =>
    // The next run begins with none.
    all.splice(0).flatMap(({ broken, end, isClosed, plan: id, response, texts }) => {
      const plan = observed.plans.find(({ plan }) => plan.plan_id === id)
      if (!isClosed || plan === undefined) return []
      const said = (what: string) => [`the response of ${plan.name} ${what}`]
      if (end === undefined) return said("ends in silence")
      if (broken !== undefined) return isExplained(observed, broken) ? [] : said(`breaks off with ${broken.code}`)
      const waits = response?.output.some(({ type }) => type === "mcp_approval_request") === true
      if (end === "pause") return waits ? [] : said("pauses, and nothing waits for a decision")
      const { error, final, state, usage } = plan.plan
      const used = response?.usage ?? usage
      if (used.input_tokens !== usage.input_tokens || used.output_tokens !== usage.output_tokens) {
        return said(`has used ${JSON.stringify(used)}, the plan ${JSON.stringify(usage)}`)
      }
      if (final === null) {
        const code = response?.error?.code
        const { reason = "" } = error ?? {}
        const status = ["cancelled", "superseded", "disconnect"].includes(reason) ? "cancelled" : "failed"
        return end === "response.failed" &&
          code === codeOf(error?.code) &&
          ["", status].includes(response?.status ?? "")
          ? []
          : said(`ends with ${end} ${code}, the plan is ${state}`)
      }
      if (end === "response.failed") return said(`has failed, and the plan is ${state}`)
      const isWhole = final.stop_reason === "stop" || final.stop_reason === "pause"
      if (end !== `response.${isWhole ? "completed" : "incomplete"}` || `response.${response?.status}` !== end) {
        return said(`ends with ${end} as ${response?.status}, the plan for ${final.stop_reason}`)
      }
      const messages = (response?.output ?? []).filter(({ type }) => type === "message")
      const untold = messages.filter((message) => texted(message) !== (texts.get(message.id) ?? ""))
      if (untold.length > 0) return said(`has texts that no event has told: ${JSON.stringify(untold)}`)
      const answer = messages
        .filter(({ phase }) => phase === "final_answer")
        .map(texted)
        .join("")
      return answer === final.text ? [] : said(`answers "${answer}", the plan "${final.text}"`)
    })
