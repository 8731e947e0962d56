import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import { SessionCompaction } from "@bowline/runtime/plan/SessionCompaction"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Clock, Effect, Schema } from "effect"
import { budgetSpent, invalid, Refused } from "../../http/Refusals.ts"
import { given } from "../openai/ChatSampling.ts"
import type { OpenAiPlans } from "../openai/OpenAiPlans.ts"
import * as PreviousResponse from "./PreviousResponse.ts"
import { compactionItem } from "./ResponseItems.ts"
import { itemsOf } from "./SessionItems.ts"
import type { StoredResponses } from "./StoredResponses.ts"

const Body = Schema.Struct({
  model: Schema.String,
  previous_response_id: Schema.String.annotate({
    messageMissingKey: "Expected the last response of a conversation: only what is stored can be compacted"
  }),
  input: given(
    Schema.Union([Schema.Literal(""), Schema.Array(Schema.Unknown).check(Schema.isMaxLength(0))]).annotate({
      message: "Expected none: ask with it first, and then compact the response"
    })
  )
})
const decodeBody = Schema.decodeUnknownEffect(Body, { errors: "all", onExcessProperty: "ignore" })

/** Compacts the session of a response, and gives what a prompt has of it from now on, as items that another request may begin with. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans) {
  const isLast = yield* PreviousResponse.makeIsLast
  const sessions = yield* SessionStore
  const compaction = yield* SessionCompaction
  const previousOf = yield* PreviousResponse.make(stored)

  return Effect.fnUntraced(
    function* (sent: Readonly<Record<string, unknown>>) {
      const caller = yield* Caller
      const body = yield* Effect.mapError(decodeBody(sent), (error) => invalid(fromSchema(error)))
      yield* openAi.expectModel(body.model)
      const previous = yield* previousOf(caller, body.previous_response_id, true)
      const { plan_id, session_id } = previous
      if (!(yield* isLast(caller, previous))) {
        const message = "Expected the last response of its conversation"
        return yield* invalid([{ path: "previous_response_id", message }])
      }
      yield* compaction.compact(caller, session_id)
      const { agents } = yield* sessions.find(caller, session_id)
      const { priors, text } = yield* sessions.summary(session_id)
      const summary = [...priors, text ?? ""].filter((part) => part !== "").join("\n\n")
      const items = itemsOf(
        yield* sessions.history(session_id),
        agents.map(({ name }) => name)
      )
      return {
        id: `resp_${plan_id}`,
        object: "response.compaction" as const,
        created_at: Math.floor((yield* Clock.currentTimeMillis) / 1_000),
        output: summary === "" ? items : [compactionItem(plan_id, summary), ...items],
        usage: null
      }
    },
    Effect.catchTags({
      NoSummary: ({ message }) => Effect.fail(new Refused({ code: "unavailable", detail: message })),
      BudgetSpent: (spent) => Effect.fail(budgetSpent(spent))
    })
  )
})
