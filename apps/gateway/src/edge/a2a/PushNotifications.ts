import { bodiesOf } from "@bowline/a2a/unstable/server/PushBody"
import type { PushConfig, Wire } from "@bowline/a2a/unstable/server/PushConfig"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import {
  type ClaimedTarget,
  type PushCursor,
  PushStore,
  type PushTarget,
  type TooManyPushTargets
} from "@bowline/runtime/unstable/store/PushStore"
import * as Sealing from "@bowline/runtime/unstable/store/Sealing"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import { isOver } from "@bowline/runtime/unstable/store/TaskStore"
import { Context, Effect, Layer, Option, Schema, Stream } from "effect"
import { HttpClient } from "effect/http"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { logDropped } from "../../push/Post.ts"
import { Targets } from "../../push/Targets.ts"
import { type PushSecrets, TaskDelivery } from "../../push/TaskDelivery.ts"
import { follow } from "./TaskFollower.ts"
import * as TaskReader from "./TaskReader.ts"

const Secrets = Schema.fromJsonString(
  Schema.Struct({ token: Schema.optionalKey(Schema.String), credentials: Schema.optionalKey(Schema.String) })
)
const decodeSecrets = Schema.decodeOption(Secrets)

/** The credentials are for this URL and this task only. */
const belongsTo = (task: PlanId, { id, url }: Pick<PushTarget, "id" | "url">): string => `push ${task} ${id} ${url}`

/**
 * Notifies clients about their tasks, wherever the plans run. A target belongs to one replica, which reads the task from its first event
 * and tells what comes after the target's cursor. Another replica claims the targets of one that died.
 */
export class PushNotifications extends Context.Service<
  PushNotifications,
  {
    /** Notifies this place of what happens to the task after the cursor. */
    readonly add: (
      owner: CallerName,
      task: PlanId,
      wire: Wire,
      config: PushConfig,
      cursor: PushCursor
    ) => Effect.Effect<PushTarget, NotFound | TooManyPushTargets | StorageError>
    readonly list: PushStore["Service"]["list"]
    readonly remove: PushStore["Service"]["remove"]
  }
>()("@bowline/gateway/edge/a2a/PushNotifications") {
  static readonly layer = Layer.effect(
    PushNotifications,
    Effect.gen(function* () {
      const store = yield* PushStore
      const { notifyBy, replica, restart } = yield* Targets
      const uuid = yield* UuidGenerator
      const { a2a } = yield* GatewayConfig
      // Without a configured key, what comes with credentials ends with this process: no other one can read them.
      const key = Option.getOrElse(yield* SecretKey, Sealing.newKey)
      if (a2a.hasPush) yield* notifyBy("task", yield* makeNotify(store, key))

      return {
        list: store.list,
        remove: store.remove,
        add: Effect.fnUntraced(function* (
          owner,
          task,
          wire,
          { credentials, id = uuid(), scheme = null, token, url },
          cursor
        ) {
          const secrets: PushSecrets = {
            ...(token !== undefined && { token }),
            ...(credentials !== undefined && { credentials })
          }
          const sealed =
            token === undefined && credentials === undefined
              ? null
              : Sealing.seal(JSON.stringify(secrets), belongsTo(task, { id, url }), key)
          const target = { id, url, wire, scheme, secrets: sealed, webhook: null }
          yield* store.put(owner, task, target, { replica, cursor })
          // Another one may have had the id.
          yield* restart({ task_id: task, id })
          return target
        })
      }
    })
  )
}

/** Notifies one target until there is nothing more to tell, as far as is known. */
const makeNotify = Effect.fnUntraced(function* (store: PushStore["Service"], key: Sealing.SealingKey) {
  const client = yield* HttpClient.HttpClient
  // Whoever has the link may connect the account: that is for those who may read the plan.
  const services: TaskReader.Services = { ...(yield* TaskReader.services), linkOf: () => undefined }

  const secretsOf = ({ target, task_id }: ClaimedTarget): Option.Option<PushSecrets> =>
    target.secrets === null
      ? Option.some({})
      : Option.flatMap(Sealing.unseal(target.secrets, belongsTo(task_id, target), key), decodeSecrets)

  return Effect.fnUntraced(
    function* (claimed: ClaimedTarget) {
      const secrets = secretsOf(claimed)
      if (Option.isNone(secrets)) {
        yield* logDropped(claimed, "its credentials cannot be read: set BOWLINE_SECRET_KEY, the same on all replicas")
        return yield* store.drop(claimed)
      }
      const delivery = new TaskDelivery(client, store, claimed, secrets.value)
      const opened = yield* TaskReader.begin(services, claimed.owner, claimed.task_id)
      const { fold } = opened
      const wire: Wire = claimed.target.wire === "0.3" || claimed.target.wire === "proto" ? "0.3" : "1.0"
      let isEnded = false
      let place = opened.at
      yield* Stream.runForEach(
        follow(services, opened, { toTheEnd: true }),
        Effect.fnUntraced(function* (item) {
          isEnded = item === "Over"
          if (typeof item === "string") return
          place = item.at
          if (!TaskReader.isBehind(place, delivery.cursor)) return
          const bodies = bodiesOf(wire, fold.task, item.updates)
          for (const body of bodies) yield* delivery.send(body)
          if (bodies.length > 0) yield* delivery.reach(place)
        })
      )
      if (!isEnded) return
      yield* isOver(fold.standing) ? delivery.finish : delivery.reach({ plan: place.plan + 1, seq: 0 })
    },
    // Another replica has the target, its session was deleted, or its receiver wants no more.
    Effect.catchTags({ LeaseLost: () => Effect.void, Gone: () => Effect.void, NotFound: () => Effect.void }),
    (notifying, { owner, task_id }) =>
      notifying.pipe(
        Effect.catchCause((cause) => Effect.logWarning("push_failed", cause)),
        Effect.annotateLogs({ caller: owner, plan_id: task_id })
      )
  )
})
