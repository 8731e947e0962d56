import type { PendingApproval } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { useEffect, useRef } from "preact/hooks"
import { isAdmin } from "../gateway/Config.ts"
import { here, setQuery } from "../route/Location.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { counted } from "../text/Format.ts"
import { ApprovalCard, type Asked, type Verdict } from "./ApprovalCard.tsx"
import { decisionOf, pending, problem } from "./Pending.ts"

const askedOf = (approval: PendingApproval): Asked => ({
  planId: approval.plan_id,
  sessionId: approval.session_id,
  taskId: approval.task_id,
  tool: approval.tool,
  agent: approval.agent,
  input: approval.input,
  why: approval.why,
  expiresAt: Date.parse(approval.expires_at),
  caller: approval.caller
})

/** A card that asks who decided as soon as its call waits no longer. */
const Card = ({ approval, waits }: { readonly approval: PendingApproval; readonly waits: boolean }) => {
  const verdict = useSignal<Verdict | undefined>(undefined)
  useEffect(() => {
    if (waits) return undefined
    const leaving = new AbortController()
    const ask = async () => {
      const found = await decisionOf(approval.plan_id, approval.task_id, leaving.signal)
      verdict.value = { decision: found?.decision ?? null, by: found?.by ?? null, note: found?.note ?? null }
    }
    // Where nobody can say who it was, the card goes on saying that it is over.
    ask().catch(() => undefined)
    return () => leaving.abort()
  }, [waits])
  const over: Verdict = { decision: "unknown", by: null, note: null }
  return <ApprovalCard asked={askedOf(approval)} verdict={waits ? undefined : (verdict.value ?? over)} />
}

/** The cards of one caller. */
const Cards = () => {
  const seen = useRef(new Map<string, PendingApproval>())
  const waiting = pending.value
  for (const approval of waiting ?? []) seen.current.set(approval.task_id, approval)
  const ids = new Set(waiting?.map(({ task_id }) => task_id))
  const cards = [...seen.current.values()]
  return (
    <>
      <Problem error={problem.value} />
      {waiting === undefined && problem.value === undefined ? <Loading /> : null}
      {waiting !== undefined && cards.length === 0 ? (
        <Empty title="Nothing waits for a decision">
          <p>
            A call stands here when its tool is sensitive, or when a request says{" "}
            <code>"preferences": {`{"approval": "always"}`}</code>.
          </p>
        </Empty>
      ) : null}
      <div class="cards">
        {cards.map((approval) => (
          <Card key={approval.task_id} approval={approval} waits={ids.has(approval.task_id)} />
        ))}
      </div>
    </>
  )
}

/** Everything that waits for a decision, and what was decided while the page was open. */
export const ApprovalsPage = () => {
  const caller = here.value.query.get("caller") ?? ""
  const count = pending.value?.length ?? 0
  return (
    <>
      <div class="page-head">
        <h1>Approvals</h1>
        <p role="status">{count === 0 ? "" : `${counted(count, "call")} waiting for a decision`}</p>
        {isAdmin.value ? (
          <label>
            Caller
            <input
              value={caller}
              placeholder="you"
              onChange={(event) => setQuery({ caller: event.currentTarget.value.trim() })}
            />
          </label>
        ) : null}
      </div>
      <Cards key={caller} />
    </>
  )
}
