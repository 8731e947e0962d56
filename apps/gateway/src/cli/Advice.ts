import type { PlanFrame, PlanView, TaskState } from "@bowline/client"

/** A word for a shell. */
const quote = (word: string): string => (/^[\w.:/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** Ends of a call with which a peer hands it back: somebody has to say or do something. */
const handedBack: ReadonlyArray<TaskState> = [
  "input-required",
  "auth-required",
  "payment-required",
  "trust-verification-required"
]

/** The command that decides about a call, for whoever cannot be asked here. */
export const toDecide = ({
  data: { plan_id, task_id }
}: Extract<PlanFrame, { readonly event: "approval.requested" }>): string =>
  `  approve, or --reject: bowline answer ${plan_id} ${task_id} --approve`

/** The flags that answer what a call waits for. */
const flagsOf = ({ data, kind, url }: Extract<PlanFrame, { readonly event: "waiting" }>["data"]): string => {
  if (kind === "result") return "--result JSON"
  if (url !== undefined) return "--action accept"
  return data === undefined ? '--text "…"' : "--data JSON"
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
      return `  ${kind}: bowline answer ${plan_id} ${task_id} ${flagsOf(frame.data)}`
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
