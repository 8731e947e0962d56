import type { Plan, Waiting } from "@bowline/client"
import { useEffect } from "preact/hooks"
import { pending } from "../approval/Pending.ts"
import { now } from "../gateway/GatewayClock.ts"
import { woken } from "../gateway/Gateway.ts"
import { relative } from "../text/Format.ts"

const words = {
  approval: "a decision about",
  result: "the result of",
  answer: "an answer to",
  account: "an account for"
} as const satisfies Readonly<Record<Waiting["kind"], string>>

/** What of the list waits in this plan. */
export const waitsOf = (planId: string | null): ReadonlyArray<Waiting> =>
  pending.value?.filter(({ plan_id }) => plan_id === planId) ?? []

/** What a plan waits for, and until when. One that is parked has no process meanwhile. */
export const WaitsFor = ({
  plan: { plan_id, stage, state }
}: {
  readonly plan: Pick<Plan, "plan_id" | "stage" | "state">
}) => {
  const isForSomebody = stage === "client" || stage === "approval"
  // The list is asked now and then: here it is wanted at once.
  useEffect(() => {
    if (isForSomebody) woken.value++
  }, [isForSomebody])
  const waits = isForSomebody ? waitsOf(plan_id) : []
  if (waits.length === 0) return null
  return (
    <p class="waits-for">
      {waits.map(({ expires_at, kind, task_id, tool }, index) => (
        <span key={task_id}>
          {index === 0 ? "Waits for " : ", "}
          {words[kind]} <code>{tool}</code> until{" "}
          <time dateTime={expires_at} title={new Date(expires_at).toUTCString()}>
            {new Date(expires_at).toLocaleString()}
          </time>{" "}
          <span class="ticking dim">({relative(Date.parse(expires_at), now())})</span>
        </span>
      ))}
      {state === "waiting" ? ". It is parked: it has no process until somebody answers." : "."}
    </p>
  )
}
