import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import {
  decodeCreate,
  decodeKey,
  encodeConfig,
  type PushConfig,
  type PushKey
} from "@bowline/a2a/unstable/server/PushConfig"
import type { SentMessage } from "@bowline/a2a/unstable/server/SentMessage"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { maxTargets, type PushCursor } from "@bowline/runtime/unstable/store/PushStore"
import { Effect, type Schema } from "effect"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import type { Binding } from "./Binding.ts"
import { PushNotifications } from "./PushNotifications.ts"
import { decodeParams, taskId } from "./TaskCalls.ts"
import { notFound, open, placeBehind, type Services } from "./TaskReader.ts"

const notSupported = new A2aError({
  error: "PushNotificationNotSupported",
  message: "The gateway sends no push notifications"
})

/** What clients ask about the places where they are notified. All of it is refused unless the configuration allows it. */
export const make = Effect.fnUntraced(function* (services: Services) {
  const push = yield* PushNotifications
  const { a2a } = yield* GatewayConfig
  const check = a2a.hasPush ? Effect.void : Effect.fail(notSupported)

  const add = (caller: CallerName, { wire }: Binding, task: PlanId, config: PushConfig, cursor: PushCursor) =>
    push.add(caller, task, wire, config, cursor).pipe(
      Effect.catchTags({
        NotFound: () => Effect.fail(notFound(task)),
        TooManyPushTargets: () =>
          Effect.fail(
            invalidParams([
              {
                path: "taskId",
                message: `The task has ${maxTargets} push notification configurations: delete one first`
              }
            ])
          )
      })
    )

  /** The configurations of the task, and the one that is asked for. */
  const find = Effect.fnUntraced(function* (caller: CallerName, key: PushKey) {
    const task = yield* taskId(key.taskId)
    yield* Effect.mapError(services.tasks.plans(caller, task), (error) =>
      error._tag === "NotFound" ? notFound(task) : error
    )
    const targets = yield* push.list(caller, task)
    return { task, targets, found: key.id === undefined ? targets[0] : targets.find(({ id }) => id === key.id) }
  })

  const create = Effect.fnUntraced(function* (caller: CallerName, binding: Binding, params: unknown) {
    yield* check
    const sent = yield* decodeParams(decodeCreate[binding.wire](params))
    const opened = yield* open(services, caller, yield* taskId(sent.taskId), {})
    const target = yield* add(caller, binding, opened.task, sent.config, placeBehind(opened))
    return encodeConfig[binding.wire](opened.task, target)
  })

  const get = Effect.fnUntraced(function* (caller: CallerName, binding: Binding, params: unknown) {
    yield* check
    const key = yield* decodeParams(decodeKey[binding.wire](params))
    const { found, task } = yield* find(caller, key)
    if (found === undefined) {
      const message = "The task has no such push notification configuration"
      return yield* new A2aError({ error: "TaskNotFound", message })
    }
    return encodeConfig[binding.wire](task, found)
  })

  const list = Effect.fnUntraced(function* (caller: CallerName, binding: Binding, params: unknown) {
    yield* check
    const { targets, task } = yield* find(caller, yield* decodeParams(decodeKey[binding.wire](params)))
    const configs = targets.map((target) => encodeConfig[binding.wire](task, target))
    const answer: Schema.Json = binding.wire === "0.3" ? configs : { configs, nextPageToken: "" }
    return answer
  })

  const remove = Effect.fnUntraced(function* (caller: CallerName, binding: Binding, params: unknown) {
    yield* check
    const key = yield* decodeParams(decodeKey[binding.wire](params))
    const { task } = yield* find(caller, key)
    if (key.id === undefined) {
      const path = binding.wire === "0.3" ? "pushNotificationConfigId" : "id"
      return yield* invalidParams([{ path, message: "Expected the id of a configuration" }])
    }
    yield* push.remove(caller, { task_id: task, id: key.id })
    const answer: Schema.Json = binding.wire === "0.3" ? null : {}
    return answer
  })

  /** The configuration that a message brings, if it brings one. */
  const addOf = (caller: CallerName, binding: Binding, { push }: SentMessage, task: PlanId, cursor: PushCursor) =>
    push === undefined ? Effect.void : Effect.asVoid(add(caller, binding, task, push, cursor))

  return { check, create, get, list, remove, addOf }
})

export type PushCalls = Effect.Success<ReturnType<typeof make>>
