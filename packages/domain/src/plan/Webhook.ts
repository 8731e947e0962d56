import { Schema } from "effect"
import { HttpUrl } from "../peer/Agent.ts"
import { headersWithout } from "../mcp/McpServer.ts"
import type { Waiting } from "./Inbox.ts"

/** What a webhook can tell of a plan: that it is over, or that it begins to wait. */
export const WebhookEvent = Schema.Literals([
  "plan.completed",
  "plan.failed",
  "plan.aborted",
  "plan.waiting",
  "approval.requested"
])
export type WebhookEvent = typeof WebhookEvent.Type

const secretPattern = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/

/** Whether the text is a secret of Standard Webhooks: `whsec_`, and its bytes in base64. */
export const isWebhookSecret = (text: string): boolean => text.length <= 1_024 && secretPattern.test(text)

/** Headers that Standard Webhooks, HTTP or the connection sets. */
const reservedHeader =
  /^(webhook-.*|content-.*|connection|date|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|user-agent)$/i

/**
 * A place that is told how a plan ends, and that it waits: an HTTP POST in the shape of Standard Webhooks. Without `events` it is told of all. It is signed with the
 * secret, or with the key of the gateway's DID where there is none. With `include: ["final"]` it is told the answer, too.
 */
export const Webhook = Schema.Struct({
  url: HttpUrl.check(Schema.isMaxLength(2_048)),
  events: Schema.optionalKey(Schema.Array(WebhookEvent).check(Schema.isMinLength(1))),
  secret: Schema.optionalKey(
    Schema.RedactedFromValue(
      Schema.String.check(
        Schema.makeFilter((text) => isWebhookSecret(text) || "Expected whsec_ and the secret's bytes in base64")
      )
    )
  ),
  secret_env_var: Schema.optionalKey(Schema.NonEmptyString.check(Schema.isMaxLength(256))),
  headers: Schema.optionalKey(headersWithout(reservedHeader)),
  include: Schema.optionalKey(Schema.Array(Schema.Literal("final")))
}).check(
  Schema.makeFilter(({ secret, secret_env_var }) =>
    secret !== undefined && secret_env_var !== undefined
      ? { path: ["secret"], issue: "Expected either secret or secret_env_var" }
      : undefined
  )
)
export type Webhook = typeof Webhook.Type

/** The webhooks of a request, a preset or the configuration. */
export const Webhooks = Schema.Array(Webhook).check(Schema.isMaxLength(4))

/** What has become of a delivery: it is to be tried (again), the receiver has taken it, or it is given up. */
export const DeliveryState = Schema.Literals(["pending", "delivered", "dropped"])
export type DeliveryState = typeof DeliveryState.Type

/**
 * One event of a plan for one webhook. `last_status` is the status of the last answer, null where none came. `next_try_at` is ISO 8601 in UTC, null
 * unless it is pending.
 */
export const Delivery = Schema.Struct({
  delivery_id: Schema.String,
  url: Schema.String,
  event: WebhookEvent,
  state: DeliveryState,
  tries: Schema.Int,
  last_status: Schema.NullOr(Schema.Int),
  next_try_at: Schema.NullOr(Schema.String)
})
export type Delivery = typeof Delivery.Type

/** What a webhook is told of a call that begins to wait: no text of anybody. */
export type WaitTold = Pick<Waiting, "task_id" | "kind" | "tool" | "agent" | "expires_at">
