import { PlanId } from "@bowline/domain/plan/Plan"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { answer, idOf } from "../http/Refusals.ts"
import { readNothing } from "../http/RequestBody.ts"
import { Webhooks } from "../push/Webhooks.ts"

const planId = idOf(PlanId, "plan")

/** Shows what the webhooks of plans were told, and delivers once more. */
export const layer = HttpApiBuilder.group(
  Api,
  "webhooks",
  Effect.fnUntraced(function* (handlers) {
    const webhooks = yield* Webhooks
    const { maxBody } = yield* GatewayConfig
    const expectNothing = readNothing(maxBody)
    return handlers
      .handle("list", ({ params }) =>
        Effect.gen(function* () {
          return { deliveries: yield* webhooks.list(yield* Caller, yield* planId(params.id)) }
        }).pipe(answer)
      )
      .handle("retry", ({ params, request }) =>
        Effect.gen(function* () {
          yield* expectNothing(request)
          return yield* webhooks.retry(yield* Caller, yield* planId(params.id), params.delivery_id)
        }).pipe(answer)
      )
  })
)
