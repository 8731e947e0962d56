import type { Waiting } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { useEffect, useRef } from "preact/hooks"
import { isAdmin } from "../gateway/Config.ts"
import { here, setQuery } from "../route/Location.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { counted } from "../text/Format.ts"
import { ApprovalCard, type Asked, type Verdict } from "./ApprovalCard.tsx"
import { decisionOf, pending, problem } from "./Pending.ts"
import { WaitCard } from "./WaitCard.tsx"

const askedOf = (approval: Waiting): Asked => ({
  planId: approval.plan_id,
  sessionId: approval.session_id,
  taskId: approval.task_id,
  tool: approval.tool,
  agent: approval.agent,
  input: approval.input,
  why: approval.why ?? "",
  data: approval.data,
  expiresAt: Date.parse(approval.expires_at),
  caller: approval.caller
})

/** An approval that asks who decided as soon as its call waits no longer. */
const Approval = ({ approval, waits }: { readonly approval: Waiting; readonly waits: boolean }) => {
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

/** What waits for whom, by what settles it. */
const kinds = {
  approval: "a decision",
  result: "a result",
  answer: "an answer",
  account: "an account"
} as const satisfies Readonly<Record<Waiting["kind"], string>>

const Nothing = ({ kind }: { readonly kind: Waiting["kind"] | null }) => (
  <Empty title={kind === "approval" ? "Nothing waits for a decision" : "Nothing waits for somebody"}>
    <p>
      A call stands here when its tool is sensitive, or when a request says{" "}
      <code>"preferences": {`{"approval": "always"}`}</code>
      {kind === "approval" ? "." : "; when it is of a tool that the client runs; or when a peer asks something."}
    </p>
  </Empty>
)

/** The cards of one caller, those that have waited longest first. */
const Cards = ({ kind }: { readonly kind: Waiting["kind"] | null }) => {
  const seen = useRef(new Map<string, Waiting>())
  const waiting = pending.value?.filter((one) => kind === null || one.kind === kind)
  // A call may wait again, for something else.
  for (const one of waiting ?? []) seen.current.set(`${one.task_id} ${one.kind} ${one.since}`, one)
  const ids = new Set(waiting?.map(({ kind, since, task_id }) => `${task_id} ${kind} ${since}`))
  const cards = [...seen.current]
  return (
    <>
      <Problem error={problem.value} />
      {waiting === undefined && problem.value === undefined ? <Loading /> : null}
      {waiting !== undefined && cards.length === 0 ? <Nothing kind={kind} /> : null}
      <div class="cards">
        {cards.map(([key, one]) =>
          one.kind === "approval" ? (
            <Approval key={key} approval={one} waits={ids.has(key)} />
          ) : (
            <WaitCard key={key} waiting={one} waits={ids.has(key)} />
          )
        )}
      </div>
    </>
  )
}

const countsOf = (waiting: ReadonlyArray<Waiting>): string =>
  Object.entries(kinds)
    .flatMap(([kind, words]) => {
      const count = waiting.filter((one) => one.kind === kind).length
      return count === 0 ? [] : [`${counted(count, "call")} waiting for ${words}`]
    })
    .join(", ")

/** Everything that waits for somebody, or only what waits for a decision; and what was settled while the page was open. */
export const WaitingPage = ({ kind }: { readonly kind: "approval" | null }) => {
  const caller = here.value.query.get("caller") ?? ""
  const waiting = (pending.value ?? []).filter((one) => kind === null || one.kind === kind)
  return (
    <>
      <div class="page-head">
        <h1>{kind === null ? "Waiting" : "Approvals"}</h1>
        <p role="status">{countsOf(waiting)}</p>
        <a href="/accounts">Accounts</a>
        {isAdmin.value ? (
          <label>
            Caller
            <input
              value={caller}
              placeholder="you, or *"
              onChange={(event) => setQuery({ caller: event.currentTarget.value.trim() })}
            />
          </label>
        ) : null}
      </div>
      <Cards key={caller} kind={kind} />
    </>
  )
}
