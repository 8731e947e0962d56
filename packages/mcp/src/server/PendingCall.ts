import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import type { McpAnswer, McpCall, McpQuestion } from "@bowline/runtime/remote/McpClient"
import { Effect, Option, Record, Schema } from "effect"

/** Characters of a question, of the URL of a page, and of all that another process needs to go on with a call. */
const maxMessage = 65_536
const maxUrl = 8_192
const maxMark = 1_048_576

const JsonObject = Schema.Record(Schema.String, Schema.Json)

const Page = Schema.Struct({
  mode: Schema.Literal("url"),
  message: Schema.String,
  url: Schema.String.check(Schema.isMaxLength(maxUrl))
})
const Form = Schema.Struct({
  mode: Schema.optionalKey(Schema.Literal("form")),
  message: Schema.String,
  requestedSchema: JsonObject
})

/** What `elicitation/create` asks: to visit a page, or to fill in a form. */
export const Elicitation = Schema.Union([Page, Form])
export type Elicitation = typeof Elicitation.Type

const Answers = Schema.Record(
  Schema.String,
  Schema.Struct({
    action: Schema.Literals(["accept", "decline", "cancel"]),
    content: Schema.optionalKey(JsonObject)
  })
)

/** What somebody has answered, by the names that the server gave to its requests. */
export type Answers = { readonly [name: string]: McpAnswer }

/**
 * How a call goes on with the answers: by the same request again, with the state that the server wants back; by the same request, now that the pages
 * were visited; or by telling them to the task that the server has made of the call, without those it was `told` before.
 */
const Way = Schema.Union([
  Schema.TaggedStruct("Retry", { state: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("Again", {}),
  Schema.TaggedStruct("Task", { taskId: Schema.String, told: Schema.Array(Schema.String) })
])

/** A call whose server has asked something, and holds nothing open meanwhile. `asks` are the questions without an answer: the first one is asked. */
const PendingCall = Schema.TaggedStruct("Pending", {
  input: JsonObject,
  way: Way,
  asks: Schema.Array(Schema.Tuple([Schema.String, Elicitation])),
  answers: Answers
})
export type Pending = typeof PendingCall.Type

const Mark = Schema.fromJsonString(PendingCall)
/** By what another process, or another attempt, resumes the call. */
export const encodeMark = Schema.encodeSync(Mark)

/** The call that an earlier process has left with this mark. */
export const read = Schema.decodeUnknownOption(Mark)

const decodeRequests = Schema.decodeUnknownOption(
  Schema.Record(Schema.String, Schema.Struct({ method: Schema.Literal("elicitation/create"), params: Elicitation }))
)
const decodeElicitations = Schema.decodeUnknownOption(
  Schema.Struct({ elicitations: Schema.Array(Page).check(Schema.isMinLength(1)) })
)

/** What the requests of a server ask; none if a person cannot be asked all of that. */
export const ofRequests = (input: McpCall["input"], way: Pending["way"], requests: unknown): Option.Option<Pending> =>
  Option.map(decodeRequests(requests ?? {}), (known) => ({
    _tag: "Pending",
    input,
    way,
    asks: Record.toEntries(known).map(([name, { params }]) => [name, params] as const),
    answers: {}
  }))

/** What an error asks that says which pages a person has to visit before the call can be made. */
export const ofError = (input: McpCall["input"], data: unknown): Option.Option<Pending> =>
  Option.map(decodeElicitations(data), ({ elicitations }) => ({
    _tag: "Pending",
    input,
    way: { _tag: "Again" },
    asks: elicitations.map((page, index) => [`${index}`, page] as const),
    answers: {}
  }))

/** A question as a person is asked it: without the secrets of the call. */
export const questionOf = (asked: Elicitation, redaction: Redaction): McpQuestion => {
  const message = redaction.text(asked.message).slice(0, maxMessage).toWellFormed()
  return asked.mode === "url"
    ? { message, schema: null, url: redaction.text(asked.url) }
    : {
        message,
        schema: Object.fromEntries(
          Object.entries(asked.requestedSchema).map(([key, value]) => [key, redaction.json(value)])
        )
      }
}

/** The answers to a question that is not asked, or that nobody has answered in time. */
export const cancelled = ({ answers, asks }: Pending): Answers => ({
  ...answers,
  ...Object.fromEntries(asks.map(([name]) => [name, { action: "cancel" as const }]))
})

/** The call, with answers to all that was asked. */
export const answered = (pending: Pending, answers: Answers): Pending => ({
  ...pending,
  asks: [],
  answers: Record.map(answers, ({ action, content }) => (content === undefined ? { action } : { action, content }))
})

/** Asks all that the server asks, one question after the other. */
export const answers = Effect.fnUntraced(function* (
  pending: Pending,
  answer: NonNullable<McpCall["answer"]>,
  redaction: Redaction
): Effect.fn.Return<Answers | "timed-out" | "input-required"> {
  let { answers } = pending
  for (const [at, [name, asked]] of pending.asks.entries()) {
    const mark = encodeMark({ ...pending, asks: pending.asks.slice(at), answers })
    const given = mark.length > maxMark ? undefined : yield* answer({ ...questionOf(asked, redaction), mark })
    if (given === undefined) return "input-required"
    if (given === "expired") return "timed-out"
    const { action, content } = given
    answers = { ...answers, [name]: content === undefined ? { action } : { action, content } }
  }
  return answers
})
