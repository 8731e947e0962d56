import type { Plan, PlanRequest } from "@bowline/client"
import { surviving } from "./Request.ts"

/** Where goes what somebody writes below a plan, and what the box says of it. */
export interface Destination {
  readonly place: "session" | "inbox"
  /** What is written. */
  readonly what: string
  readonly button: string
}

/** The one place that decides it: a plan that is over has a session to ask on in, one that is not hears what is said to it. */
export const destinationOf = (isOver: boolean): Destination =>
  isOver
    ? { place: "session", what: "Next question", button: "Ask on" }
    : { place: "inbox", what: "Say to the plan", button: "Say it" }

const isRecord = (value: unknown): value is NonNullable<PlanRequest["preferences"]> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What only begins a session, or is about one question. */
const once = new Set(["call", "history", "metadata", "preferences", "prior_summary"])

/** The next question of a plan's session, with the same agents, servers, preset and preferences. */
export const nextRequest = (plan: Plan, question: PlanRequest["question"]): PlanRequest => {
  const kept = Object.fromEntries(Object.entries(plan.request ?? {}).filter(([name]) => !once.has(name)))
  const preferences = plan.request?.["preferences"]
  return surviving({
    ...kept,
    ...(plan.preset === null ? {} : { preset: plan.preset }),
    ...(isRecord(preferences) ? { preferences: { ...preferences, on_busy: "queue" } } : {}),
    question,
    session_id: plan.session_id
  })
}
