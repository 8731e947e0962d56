import type { PlanSummary } from "@bowline/client"
import { now } from "../gateway/GatewayClock.ts"
import { reasonOf } from "../plan/OutcomeWords.ts"
import { planHref } from "../route/Route.ts"
import { StateOf } from "../plan/StateOf.tsx"
import { counted, cost, duration, elapsed, shortId } from "../text/Format.ts"
import type { Entry, PlanTurn } from "./SessionTurns.ts"
import { MessageEntry } from "./Message.tsx"

const PlanLine = ({ plan }: { readonly plan: PlanSummary }) => {
  const from = Date.parse(plan.created_at)
  const took = plan.finished_at === null ? elapsed(now() - from) : duration(Date.parse(plan.finished_at) - from)
  const facts = [
    plan.error === null ? null : reasonOf(plan.error),
    took,
    plan.tool_calls === 0 ? null : counted(plan.tool_calls, "call"),
    plan.cost_usd === null ? null : cost(plan.cost_usd)
  ].filter((fact) => fact !== null)
  return (
    <>
      <StateOf plan={plan} />
      <span class="dim">{facts.join(" · ")}</span>
    </>
  )
}

const Work = ({
  entry: { messages, tools },
  revertOf
}: {
  readonly entry: Extract<Entry, { readonly kind: "work" }>
  readonly revertOf: (messageId: string) => (() => void) | undefined
}) => (
  <li class="work-of-plan">
    <details>
      <summary>
        {counted(tools.length, "call")}: <span class="code">{[...new Set(tools)].join(", ")}</span>
      </summary>
      <ol class="history">
        {messages.map((message) => (
          <MessageEntry key={message.message_id} message={message} onRevert={revertOf(message.message_id)} />
        ))}
      </ol>
    </details>
  </li>
)

/** What one plan has added to a conversation: what was asked and answered, its calls folded, and how it went. */
export const Turn = ({
  revertOf,
  turn: { entries, plan, planId }
}: {
  readonly turn: PlanTurn
  /** What drops everything behind a message; undefined where nothing is behind it. */
  readonly revertOf: (messageId: string) => (() => void) | undefined
}) => (
  <li class="turn">
    <ol class="history">
      {entries.length > 0 || plan === undefined ? null : (
        <li class="message from-user">
          <p class="plain">{plan.question_preview}</p>
        </li>
      )}
      {entries.map((entry) =>
        entry.kind === "said" ? (
          <MessageEntry
            key={entry.message.message_id}
            message={entry.message}
            onRevert={revertOf(entry.message.message_id)}
          />
        ) : (
          <Work key={entry.messages[0]?.message_id} entry={entry} revertOf={revertOf} />
        )
      )}
    </ol>
    <p class="plan-line">
      {plan === undefined ? null : <PlanLine plan={plan} />}
      <a href={planHref(planId)}>Open {shortId(planId)}</a>
    </p>
  </li>
)
