import { PlanId } from "@bowline/domain/plan/Plan"
import { contentType, Problem } from "@bowline/protocol/unstable/api/Problem"
import { Broken, type ReplicaClient, Refused } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Effect, Option, Schema, Stream } from "effect"
import type { IncomingMessage } from "node:http"
import type { Wire } from "./MemoryServer.ts"

const planOf = Schema.decodeUnknownSync(PlanId)
const decodeProblem = Schema.decodeUnknownEffect(Schema.fromJsonString(Problem))
const decodeOpenAi = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ error: Schema.Struct({ code: Schema.String, message: Schema.String }) }))
)

/** What refuses a request in JSON-RPC. */
export const RpcError = Schema.Struct({
  error: Schema.Struct({ code: Schema.Int, message: Schema.String, data: Schema.optionalKey(Schema.Json) })
})
const decodeRpc = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Union([RpcError, Schema.Struct({ result: Schema.Json })]))
)
const Cause = Schema.Tuple([
  Schema.Struct({ metadata: Schema.Struct({ code: Schema.String, plan_id: Schema.optionalKey(PlanId) }) })
])
const decodeCause = Schema.decodeUnknownOption(Cause)

/** The code of the gateway in an error of A2A, if it has one, and the plan that may still run. */
export const causeOf = ({ error }: typeof RpcError.Type): Refusal =>
  Option.match(decodeCause(error.data), {
    onNone: () => ({ code: `${error.code} ${error.message}` }),
    onSome: ([{ metadata }]) => metadata
  })

/** A question as a caller of the simulation posts it. */
export const decodeQuestion = Schema.decodeUnknownSync(
  Schema.Struct({
    question: Schema.String,
    session_id: Schema.String,
    agents: Schema.Json,
    mcp_servers: Schema.Json,
    preferences: Schema.Record(Schema.String, Schema.Json)
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

interface Refusal {
  readonly code: string
  readonly plan_id?: PlanId
}

/** A little later the same request may have another answer: the replica is not ready, or the caller has asked too often. */
const passing: ReadonlyArray<number | undefined> = [429, 503]

const notRefused = <E>(answer: IncomingMessage, refusalOf: (text: string) => Effect.Effect<Refusal, E>) =>
  Effect.gen(function* () {
    if ((answer.statusCode ?? 0) < 300) return answer
    const text = yield* textOf(answer)
    const refusal = yield* Effect.orElseSucceed(refusalOf(text), () => undefined)
    if (refusal === undefined) return yield* Effect.die(`No problem document: ${answer.statusCode} ${text}`)
    const { code, plan_id: plan } = refusal
    return yield* new Refused({ code, isPassing: passing.includes(answer.statusCode), plan })
  })

/** The answer, if the request is not refused. A refusal that is no problem document is a bug. */
export const accepted = (answer: IncomingMessage) =>
  notRefused(answer, (text) =>
    Effect.flatMap(decodeProblem(text), (problem) =>
      answer.headers["content-type"] === contentType && answer.statusCode === problem.status
        ? Effect.succeed(problem)
        : Effect.fail("Another status")
    )
  )

/** The same of an answer in the words of OpenAI's API. */
export const acceptedChat = (answer: IncomingMessage) =>
  notRefused(answer, (text) => Effect.map(decodeOpenAi(text), ({ error }) => error))

type Question = ReturnType<typeof decodeQuestion>

/** Asks by a route of OpenAI's API, with the fields that it has of its own, and gives the answer, whatever it is. */
const postOpenAi = (
  wire: Wire["Service"],
  path: string,
  { body, key }: Parameters<ReplicaClient["Service"]["start"]>[0],
  fieldsOf: (question: Question) => object
) => {
  const question = decodeQuestion(body)
  const { agents, mcp_servers, preferences, session_id } = question
  const headers = {
    "content-type": "application/json",
    "x-bowline-session": session_id,
    ...(key !== undefined && { "idempotency-key": key })
  }
  const bowline = { agents, mcp_servers, preferences }
  const sent = JSON.stringify({ model: "bowline", stream: true, bowline, ...fieldsOf(question) })
  return wire.ask({ method: "POST", path, headers }, sent)
}

const planIn = (answer: IncomingMessage): PlanId => planOf(answer.headers["x-bowline-plan-id"])

/** The answer and its plan. */
export const askOpenAi = (...given: Parameters<typeof postOpenAi>) =>
  Effect.map(Effect.flatMap(postOpenAi(...given), acceptedChat), (answer) => ({ answer, plan: planIn(answer) }))

/** The code for which clients of OpenAI's API look. */
export const codeOf = (code: string | undefined) => (code === "context_overflow" ? "context_length_exceeded" : code)

/** How a plan has failed, for a client that did not ask for a stream. */
export interface WholeFailure {
  readonly status: number
  readonly code: string
  /** Clients of OpenAI's API may ask again. */
  readonly mayRetry: boolean
}

/** The plan and the answer as one object, or how the plan has failed: then the status is that of an error, and the answer names the plan. */
export const askWholeOpenAi = Effect.fnUntraced(function* (...given: Parameters<typeof postOpenAi>) {
  const answer = yield* postOpenAi(...given)
  const { headers, statusCode: status = 0 } = answer
  const isEnd = status >= 300 && headers["x-bowline-plan-id"] !== undefined && status !== 503
  if (!isEnd) return { plan: planIn(yield* acceptedChat(answer)), text: yield* textOf(answer) }
  const { error } = yield* Effect.orDie(decodeOpenAi(yield* textOf(answer)))
  const failure: WholeFailure = { status, code: error.code, mayRetry: headers["x-should-retry"] !== "false" }
  return { plan: planIn(answer), failure }
})

const refusedRpc = (answer: IncomingMessage, failed: typeof RpcError.Type) => {
  const { code, plan_id: plan } = causeOf(failed)
  return new Refused({ code, isPassing: passing.includes(answer.statusCode), plan })
}

/** The result of an answer in JSON-RPC, whose refusals may have the status of success. */
export const resultOf = (answer: IncomingMessage) =>
  Effect.gen(function* () {
    const body = yield* Effect.orDie(decodeRpc(yield* textOf(answer)))
    return "result" in body ? body.result : yield* refusedRpc(answer, body)
  })

/** The same of a stream. */
export const acceptedRpc = (answer: IncomingMessage) =>
  answer.headers["content-type"] === "text/event-stream"
    ? Effect.succeed(answer)
    : Effect.flatMap(resultOf(answer), (result) => Effect.die(`No stream: ${JSON.stringify(result)}`))
