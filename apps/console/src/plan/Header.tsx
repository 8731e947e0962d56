import type { Plan } from "@bowline/client"
import { useEffect } from "preact/hooks"
import { now } from "../gateway/GatewayClock.ts"
import { traceHref } from "../gateway/Config.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { nameSubject } from "../route/Location.ts"
import { planHref, sessionHref } from "../route/Route.ts"
import { Fact } from "../shell/Block.tsx"
import { CopyButton } from "../shell/CopyButton.tsx"
import { cost, count, cutMiddle, duration, elapsed, relative, shortId, span, unknown } from "../text/Format.ts"
import { Actions } from "./Actions.tsx"
import { type Numbers, numbersOf } from "./Numbers.ts"
import { Outcome } from "./Outcome.tsx"
import { StateOf } from "./StateOf.tsx"
import { WaitsFor } from "./WaitsFor.tsx"

/** The question is what the page is about. Of a long one the heading has the beginning. */
const Question = ({ text }: { readonly text: string }) =>
  text.length <= 400 ? (
    <h1 class="question">{text}</h1>
  ) : (
    <>
      <h1 class="question">{text.slice(0, 200)}…</h1>
      <details>
        <summary>The whole question</summary>
        <p class="plain">{text}</p>
      </details>
    </>
  )

/** How many calls were made, and how many of them failed. */
const callsOf = ({ calls, failedCalls }: Numbers): string =>
  failedCalls === null || failedCalls === 0 ? count(calls) : `${count(calls)}, ${count(failedCalls)} failed`

const Deadline = ({ at, numbers: { endedAt, startedAt } }: { readonly at: number; readonly numbers: Numbers }) => (
  <Fact name="Deadline">
    <span class="ticking">{endedAt === null ? relative(at, now()) : `after ${span(at - startedAt)}`}</span>
  </Fact>
)

const Metadata = ({ entries }: { readonly entries: Plan["metadata"] }) =>
  Object.keys(entries).length === 0 ? null : (
    <Fact name="Metadata">
      <code>
        {Object.entries(entries)
          .map(([key, value]) => `${key}=${value}`)
          .join(", ")}
      </code>
    </Fact>
  )

/** What was asked by whom, how it goes or how it ended, and what it took. */
export const Header = ({ live }: { readonly live: FollowedPlan }) => {
  const plan = live.plan.value
  const view = live.view.value
  const question = plan?.question ?? ""
  useEffect(() => nameSubject(question), [question])
  if (plan === undefined) return null
  const numbers = numbersOf(plan, view, live.hearing.value === "polling")
  const { endedAt, stage, startedAt, state, usage } = numbers
  const trace = traceHref(plan.trace_id)
  return (
    <header class="plan-head">
      <Question text={plan.question} />
      <div class="title">
        <StateOf plan={{ state, stage }} />
        <span class="dim">
          <code>{shortId(plan.plan_id)}</code>
          <CopyButton label="Copy id" what="Copy id of the plan" text={plan.plan_id} />
        </span>
      </div>
      <WaitsFor plan={{ plan_id: plan.plan_id, stage, state }} />
      <Outcome live={live} plan={plan} />
      <dl class="facts">
        <Fact name="Started">
          <time dateTime={plan.created_at} title={new Date(plan.created_at).toUTCString()}>
            {new Date(plan.created_at).toLocaleString()}
          </time>
        </Fact>
        <Fact name="Asked by">{plan.caller}</Fact>
        <Fact name="Session">
          <a href={sessionHref(plan.session_id)} title={plan.external_session_id ?? undefined}>
            {cutMiddle(plan.external_session_id ?? shortId(plan.session_id), 40)}
          </a>
        </Fact>
        <Fact name="Model">{numbers.model}</Fact>
        {plan.preset === null ? null : <Fact name="Preset">{plan.preset}</Fact>}
        <Fact name={endedAt === null ? "Elapsed" : "Took"}>
          <span class="ticking">{endedAt === null ? elapsed(now() - startedAt) : duration(endedAt - startedAt)}</span>
        </Fact>
        {numbers.deadlineAt === null ? null : <Deadline at={numbers.deadlineAt} numbers={numbers} />}
        <Fact name="Steps">{count(numbers.steps)}</Fact>
        <Fact name="Tool calls">{callsOf(numbers)}</Fact>
        <Fact name="Retries">{count(numbers.retries)}</Fact>
        <Fact name="First token">{numbers.firstTokenMs === null ? unknown : span(numbers.firstTokenMs)}</Fact>
        <Fact name="Tokens">
          {usage === null
            ? unknown
            : `${count(usage.input_tokens)} in (${count(usage.cached_input_tokens)} cached), ${count(usage.output_tokens)} out`}
        </Fact>
        <Fact name="Cost">{cost(numbers.costUsd)}</Fact>
        {plan.forked_from === undefined ? null : (
          <Fact name="Fork of">
            <a href={`${planHref(plan.forked_from.plan_id)}?with=${plan.plan_id}`}>
              {shortId(plan.forked_from.plan_id)}, step {plan.forked_from.step}
            </a>
          </Fact>
        )}
        <Metadata entries={plan.metadata} />
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
