import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan } from "@bowline/domain/plan/Plan"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Effect, Option, Schema } from "effect"
import { canonicalJson } from "../store/CanonicalJson.ts"
import { type PlanFilter, PlanStore } from "../store/PlanStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as StoredRequest from "../store/StoredRequest.ts"
import { Inbox } from "./Inbox.ts"
import type { Asked } from "./NewPlans.ts"

/** What a request says of its own, though it is said to a plan that runs. */
const own: ReadonlySet<string> = new Set([
  "question",
  "session_id",
  "metadata",
  "preferences",
  "legs",
  "came_without_agents"
])

const Fields = Schema.Record(Schema.String, Schema.Json)
const fieldsOf = (json: unknown): typeof Fields.Type =>
  Option.getOrElse(Schema.decodeUnknownOption(Fields)(json), () => ({}))

const differs = (a: Schema.Json | undefined, b: Schema.Json | undefined): boolean =>
  canonicalJson(a ?? null) !== canonicalJson(b ?? null)

/** The fields of a request in which it wants something else than the plan has that is to hear it: nothing is ignored in silence. */
const differing = (sent: unknown, { plan_id, request }: Plan): InvalidRequest["issues"] => {
  const running = fieldsOf(request)
  const given = fieldsOf(sent)
  // Without secrets, as that of the plan is.
  const wanted = fieldsOf(StoredRequest.store(sent, plan_id, Option.none()).request)
  const fields = Object.keys(given).filter((field) => !own.has(field) && differs(wanted[field], running[field]))
  const [preferences, standing] = [fieldsOf(given["preferences"]), fieldsOf(running["preferences"])]
  const preferred = Object.keys(preferences).filter(
    (name) => name !== "on_busy" && differs(preferences[name], standing[name])
  )
  const message = "Expected what the plan has that is to hear the question, or nothing"
  return [...fields.map((field) => [field]), ...preferred.map((name) => ["preferences", name])].map((path) => ({
    path,
    message
  }))
}

/** The plan of the caller that runs or waits in the session, else the last one that waits there. */
const findPlan = Effect.fnUntraced(function* (caller: CallerName, name: string) {
  const sessions = yield* SessionStore
  const store = yield* PlanStore
  const { session_id } = yield* sessions.find(caller, name)
  const first = (states: NonNullable<PlanFilter["states"]>) =>
    Effect.map(store.list(caller, { session: session_id, states }, { limit: 1 }), ({ items }) => items[0]?.plan_id)
  return (yield* first(["running", "waiting"])) ?? (yield* first(["queued"]))
})

/** Says the question to the plan of its session that is not over (`on_busy: "steer"`). Without an entry it is the question of the plan that it names. Undefined where there is none: then it is a plan of its own. */
export const make = Effect.gen(function* () {
  const inbox = yield* Inbox
  const store = yield* PlanStore
  const context = yield* Effect.context<PlanStore | SessionStore>()

  return Effect.fnUntraced(
    function* ({ caller, idempotency, request, sent }: Asked) {
      if (request.preferences.on_busy !== "steer" || request.session_id === undefined) return undefined
      const key = idempotency?.key
      // One that comes again is said to the plan that has heard it, also when that is over.
      const heard = key === undefined ? undefined : yield* inbox.heardBy(caller, key)
      const plan_id = heard ?? (yield* Effect.provideContext(findPlan(caller, request.session_id), context))
      if (plan_id === undefined) return undefined
      const issues = differing(sent ?? StoredRequest.written(request), yield* store.get(caller, plan_id))
      if (issues.length > 0) return yield* new InvalidRequest({ issues })
      const entry = { type: "text", text: request.question, when: "boundary", else: "ask" } as const
      const accepted = yield* inbox.accept({ caller, isAdmin: false }, plan_id, entry, key && { ofCaller: key })
      return { plan_id: accepted.plan_id, entry_id: accepted.moved ? undefined : accepted.entry_id }
    },
    // The plan has failed, or its session was deleted, in the meantime.
    Effect.catchTags({
      NotFound: () => Effect.undefined,
      EntryRefused: (refused) => (refused.code === "plan_over" ? Effect.undefined : Effect.fail(refused))
    })
  )
})
