import { Decision } from "@bowline/domain/plan/Approval"
import { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Effect, Option, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { ownerOf } from "../http/BearerAuthorization.ts"
import { answer } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

const approvalId = Schema.decodeUnknownOption(Schema.Struct({ plan_id: PlanId, task_id: TaskId }))

/** Shows the calls that wait for a decision, and takes decisions. */
export const layer = HttpApiBuilder.group(
  Api,
  "approvals",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const { isAdmin, maxBody } = yield* GatewayConfig
    const findOwner = yield* ownerOf
    const readDecision = readJson(Decision, maxBody)

    return handlers
      .handle("list", ({ query: { caller: named, ...page } }) =>
        Effect.gen(function* () {
          const { items, next } = yield* plans.approvals(yield* findOwner(named), page)
          return { approvals: items, next_cursor: next }
        }).pipe(answer)
      )
      .handleRaw("decide", ({ params, request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const decision = yield* readDecision(request)
          const approval = approvalId({ plan_id: params.id, task_id: params.task_id })
          if (Option.isNone(approval)) return yield* new NotFound({ what: "approval" })
          const decider = { caller, isAdmin: isAdmin(caller) }
          const standing = yield* plans.decide(decider, approval.value, decision)
          return HttpServerResponse.jsonUnsafe({ ...approval.value, ...standing })
        }).pipe(answer)
      )
  })
)
