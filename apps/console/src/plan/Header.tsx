import type { ComponentChildren } from "preact"
import { now } from "../gateway/GatewayClock.ts"
import { traceHref } from "../gateway/Config.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { sessionHref } from "../route/Route.ts"
import { CopyButton } from "../shell/CopyButton.tsx"
import { State } from "../shell/State.tsx"
import { cost, count, duration, elapsed, shortId, unknown } from "../text/Format.ts"
import { Actions } from "./Actions.tsx"
import { numbersOf } from "./Numbers.ts"
import { outcomeOf, stageWords } from "./OutcomeWords.ts"

const Fact = ({ children, name }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

const Question = ({ text }: { readonly text: string }) =>
  text.length <= 400 ? (
    <p class="question">{text}</p>
  ) : (
    <details class="question">
      <summary>{text.slice(0, 300)}…</summary>
      <p class="plain">{text}</p>
    </details>
  )

/** What was asked by whom, how it goes or how it ended, and what it took. */
export const Header = ({ live }: { readonly live: FollowedPlan }) => {
  const plan = live.plan.value
  const view = live.view.value
  if (plan === undefined) return null
  const numbers = numbersOf(plan, view, live.hearing.value === "polling")
  const { endedAt, stage, startedAt, state, usage } = numbers
  const outcome = outcomeOf(view.outcome)
  const trace = traceHref(plan.trace_id)
  return (
    <header class="plan-head">
      <div class="title">
        <h1>Plan {shortId(plan.plan_id).replace("plan_", "")}</h1>
        <State state={stage === "approval" ? "waiting" : state} words={stageWords(state, stage)} />
        <CopyButton label="Copy id" what="Copy id of the plan" text={plan.plan_id} />
      </div>
      <Question text={plan.question} />
      <div role="status">
        {outcome === undefined ? null : (
          <p class={`outcome tone-${state === "completed" ? "good" : "bad"}`}>
            <code>{outcome.code}</code> {outcome.words}
          </p>
        )}
      </div>
      <dl class="facts">
        <Fact name="Asked by">{plan.caller}</Fact>
        <Fact name="Session">
          <a href={sessionHref(plan.session_id)}>{plan.external_session_id ?? shortId(plan.session_id)}</a>
        </Fact>
        <Fact name="Model">{numbers.model}</Fact>
        {plan.preset === null ? null : <Fact name="Preset">{plan.preset}</Fact>}
        <Fact name={endedAt === null ? "Elapsed" : "Took"}>
          <span class="ticking">{endedAt === null ? elapsed(now() - startedAt) : duration(endedAt - startedAt)}</span>
        </Fact>
        <Fact name="Steps">{count(numbers.steps)}</Fact>
        <Fact name="Tool calls">{count(numbers.calls)}</Fact>
        <Fact name="Retries">{count(numbers.retries)}</Fact>
        <Fact name="Tokens">
          {usage === null
            ? unknown
            : `${count(usage.input_tokens)} in (${count(usage.cached_input_tokens)} cached), ${count(usage.output_tokens)} out`}
        </Fact>
        <Fact name="Cost">{cost(numbers.costUsd)}</Fact>
        {trace === undefined ? null : (
          <Fact name="Trace">
            <a href={trace} rel="noopener noreferrer" target="_blank">
              {plan.trace_id?.slice(0, 8)}
            </a>
          </Fact>
        )}
      </dl>
      {view.notices.map(({ code, message }) => (
        <p class="notice">
          <code>{code}</code> {message}
        </p>
      ))}
      <Actions live={live} plan={plan} isOver={view.outcome !== null} />
    </header>
  )
}
