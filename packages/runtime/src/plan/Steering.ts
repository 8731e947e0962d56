import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Effect, Option, Schedule, Schema, Struct } from "effect"
import { canonicalJson } from "../store/CanonicalJson.ts"
import * as FileStore from "../store/FileStore.ts"
import { type PlanFilter, PlanStore } from "../store/PlanStore.ts"
import type { LivePlan } from "../stream/LivePlan.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as StoredRequest from "../store/StoredRequest.ts"
import { Inbox } from "./Inbox.ts"
import { type Asked, NewPlans } from "./NewPlans.ts"

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

/** The fields of a request that are named, and its preferences that are. */
const pick = (sent: unknown, named: Readonly<Record<string, unknown>>): typeof Fields.Type => {
  const [fields, preferences] = [fieldsOf(sent), fieldsOf(named["preferences"])]
  return {
    ...Struct.pick(fields, Object.keys(named)),
    preferences: Struct.pick(fieldsOf(fields["preferences"]), Object.keys(preferences))
  }
}

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

/** How often it is looked whether somebody still reads a plan, and the time between two looks. */
const looks = { times: 10, schedule: Schedule.spaced("10 millis") }

/** Who stops an answer and asks at once disconnects just now: only writing to the connection tells that nobody is behind it any more. */
const staysRead = (live: LivePlan): Effect.Effect<boolean> =>
  Effect.repeat(
    Effect.sync(() => live.isRead),
    { while: (isRead) => isRead, ...looks }
  )

/** A question as a text that is said to a plan: its files are behind its words. */
const toText = ({ question, question_parts: parts = [] }: Asked["request"]) => {
  const words = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")
  const files = FileStore.idsOf(parts)
  return { type: "text" as const, text: words.trim() === "" ? question : words, ...(files.length > 0 && { files }) }
}

/** Has questions heard by the plan of their session that is not over (`on_busy: "steer"`). */
export const make = Effect.gen(function* () {
  const inbox = yield* Inbox
  const store = yield* PlanStore
  const newPlans = yield* NewPlans
  const context = yield* Effect.context<PlanStore | SessionStore>()

  /** The plan that is to hear the question. In a chat it is one that somebody reads: others end. */
  const findHearer = Effect.fnUntraced(function* ({ caller, chat, idempotency, request }: Asked, session: string) {
    const find = Effect.provideContext(findPlan(caller, session), context)
    // One that comes again is said to the plan that has heard it, also when that is over.
    const heard = idempotency && (yield* inbox.heardBy(caller, idempotency.key))
    const plan = heard ?? (yield* find)
    if (plan === undefined || chat === undefined) return plan
    const here = yield* newPlans.find(plan)
    if (here !== undefined && (yield* staysRead(here.live))) return plan
    yield* newPlans.endUnread(caller, request.session_id)
    return yield* find
  })

  return {
    /** Undefined where there is none: then the question is a plan of its own. */
    find: Effect.fnUntraced(
      function* (asked: Asked) {
        const { caller, chat, request, sent } = asked
        if (request.preferences.on_busy !== "steer" || request.session_id === undefined) return undefined
        const plan_id = yield* findHearer(asked, request.session_id)
        if (plan_id === undefined) return undefined
        const written = sent ?? StoredRequest.written(request)
        const issues = differing(
          chat === undefined ? written : pick(written, chat.named),
          yield* store.get(caller, plan_id)
        )
        return issues.length > 0 ? yield* new InvalidRequest({ issues }) : plan_id
      },
      // Its session was deleted in the meantime.
      Effect.catchTag("NotFound", () => Effect.undefined)
    ),
    /** Without an entry the question is that of the plan that this names. Undefined where the plan cannot hear it any more. */
    say: Effect.fnUntraced(
      function* ({ caller, chat, idempotency, request }: Asked, plan: PlanId) {
        const key = idempotency?.key ?? (chat && (yield* chat.keyIn(plan)))
        const entry = { ...toText(request), when: "boundary", else: "ask" } as const
        const accepted = yield* inbox.accept(
          { caller, isAdmin: false },
          plan,
          entry,
          key && { ofCaller: key },
          chat?.tools
        )
        return { plan_id: accepted.plan_id, entry_id: accepted.moved ? undefined : accepted.entry_id }
      },
      // The plan has failed, or its session was deleted, in the meantime.
      Effect.catchTags({
        NotFound: () => Effect.undefined,
        EntryRefused: (refused) => (refused.code === "plan_over" ? Effect.undefined : Effect.fail(refused))
      })
    )
  }
})
