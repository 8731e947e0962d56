import { now } from "../gateway/GatewayClock.ts"
import { planHref } from "../route/Route.ts"
import { State } from "../shell/State.tsx"
import { counted, firstLine, relative } from "../text/Format.ts"
import type { ApprovalContext } from "./ApprovalContext.ts"
import type { EarlierCall } from "./EarlierCalls.ts"

/** How many earlier calls are shown. */
const mostEarlier = 5

export const Earlier = ({ calls, tool }: { readonly calls: ReadonlyArray<EarlierCall>; readonly tool: string }) =>
  calls.length === 0 ? (
    <p class="dim">
      No earlier call of <code>{tool}</code> in this session.
    </p>
  ) : (
    <details open={calls.length <= mostEarlier}>
      <summary>
        {counted(calls.length, "earlier call")} of <code>{tool}</code> in this session
      </summary>
      <ul class="earlier">
        {calls.slice(0, mostEarlier).map(({ at, input, planId, state, taskId }) => (
          <li key={taskId}>
            <State state={state ?? "running"} />{" "}
            <a href={`${planHref(planId)}?row=task-${encodeURIComponent(taskId)}`}>
              <code>{firstLine(JSON.stringify(input), 120)}</code>
            </a>{" "}
            <span class="dim">{relative(at, now())}</span>
          </li>
        ))}
      </ul>
      {calls.length > mostEarlier ? (
        <p class="dim">
          The newest {mostEarlier} of {calls.length}.
        </p>
      ) : null}
    </details>
  )

/** Plans of other sessions that called the tool: what it is used for. */
export const Elsewhere = ({
  plans,
  tool
}: {
  readonly plans: NonNullable<ApprovalContext["own"]>["elsewhere"]
  readonly tool: string
}) =>
  plans.length === 0 ? null : (
    <details>
      <summary>
        Called in other sessions: <code>{tool}</code>
      </summary>
      <ul class="earlier">
        {plans.map(({ created_at, plan_id, question_preview, state }) => (
          <li key={plan_id}>
            <State state={state} /> <a href={planHref(plan_id)}>{firstLine(question_preview)}</a>{" "}
            <span class="dim">{relative(Date.parse(created_at), now())}</span>
          </li>
        ))}
        <li>
          <a href={`/plans?tool=${encodeURIComponent(tool)}`}>All plans that called it</a>
        </li>
      </ul>
    </details>
  )

/** Who asked what, and what the model said before it asked for the call. */
export const Story = ({ context: { caller, own, question } }: { readonly context: ApprovalContext }) => (
  <dl class="story">
    <div>
      <dt>{caller} asked</dt>
      <dd>
        {own === null ? firstLine(question, 400) : <a href={planHref(own.plan.plan_id)}>{firstLine(question, 400)}</a>}
      </dd>
    </div>
    {own === null ? null : (
      <div>
        <dt>The model said</dt>
        <dd>{own.said.trim() === "" ? <span class="dim">nothing before the call</span> : firstLine(own.said, 600)}</dd>
      </div>
    )}
  </dl>
)
