import { BowlineError, type Json } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { now } from "../gateway/GatewayClock.ts"
import { inWords } from "../gateway/Gateway.ts"
import { Sign } from "../shell/Sign.tsx"
import { planHref } from "../route/Route.ts"
import { duration, pretty, shortId } from "../text/Format.ts"
import { decide } from "./Pending.ts"

/** A call that a person decides about, wherever it is shown. */
export interface Asked {
  readonly planId: string
  readonly taskId: string
  readonly tool: string
  /** The peer that is called; null for a tool that is none's. */
  readonly agent: string | null
  readonly input: Json
  readonly why: string
  readonly expiresAt: number
  readonly caller: string | null
}

/** What became of it. Null: the plan ended first. `unknown`: it waits no longer, and nobody has said why yet. */
export interface Verdict {
  readonly decision: "approve" | "reject" | "unknown" | null
  readonly by: string | null
  readonly note: string | null
}

const reasons: Readonly<Record<string, string>> = {
  sensitive: "the tool is sensitive",
  always: "the request asks for an approval of every call",
  skill: "the skill asks for an approval",
  description_changed: "the tool's description has changed since it was first seen"
}

const Decided = ({ verdict }: { readonly verdict: Verdict }) => (
  <p role="status" class="verdict">
    {verdict.decision === null || verdict.decision === "unknown" ? (
      verdict.decision === null ? (
        "The plan ended before anybody decided."
      ) : (
        "It waits no longer."
      )
    ) : (
      <>
        <Sign of={verdict.decision === "approve" ? "good" : "bad"} />
        {verdict.decision === "approve" ? "Approved" : "Rejected"} by <strong>{verdict.by ?? "somebody"}</strong>
        {verdict.note === null ? "" : `: ${verdict.note}`}
      </>
    )}
  </p>
)

/** A call with all that is needed to decide about it. With the card focused `a` approves and `r` rejects. */
export const ApprovalCard = ({
  asked,
  links = true,
  verdict
}: {
  readonly asked: Asked
  readonly verdict?: Verdict | undefined
  /** Whether it links to its plan. */
  readonly links?: boolean
}) => {
  const note = useSignal("")
  const isBusy = useSignal(false)
  const sent = useSignal<"approve" | "reject" | undefined>(undefined)
  const problem = useSignal<string | undefined>(undefined)
  const left = asked.expiresAt - now()
  const isOpen = verdict === undefined && sent.value === undefined

  const submit = async (decision: "approve" | "reject") => {
    if (isBusy.value || !isOpen) return
    isBusy.value = true
    problem.value = undefined
    try {
      const words = note.value.trim()
      await decide(
        { plan_id: asked.planId, task_id: asked.taskId },
        { decision, ...(words === "" ? {} : { note: words }) }
      )
      sent.value = decision
    } catch (error) {
      const isLate = error instanceof BowlineError && error.status === 409
      problem.value = isLate ? `Your decision came too late: ${inWords(error)}` : inWords(error)
    }
    isBusy.value = false
  }

  const onKeyDown = (event: KeyboardEvent) => {
    // Only the card itself: what is typed into the note is a note.
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return
    if (event.key === "a") void submit("approve")
    if (event.key === "r") void submit("reject")
  }

  return (
    <article class="card approval" tabIndex={0} aria-label={`Approval of ${asked.tool}`} onKeyDown={onKeyDown}>
      <header>
        <h3>{asked.tool}</h3>
        {isOpen ? (
          <span class="state tone-waiting">
            <Sign of="waiting" />
            {left > 0 ? `${duration(left).replace(/\.\d s/, " s")} left` : "its time is over"}
          </span>
        ) : null}
      </header>
      <dl class="facts">
        {asked.agent === null ? null : (
          <div>
            <dt>Peer</dt>
            <dd>{asked.agent}</dd>
          </div>
        )}
        <div>
          <dt>Because</dt>
          <dd>{reasons[asked.why] ?? asked.why}</dd>
        </div>
        {asked.caller === null ? null : (
          <div>
            <dt>Asked by</dt>
            <dd>{asked.caller}</dd>
          </div>
        )}
        {links ? (
          <div>
            <dt>Plan</dt>
            <dd>
              <a href={planHref(asked.planId)}>{shortId(asked.planId)}</a>
            </dd>
          </div>
        ) : null}
      </dl>
      <pre tabIndex={0} aria-label="Input of the call">
        {pretty(asked.input)}
      </pre>
      {problem.value === undefined ? null : (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      {verdict === undefined ? null : <Decided verdict={verdict} />}
      {verdict === undefined && sent.value !== undefined ? (
        <p role="status" class="verdict">
          <Sign of={sent.value === "approve" ? "good" : "bad"} />
          {sent.value === "approve" ? "You approved it." : "You rejected it."}
        </p>
      ) : null}
      {isOpen ? (
        <div class="decide">
          <label>
            Note for the model
            <input
              value={note.value}
              maxLength={4_096}
              onInput={(event) => {
                note.value = event.currentTarget.value
              }}
            />
          </label>
          <button type="button" class="primary" disabled={isBusy.value} onClick={() => void submit("approve")}>
            Approve <kbd>a</kbd>
          </button>
          <button type="button" class="danger" disabled={isBusy.value} onClick={() => void submit("reject")}>
            Reject <kbd>r</kbd>
          </button>
        </div>
      ) : null}
    </article>
  )
}
