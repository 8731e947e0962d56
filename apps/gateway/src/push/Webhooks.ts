import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { Delivery } from "@bowline/domain/unstable/plan/Webhook"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PushStore } from "@bowline/runtime/unstable/store/PushStore"
import { Context, Effect, Layer } from "effect"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { Targets } from "./Targets.ts"
import { makeNotify } from "./WebhookDelivery.ts"

/** Tells webhooks of plans, and shows their owners what was told. */
export class Webhooks extends Context.Service<
  Webhooks,
  {
    readonly list: (caller: CallerName, plan: PlanId) => Effect.Effect<ReadonlyArray<Delivery>, NotFound | StorageError>
    readonly retry: (
      caller: CallerName,
      plan: PlanId,
      delivery: Delivery["delivery_id"]
    ) => Effect.Effect<Delivery, NotFound | StorageError>
  }
>()("@bowline/gateway/push/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function* () {
      const store = yield* PushStore
      const plans = yield* Plans
      const { look, notifyBy, replica } = yield* Targets
      const { plans: ofAll, presets } = yield* GatewayConfig
      const configured = [...ofAll.webhooks, ...presets.flatMap(({ webhooks = [] }) => webhooks)]
      yield* notifyBy("webhook", yield* makeNotify((url) => configured.find((one) => one.url === url)))
      return {
        list: (caller, plan) => Effect.andThen(plans.get(caller, plan), store.deliveries(caller, plan)),
        retry: Effect.fnUntraced(function* (caller, plan, delivery) {
          const again = yield* store.retry(caller, plan, delivery, replica)
          const found = yield* Effect.fromOption(again).pipe(Effect.mapError(() => new NotFound({ what: "delivery" })))
          yield* look
          return found
        })
      }
    })
  )
}
