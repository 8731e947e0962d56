import type { PlanSummary } from "@bowline/client"
import type { Signal } from "@preact/signals"
import { now } from "../gateway/GatewayClock.ts"
import { isOwn } from "../gateway/Config.ts"
import { isOver } from "../live/Settled.ts"
import { reasonOf } from "../plan/OutcomeWords.ts"
import { planHref } from "../route/Route.ts"
import { StateOf } from "../plan/StateOf.tsx"
import { Table } from "../shell/Table.tsx"
import { cost, count, cutMiddle, duration, elapsed, firstLine, relative } from "../text/Format.ts"

/** The most plans that are cancelled at once. */
export const mostSelected = 100

type Selection = Signal<ReadonlySet<string>>

const Length = ({ plan }: { readonly plan: PlanSummary }) => {
  const from = Date.parse(plan.created_at)
  return <>{plan.finished_at === null ? elapsed(now() - from) : duration(Date.parse(plan.finished_at) - from)}</>
}

const Started = ({ plan }: { readonly plan: PlanSummary }) => (
  <time dateTime={plan.created_at} title={new Date(plan.created_at).toLocaleString()}>
    {relative(Date.parse(plan.created_at), now())}
  </time>
)

const Choice = ({ plan, selection }: { readonly plan: PlanSummary; readonly selection: Selection }) => {
  const isChosen = selection.value.has(plan.plan_id)
  const choose = () => {
    const next = new Set(selection.value)
    if (!next.delete(plan.plan_id)) next.add(plan.plan_id)
    selection.value = next
  }
  return isOver(plan) && !isChosen ? null : (
    <input
      type="checkbox"
      aria-label={`Select: ${firstLine(plan.question_preview, 60)}`}
      checked={isChosen}
      disabled={!isChosen && selection.value.size >= mostSelected}
      onChange={choose}
    />
  )
}

const Line = ({ plan, selection }: { readonly plan: PlanSummary; readonly selection: Selection | undefined }) => (
  <tr>
    {selection === undefined ? null : (
      <td class="choice">
        <Choice plan={plan} selection={selection} />
      </td>
    )}
    <td class="fit">
      <StateOf plan={plan} />
    </td>
    <td class="wide">
      {isOwn(plan.caller) ? (
        <a href={planHref(plan.plan_id)}>{firstLine(plan.question_preview)}</a>
      ) : (
        <span title={`Only ${plan.caller} can open it`}>{firstLine(plan.question_preview)}</span>
      )}
    </td>
    <td class="reason">{plan.error === null ? null : reasonOf(plan.error)}</td>
    <td class="fit dim" title={plan.model}>
      {cutMiddle(plan.model)}
    </td>
    <td class="fit dim" title={plan.caller}>
      {cutMiddle(plan.caller, 24)}
    </td>
    <td class="fit number" data-label="Calls">
      {count(plan.tool_calls)}
    </td>
    <td class="fit number" data-label="Cost">
      {cost(plan.cost_usd)}
    </td>
    <td class="fit number" data-label="Took">
      <Length plan={plan} />
    </td>
    <td class="fit dim">
      <Started plan={plan} />
    </td>
  </tr>
)

/** Plans as a table. Rows are kept while it is refreshed, so that nothing jumps. */
export const PlanTable = ({
  label,
  plans,
  selection
}: {
  readonly label: string
  readonly plans: ReadonlyArray<PlanSummary>
  readonly selection?: Selection
}) => (
  <Table
    label={label}
    head={
      <>
        {selection === undefined ? null : (
          <td class="choice">
            <span class="unseen">Selected</span>
          </td>
        )}
        <th scope="col">State</th>
        <th scope="col">Question</th>
        <th scope="col">Reason</th>
        <th scope="col">Model</th>
        <th scope="col">Caller</th>
        <th scope="col" class="number">
          Calls
        </th>
        <th scope="col" class="number">
          Cost
        </th>
        <th scope="col" class="number">
          Took
        </th>
        <th scope="col">Started</th>
      </>
    }
  >
    {plans.map((plan) => (
      <Line key={plan.plan_id} plan={plan} selection={selection} />
    ))}
  </Table>
)
