import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Effect } from "effect"
import * as ItemReferences from "./ItemReferences.ts"
import { refOf } from "./ResponseItems.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** The session of the response that a request follows. */
export const sessionOf = (previous: Pick<Plan, "session_id" | "external_session_id"> | undefined) =>
  previous === undefined
    ? {}
    : { session_id: previous.external_session_id ?? ExternalSessionId.make(previous.session_id) }

/** Whether its session has no newer plan. */
export const makeIsLast = Effect.map(Plans, (plans) =>
  Effect.fnUntraced(function* (caller: CallerName, { plan_id, session_id }: Pick<Plan, "plan_id" | "session_id">) {
    const { items } = yield* plans.list(caller, { session: session_id }, { limit: 1 })
    return items[0]?.plan_id === plan_id
  })
)

/** Finds the plan of the response that a request follows. One that is not stored can be decided about; its session is about to go. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses) {
  const plans = yield* Plans
  return Effect.fnUntraced(
    function* (caller: CallerName, id: string, asks: boolean) {
      const { plan_id } = yield* Effect.fromOption(refOf(id), () => new NotFound({ what: "response" }))
      const { store } = yield* stored.echo(caller, plan_id)
      if (asks && !store) return yield* new NotFound({ what: "response" })
      return yield* plans.get(caller, plan_id)
    },
    Effect.catchTag("NotFound", () => Effect.fail(ItemReferences.missing("previous_response_id", "response")))
  )
})
