import { NotFound } from "@bowline/domain/plan/Refusal"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { EffectId } from "@bowline/domain/unstable/tool/EffectState"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { EffectStore } from "@bowline/runtime/unstable/store/EffectStore"
import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { onlyAdmins } from "../http/BearerAuthorization.ts"
import { answer } from "../http/Refusals.ts"

const isEffectId = Schema.is(EffectId)

/** Shows callers their effects, and lets admins forget one. */
export const layer = HttpApiBuilder.group(
  Api,
  "effects",
  Effect.fnUntraced(function* (handlers) {
    const store = yield* EffectStore
    const admitted = yield* onlyAdmins
    return handlers
      .handle("list", ({ query: { cursor, limit, since, tool } }) =>
        Effect.gen(function* () {
          const page = { limit, ...(cursor !== undefined && { cursor }) }
          const { items, next } = yield* store.list(yield* Caller, { since, tool }, page)
          return { effects: items, next_cursor: next }
        }).pipe(answer)
      )
      .handle("forget", ({ params: { id } }) =>
        Effect.gen(function* () {
          yield* admitted
          const isForgotten = isEffectId(id) && (yield* store.forget(TaskId.make(id.replace(/^effect_/, ""))))
          if (!isForgotten) return yield* new NotFound({ what: "effect" })
        }).pipe(answer)
      )
  })
)
