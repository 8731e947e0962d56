import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { type Schedule, SchedulePlan } from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Asker } from "@bowline/domain/unstable/caller/IssuedKey"
import { Effect, Option, Schema, Struct } from "effect"
import { AskerFacts } from "../config/AskerFacts.ts"
import type { PlanStore } from "../store/PlanStore.ts"
import type { CallerName } from "@bowline/domain/caller/CallerName"

/** How many characters of the last answer a question may repeat. */
const answerLength = 4_096

const decodePlan = Schema.decodeUnknownEffect(SchedulePlan)

const decodeAsker = Schema.decodeUnknownOption(Schema.Struct({ asker: Asker }))

/** The plan as it is stored: with what is known of the caller who sends it, for its firings. */
export const withAsker = <Plan extends object>(plan: Plan): Effect.Effect<Plan> =>
  Effect.map(AskerFacts, (asker) => (Object.keys(asker).length === 0 ? plan : { ...plan, asker }))

/** The schedule as it is shown. */
export const shown = (schedule: Schedule): Schedule => ({ ...schedule, plan: Struct.omit(schedule.plan, ["asker"]) })

/** The request of a schedule as `POST /plan` takes it. All firings of `session: "same"` have one session, which has the id of the schedule unless the plan names one. */
export const toRequest = (
  { overlap, schedule_id }: Pick<Schedule, "overlap" | "schedule_id">,
  { session, ...plan }: SchedulePlan
): PlanRequest => {
  const { on_busy, ...preferences } = plan.preferences
  const isSteering = on_busy === "steer"
  const busy = overlap === "interrupt" ? "interrupt" : isSteering ? "queue" : on_busy
  return {
    ...plan,
    ...(session === "same" && { session_id: plan.session_id ?? ExternalSessionId.make(schedule_id) }),
    // Nobody reads it.
    preferences: { ...preferences, on_disconnect: "continue", ...(busy !== undefined && { on_busy: busy }) }
  }
}

const place = /\{\{(due_at|schedule|last_answer)\}\}/g

/** The last answer of a schedule. */
const answerOf = (store: PlanStore["Service"], owner: CallerName, { last_plan_id }: Schedule) =>
  last_plan_id === null
    ? Effect.succeed("")
    : store.get(owner, last_plan_id).pipe(
        Effect.map(({ final }) => (final?.text ?? "").slice(0, answerLength).toWellFormed()),
        // Its session was deleted.
        Effect.catchTag("NotFound", () => Effect.succeed(""))
      )

/** The request of a firing: its question has what it names of the firing. */
export const requestOf = Effect.fnUntraced(function* (
  store: PlanStore["Service"],
  owner: CallerName,
  schedule: Schedule,
  due: number
) {
  const decoded = yield* Effect.mapError(
    decodePlan(schedule.plan),
    () => new InvalidRequest({ issues: [{ path: ["plan"], message: "Expected a plan that this version knows" }] })
  )
  const request = toRequest(schedule, decoded)
  const last_answer = request.question.includes("{{last_answer}}") ? yield* answerOf(store, owner, schedule) : ""
  const values: Readonly<Record<string, string>> = {
    due_at: fromMillis(due),
    schedule: schedule.name,
    last_answer
  }
  const question = request.question.replaceAll(place, (_, name: string) => values[name] ?? "")
  if (question.trim() === "") {
    const message = "Expected a question that is not blank: {{last_answer}} is empty"
    return yield* new InvalidRequest({ issues: [{ path: ["plan", "question"], message }] })
  }
  const { asker } = Option.getOrElse(decodeAsker(schedule.plan), () => ({ asker: undefined }))
  return { ...request, question, ...(asker !== undefined && { asker }) }
})
