import { type Plan, isSettled } from "@bowline/domain/plan/Plan"
import { isWebhookSecret, type Webhook } from "@bowline/domain/unstable/plan/Webhook"
import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
import { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import * as PlanWebhooks from "@bowline/runtime/unstable/plan/PlanWebhooks"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { type ClaimedTarget, type DueDelivery, PushStore, type Tried } from "@bowline/runtime/unstable/store/PushStore"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Clock, Effect, Option, Random, Redacted, Result } from "effect"
import { HttpClient } from "effect/http"
import { logDropped, post } from "./Post.ts"
import { signWith } from "./WebhookSignature.ts"
import type { Notify } from "./Targets.ts"

const deliveries = counter({
  name: "bowline.webhook.deliveries",
  description:
    "Deliveries to webhooks: those that arrived, tries that failed, those that were dropped, and receivers that said that they are gone",
  labels: { result: ["delivered", "failed", "dropped", "gone"] }
})

/** The wait before the second try, the longest one, and how long the same delivery is tried, in milliseconds. */
const firstWait = 1_000
const longestWait = 3_600_000
const patience = 86_400_000

/** A wait that is shorter than this is waited for here; behind a longer one the webhook is claimed again. */
const waitHere = 5_000

/** How a delivery is signed, and with which headers it goes out. */
interface Signing {
  readonly sign: (text: string) => string
  readonly headers: Readonly<Record<string, string>>
}

/** What is told of a plan: ids, and its answer only where the webhook wants it. */
const bodyOf = (plan: Plan, { at, event, wait }: DueDelivery, hasFinal: boolean) => {
  const { error, external_session_id, final, metadata, plan_id, session_id, state } = plan
  const ends =
    state === "completed"
      ? { stop_reason: final?.stop_reason, ...(hasFinal && { final: final?.text }) }
      : state === "failed"
        ? { code: error?.code }
        : { reason: error?.reason }
  const told = wait === null ? { state, ...(isSettled(plan) && ends) } : { state: "waiting", waiting: wait }
  return { type: event, timestamp: at, data: { plan_id, session_id, external_session_id, ...told, metadata } }
}

/**
 * Tells one webhook what is pending, in order: Standard Webhooks. What is not taken is tried again, by this replica or another one: the row says when. `webhooks` are
 * those of the configuration for a preset, as they are now.
 */
export const makeNotify = Effect.fnUntraced(function* (configured: (url: string) => Webhook | undefined) {
  const client = yield* HttpClient.HttpClient
  const store = yield* PushStore
  const plans = yield* PlanStore
  const key = yield* SecretKey
  const identity = yield* GatewayIdentity
  const { get } = yield* EnvironmentSecrets

  /** With the reason why it cannot be signed. */
  const signingOf = Effect.fnUntraced(function* ({
    owner,
    target
  }: ClaimedTarget): Effect.fn.Return<Result.Result<Signing, string>> {
    const { is_configured = false, secret_env_var = null } = target.webhook ?? {}
    const ours = is_configured ? configured(target.url) : undefined
    if (is_configured && ours === undefined) return Result.fail("the configuration does not name it any more")
    const opened = PlanWebhooks.open(owner, target, key)
    if (Option.isNone(opened)) {
      return Result.fail("its secret cannot be read: set BOWLINE_SECRET_KEY, the same on all replicas")
    }
    const { headers = {}, secret } = ours === undefined ? opened.value : PlanWebhooks.secretsOf(ours)
    const variable = ours === undefined ? secret_env_var : ours.secret_env_var
    const named = variable == null ? secret : Option.getOrUndefined(Option.map(yield* get(variable), Redacted.value))
    if (named !== undefined && isWebhookSecret(named)) return Result.succeed({ sign: signWith(named), headers })
    if (variable != null) return Result.fail(`${variable} does not hold whsec_ and the secret's bytes in base64`)
    return Result.fromOption(identity, () => "the gateway has no key to sign with: set BOWLINE_DID_SEED").pipe(
      Result.map(({ sign }) => ({
        sign: (text: string) => `v1a,${Buffer.from(sign(text)).toString("base64")}`,
        headers
      }))
    )
  })

  const attempt = Effect.fnUntraced(function* (claimed: ClaimedTarget, next: DueDelivery) {
    const signing = yield* signingOf(claimed)
    const now = yield* Clock.currentTimeMillis
    if (Result.isFailure(signing)) return { reason: signing.failure, status: null, waitInMs: 0, isHopeless: true, now }
    const plan = yield* plans.get(claimed.owner, claimed.task_id)
    const body = JSON.stringify(bodyOf(plan, next, claimed.target.webhook?.has_final ?? false))
    const timestamp = String(Math.floor(now / 1_000))
    const { headers, sign } = signing.success
    return yield* post(client, claimed.target.url, body, {
      ...headers,
      "content-type": "application/json",
      "webhook-id": next.delivery_id,
      "webhook-timestamp": timestamp,
      "webhook-signature": sign(`${next.delivery_id}.${timestamp}.${body}`)
    }).pipe(
      Effect.map((status) => ({ status, now })),
      Effect.catchTags({
        NotTaken: ({ reason, status, waitInMs }) =>
          Effect.succeed({ reason, status, waitInMs, isHopeless: false, now }),
        Gone: () => Effect.succeed({ status: 410, now })
      })
    )
  })

  /** What an attempt has come to, once it is counted. */
  const judge = Effect.fnUntraced(function* (
    claimed: ClaimedTarget,
    { failing_since: before, tries }: DueDelivery,
    made: Effect.Success<ReturnType<typeof attempt>>
  ) {
    const { now, status } = made
    const done = { status, failing_since: null, retryInMs: 0, isGone: status === 410 }
    if (!("reason" in made)) {
      yield* deliveries.update(1, { result: done.isGone ? "gone" : "delivered" })
      return { ...done, state: done.isGone ? "dropped" : "delivered" } satisfies Tried
    }
    const failing_since = before ?? now
    if (made.isHopeless || now - failing_since >= patience) {
      yield* deliveries.update(1, { result: "dropped" })
      yield* logDropped(claimed, made.reason)
      return { ...done, state: "dropped", failing_since } satisfies Tried
    }
    yield* deliveries.update(1, { result: "failed" })
    const jitter = yield* Random.nextBetween(0.8, 1)
    const ours = Math.min(firstWait * 2 ** Math.min(tries, 20), longestWait) * jitter
    const retryInMs = Math.max(ours, Math.min(made.waitInMs, longestWait))
    return { ...done, state: "pending", failing_since, retryInMs } satisfies Tried
  })

  const notify: Notify = Effect.fnUntraced(
    function* (claimed) {
      for (;;) {
        const next = yield* store.nextDelivery(claimed)
        if (Option.isNone(next)) return
        const { delivery_id, dueInMs } = next.value
        if (dueInMs > 0) {
          if (!(yield* store.tried(claimed, delivery_id, { retryInMs: dueInMs })) || dueInMs > waitHere) return
          yield* Effect.sleep(dueInMs)
          continue
        }
        const tried: Tried = yield* judge(claimed, next.value, yield* attempt(claimed, next.value))
        if (!(yield* store.tried(claimed, delivery_id, tried)) || tried.isGone) return
      }
    },
    (notifying, { owner, task_id }) =>
      notifying.pipe(
        // The session was deleted.
        Effect.catchTag("NotFound", () => Effect.void),
        Effect.catchCause((cause) => Effect.logWarning("push_failed", cause)),
        Effect.annotateLogs({ caller: owner, plan_id: task_id })
      )
  )
  return notify
})
