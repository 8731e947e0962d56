import type { McpCall, McpQuestion } from "@bowline/runtime/remote/McpClient"
import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import type { Client, ElicitResult, RequestId } from "@modelcontextprotocol/client"
import { Effect, Option, Queue, Schema } from "effect"
import * as Pending from "./PendingCall.ts"

/** How long a server may take to end a call whose question was cancelled, before the call is cancelled, too. */
const farewell = "5 seconds"

/** How many questions of one call may wait for their turn. */
const maxWaiting = 10

/** What the gateway tells a server that it answers. */
export const capability = { elicitation: { form: {}, url: {} } }

interface Asked {
  readonly question: McpQuestion
  readonly reply: (result: ElicitResult) => void
  /** Returns when the server does not ask any more. */
  readonly withdrawn: Effect.Effect<void>
}

interface OpenCall {
  readonly questions: Queue.Queue<Asked>
  /** How many of its questions have no answer. */
  asks: number
}

const decode = Schema.decodeUnknownOption(Pending.Elicitation)

/** Forms of these revisions are flat, and so is what they take. */
const decodeAnswer = Schema.decodeUnknownOption(
  Schema.Struct({
    action: Schema.Literals(["accept", "decline", "cancel"]),
    content: Schema.optionalKey(
      Schema.Record(
        Schema.String,
        Schema.Union([Schema.String, Schema.Finite, Schema.Boolean, Schema.mutable(Schema.Array(Schema.String))])
      )
    )
  })
)

const cancel: ElicitResult = { action: "cancel" }

const whenAborted = (signal: AbortSignal): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const tell = () => resume(Effect.void)
    if (signal.aborted) return tell()
    signal.addEventListener("abort", tell, { once: true })
    return Effect.sync(() => signal.removeEventListener("abort", tell))
  })

/**
 * What a server of a revision with a handshake asks while a call is open. Nothing on the wire says which call a question is of: where several of the plan
 * are open, it is shown with the oldest one that asks nothing. Its answer goes to the server's own request in any case.
 */
export class Elicitations {
  readonly #calls = new Set<OpenCall>()

  /** `expectReply` has the reply to this request sent, whatever else is on its way. */
  constructor(client: Client, redaction: Redaction, expectReply: (id: RequestId) => void) {
    client.setRequestHandler("elicitation/create", ({ params }, { mcpReq: { id, signal } }) => {
      const calls = Array.from(this.#calls)
      const call = calls.find(({ asks }) => asks === 0) ?? calls[0]
      const asked = Option.getOrUndefined(decode(params))
      if (call === undefined || asked === undefined || call.asks >= maxWaiting) return cancel
      expectReply(id)
      const { promise, resolve } = Promise.withResolvers<ElicitResult>()
      call.asks++
      const question = Pending.questionOf(asked, redaction)
      const withdrawn = whenAborted(signal)
      Queue.offerUnsafe(call.questions, { question, reply: resolve, withdrawn })
      return promise.finally(() => call.asks--)
    })
  }

  /**
   * Makes a request of a call, and has what the server asks meanwhile answered, one question after the other. A question that nobody answers in time, or
   * that nobody can be asked, is cancelled, and so is the request.
   */
  during<A, E>(
    request: Effect.Effect<A, E>,
    answer: NonNullable<McpCall["answer"]>
  ): Effect.Effect<A | "timed-out" | "input-required", E> {
    return Effect.gen({ self: this }, function* () {
      const call: OpenCall = { questions: yield* Queue.unbounded<Asked>(), asks: 0 }
      this.#calls.add(call)
      let unanswered: "timed-out" | "input-required" | undefined
      const answering = Effect.gen(function* () {
        for (;;) {
          const { question, reply, withdrawn } = yield* Queue.take(call.questions)
          const given = yield* Effect.raceFirst(answer(question), Effect.as(withdrawn, "withdrawn" as const)).pipe(
            Effect.onInterrupt(() => Effect.sync(() => reply(cancel)))
          )
          if (given === "withdrawn") {
            reply(cancel)
            continue
          }
          if (given === undefined || given === "expired") {
            unanswered = given === undefined ? "input-required" : "timed-out"
            reply(cancel)
            yield* Effect.sleep(farewell)
            return unanswered
          }
          reply(Option.getOrElse(decodeAnswer(given), () => cancel))
        }
      })
      const end = Effect.gen({ self: this }, function* () {
        this.#calls.delete(call)
        for (const { reply } of yield* Queue.clear(call.questions)) reply(cancel)
      })
      const ended = yield* Effect.ensuring(Effect.raceFirst(request, answering), end)
      return unanswered ?? ended
    })
  }
}
