import { isSettled } from "@bowline/domain/plan/Plan"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import * as Forks from "@bowline/runtime/unstable/plan/Forks"
import * as PromptEstimate from "@bowline/runtime/unstable/planner/PromptEstimate"
import { Effect } from "effect"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { invalid } from "../../http/Refusals.ts"
import { type OpenAiPlans, presetOf } from "../openai/OpenAiPlans.ts"
import { refuse } from "../question/ToldHistory.ts"
import * as ItemReferences from "./ItemReferences.ts"
import * as PreviousResponse from "./PreviousResponse.ts"
import * as ResponseInput from "./ResponseInput.ts"
import * as ResponseRequest from "./ResponseRequest.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** Counts the tokens with which a response would begin, for a body of `POST /v1/responses`. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans) {
  const resolve = ItemReferences.make(stored)
  const previousOf = yield* PreviousResponse.make(stored)
  const isLast = yield* PreviousResponse.makeIsLast
  const branchBehind = yield* Forks.makeBranch
  const { permissions, plans } = yield* GatewayConfig
  const estimate = yield* PromptEstimate.make({ model: plans.model, permissions })
  const { takeRequest } = yield* QuestionFiles.make

  return Effect.fnUntraced(function* (body: Readonly<Record<string, unknown>>) {
    const caller = yield* Caller
    const whole = yield* resolve(caller, body)
    const asked = yield* Effect.mapError(Effect.fromResult(ResponseRequest.decode(whole)), invalid)
    yield* openAi.expectModel(asked.model)
    if (asked.request === undefined) return yield* invalid([ResponseInput.noQuestion])
    const previous = asked.previous === undefined ? undefined : yield* previousOf(caller, asked.previous, true)
    const request = { ...asked.request, ...presetOf(asked.model), ...PreviousResponse.sessionOf(previous) }
    const taken = yield* Effect.catchTag(takeRequest(caller, request), "InvalidRequest", refuse(asked.renamed))
    const isBranch = previous !== undefined && isSettled(previous) && !(yield* isLast(caller, previous))
    const begun = isBranch ? yield* branchBehind(caller, previous.plan_id) : undefined
    return { object: "response.input_tokens" as const, input_tokens: yield* estimate(caller, taken, begun) }
  })
})
