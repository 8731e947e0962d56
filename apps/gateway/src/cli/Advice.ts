import type { PlanFrame, PlanView, TaskState } from "@bowline/client"
import type { ApprovalRequest } from "./Approvals.ts"

/** A word for a shell. */
const quote = (word: string): string => (/^[\w.:/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** Ends of a call with which a peer hands it back: somebody has to say or do something. */
const handedBack: ReadonlyArray<TaskState> = [
  "input-required",
  "auth-required",
  "payment-required",
  "trust-verification-required"
]

/** Where the decision about a call is sent, and how: by hand, for whoever cannot be asked here. */
export const toDecide = ({ data: { plan_id, task_id } }: ApprovalRequest, url: string, hasKey: boolean): string => {
  const key = hasKey ? `-H "Authorization: Bearer $BOWLINE_API_KEY" ` : ""
  const route = new URL(`/plans/${plan_id}/approvals/${task_id}`, url).href
  return `  approve, or reject: curl ${route} ${key}-H 'Content-Type: application/json' -d '{"decision":"approve"}'`
}

/** What the plan waits for besides approvals, with the command that helps. The view is the one in front of the frame. */
export const describe = (frame: PlanFrame, view: PlanView): string | undefined => {
  const session = quote(view.externalSessionId ?? frame.data.session_id)
  switch (frame.event) {
    case "queued": {
      // Each time that the plan moves up there is one more.
      if (view.queue !== null) return undefined
      const { position } = frame.data
      return `… waits for its session, place ${position}. Who has it: bowline plans --session ${session} --state running`
    }
    case "waiting": {
      const { kind, plan_id, task_id } = frame.data
      if (task_id === null || kind === "account") return undefined
      return `  ${kind}: bowline answer ${plan_id} ${task_id} ${kind === "result" ? "--result JSON" : '--text "…"'}`
    }
    case "task.finished": {
      const { state } = frame.data
      if (!handedBack.includes(state)) return undefined
      const when = state === "input-required" ? "answer" : "when that is done"
      return `  ${when}: bowline ask "…" --session ${session}`
    }
    default:
      return undefined
  }
}
