import type { WaitTold, WebhookEvent } from "@bowline/domain/unstable/plan/Webhook"
import { Struct } from "effect"
import { shownId } from "./AccountWait.ts"
import type { PlanChange } from "./PlanStore.ts"

/** What webhooks are told of a change. `at` is ISO 8601 in UTC, undefined for now. */
interface Told {
  readonly event: WebhookEvent
  readonly at: string | undefined
  readonly wait: WaitTold | null
}

/** What the webhooks of a plan are told with its changes: that it is over, and each call that begins to wait. */
export const toldBy = (changes: ReadonlyArray<PlanChange>): ReadonlyArray<Told> =>
  changes.flatMap((change): ReadonlyArray<Told> => {
    if (change._tag === "Settled") return [{ event: `plan.${change.outcome.state}`, at: change.at, wait: null }]
    // Nobody can do anything about a wait for a time.
    if (change._tag !== "WaitOpened" || change.kind === "timer") return []
    const { kind } = change
    const event = kind === "approval" ? "approval.requested" : "plan.waiting"
    const wait = { ...Struct.pick(change, ["tool", "agent", "expires_at"]), task_id: shownId(change), kind }
    return [{ event, at: undefined, wait }]
  })
