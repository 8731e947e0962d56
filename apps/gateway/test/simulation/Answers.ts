import { contentType, Problem } from "@bowline/protocol/unstable/api/Problem"
import { Broken, Refused } from "@bowline/testing/unstable/simulation/Door"
import { Effect, Schema, Stream } from "effect"
import type { IncomingMessage } from "node:http"

const decodeProblem = Schema.decodeUnknownEffect(Schema.fromJsonString(Problem))
const decodeOpenAi = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ error: Schema.Struct({ code: Schema.String, message: Schema.String }) }))
)

const decodeRpc = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ error: Schema.Struct({ code: Schema.Int, message: Schema.String }) }))
)

/** A question as a caller of the simulation posts it. */
export const decodeQuestion = Schema.decodeUnknownSync(
  Schema.Struct({
    question: Schema.String,
    session_id: Schema.String,
    agents: Schema.Json,
    preferences: Schema.Json
  })
)

const textsOf = (answer: IncomingMessage) =>
  Stream.decodeText(Stream.fromAsyncIterable<Uint8Array, Broken>(answer, () => new Broken()))

/** The body of an answer. */
export const textOf = (answer: IncomingMessage) => Stream.mkString(textsOf(answer))

/** Gives the blocks of an event stream as they come, without their ends. One that has not ended when the stream does was cut. */
export const onBlocks = <E>(
  answer: IncomingMessage,
  take: (blocks: ReadonlyArray<string>) => Effect.Effect<void, E>
): Effect.Effect<void, E | Broken> =>
  Effect.suspend(() => {
    let rest = ""
    return Stream.runForEach(textsOf(answer), (text) => {
      const blocks = (rest + text).split("\n\n")
      rest = blocks.pop() ?? ""
      return take(blocks)
    }).pipe(Effect.andThen(Effect.suspend(() => (rest === "" ? Effect.void : Effect.fail(new Broken())))))
  })

const notRefused = <E>(answer: IncomingMessage, codeOf: (text: string) => Effect.Effect<string, E>) =>
  Effect.gen(function* () {
    if ((answer.statusCode ?? 0) < 300) return answer
    const text = yield* textOf(answer)
    const code = yield* Effect.orElseSucceed(codeOf(text), () => undefined)
    if (code === undefined) return yield* Effect.die(`No problem document: ${answer.statusCode} ${text}`)
    return yield* new Refused({ code, isPassing: code === "unavailable" || code === "draining" })
  })

/** The answer, if the request is not refused. A refusal that is no problem document is a bug. */
export const accepted = (answer: IncomingMessage) =>
  notRefused(answer, (text) =>
    Effect.flatMap(decodeProblem(text), ({ code, status }) =>
      answer.headers["content-type"] === contentType && answer.statusCode === status
        ? Effect.succeed(code)
        : Effect.fail("Another status")
    )
  )

/** The same of an answer in the words of OpenAI's API. */
export const acceptedChat = (answer: IncomingMessage) =>
  notRefused(answer, (text) => Effect.map(decodeOpenAi(text), ({ error }) => error.code))

/** The same of an answer in JSON-RPC, whose refusals may have the status of success. */
export const acceptedRpc = (answer: IncomingMessage) =>
  Effect.gen(function* () {
    if (answer.headers["content-type"] === "text/event-stream") return answer
    const { error } = yield* Effect.orDie(decodeRpc(yield* textOf(answer)))
    return yield* new Refused({ code: `${error.code} ${error.message}`, isPassing: answer.statusCode === 503 })
  })
