import { anonymous } from "@bowline/domain/caller/CallerName"
import { NewSchedule, type ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import { Effect, Layer, Schema } from "effect"
import * as Firings from "../../src/schedule/Firings.ts"
import { Schedules } from "../../src/schedule/Schedules.ts"

/** The schedules and what fires them, on plans. */
export const layerSchedules = Layer.merge(Schedules.layer, Firings.layer)

const decode = Schema.decodeUnknownEffect(NewSchedule)

/** What a test says of its schedule. */
interface Fields extends Readonly<Record<string, unknown>> {
  readonly plan?: object
}

/** Makes a schedule of every minute as the only caller of an open gateway. */
export const schedule = Effect.fnUntraced(function* ({ plan = {}, ...fields }: Fields = {}) {
  const body = { name: "mine", when: { every_ms: 60_000 }, ...fields, plan: { question: "Hi", ...plan } }
  const given = yield* Effect.orDie(decode(body))
  return yield* (yield* Schedules).create(anonymous, given, body.plan)
})

/** What became of the due times, the first one first: when they were due in minutes since `start`, and whether the plan is there. */
export const firingsOf = Effect.fnUntraced(function* (id: ScheduleId, start = 0) {
  const { items } = yield* (yield* Schedules).firings(anonymous, id, { limit: 10_000 })
  return items.toReversed().map(({ due_at, fired_at, outcome, plan_id, reason }) => ({
    minute: (Date.parse(due_at) - start) / 60_000,
    late: Date.parse(fired_at) - Date.parse(due_at),
    outcome,
    plan_id,
    reason
  }))
})

/** The outcomes by their minutes. */
export const outcomesOf = (id: ScheduleId, start = 0) =>
  Effect.map(firingsOf(id, start), (firings) => firings.map(({ minute, outcome }) => `${minute} ${outcome}`))
