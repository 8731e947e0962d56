import { PlanId } from "@bowline/domain/plan/Plan"
import { GivenFeedback } from "@bowline/domain/unstable/plan/Feedback"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { FeedbackStore } from "@bowline/runtime/unstable/store/FeedbackStore"
import { Clock, Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { answer, idOf } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

const planId = idOf(PlanId, "plan")

/** Takes and shows what callers say of their plans, and admins of anybody's. */
export const layer = HttpApiBuilder.group(
  Api,
  "feedback",
  Effect.fnUntraced(function* (handlers) {
    const store = yield* FeedbackStore
    const { isAdmin, maxBody } = yield* GatewayConfig
    const readFeedback = readJson(GivenFeedback, maxBody)
    const ownerOf = (caller: typeof Caller.Service) => (isAdmin(caller) ? undefined : caller)
    return handlers
      .handleRaw("give", ({ params, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const plan_id = yield* planId(params.id)
          const { comment = null, labels = [], score } = yield* readFeedback(request)
          const at = fromMillis(yield* Clock.currentTimeMillis)
          const given = { plan_id, caller, score, comment, labels: [...new Set(labels)], at }
          yield* store.give(ownerOf(caller), given)
          return HttpServerResponse.jsonUnsafe(given)
        }).pipe(answer)
      )
      .handle("list", ({ params }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          return { feedback: yield* store.list(ownerOf(caller), yield* planId(params.id)) }
        }).pipe(answer)
      )
  })
)
