import { Delivery } from "@bowline/domain/unstable/plan/Webhook"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Internal, InvalidRequest, NotFound, PayloadTooLarge, Unavailable } from "../api/Problem.ts"

const delivery = Delivery.annotate({ identifier: "Delivery" })
const failures = [Unavailable, Internal] as const
const plan = { id: Schema.String.annotate({ description: "`plan_id` of the plan" }) }

export class WebhooksApi extends HttpApiGroup.make("webhooks")
  .add(
    HttpApiEndpoint.get("list", "/plans/:id/webhooks", {
      params: plan,
      success: Schema.Struct({ deliveries: Schema.Array(delivery) }),
      error: [InvalidRequest, NotFound, ...failures]
    }).annotate(OpenApi.Summary, "What the webhooks of a plan were told, oldest first"),
    HttpApiEndpoint.post("retry", "/plans/:id/webhooks/:delivery_id/retry", {
      params: { ...plan, delivery_id: Schema.String.annotate({ description: "`delivery_id` of the delivery" }) },
      success: delivery.pipe(HttpApiSchema.status(202)),
      error: [InvalidRequest, NotFound, PayloadTooLarge, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Deliver once more",
        description: "At once, whatever has become of the delivery: also one that was dropped, or that has arrived."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Webhooks") {}
