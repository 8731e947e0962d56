import type { Plan, PlanView } from "@bowline/client"
import type { ComponentChildren, TargetedKeyboardEvent } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { Arguments } from "../call/Arguments.tsx"
import { traceHref } from "../gateway/Config.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { Block, Fact } from "../shell/Block.tsx"
import { CopyButton } from "../shell/CopyButton.tsx"
import { Sign } from "../shell/Sign.tsx"
import { cost, count, counted, duration, span } from "../text/Format.ts"
import { AttemptDetails } from "./AttemptDetails.tsx"
import { findAttempt } from "./AttemptFacts.ts"
import { CallDetails } from "./CallDetails.tsx"
import { ForkForm } from "./ForkForm.tsx"
import "./details.css"

/** What the pane says of a row. */
interface Details {
  readonly title: string
  /** What is copied of it. */
  readonly record: unknown
  readonly content: ComponentChildren
}

const stepDetails = (view: PlanView, number: number, plan: Plan | undefined): Details | undefined => {
  const step = view.steps.find((entry) => entry.step === number)
  if (step === undefined) return undefined
  const calls = view.tasks.filter((task) => task.step === number)
  const usages = step.attempts.flatMap(({ usage }) => usage ?? [])
  const costs = step.attempts.filter(({ usage }) => usage !== null).map(({ costUsd }) => costUsd)
  const known = costs.filter((one) => one !== null)
  return {
    title: `Step ${number}`,
    record: { ...step, calls },
    content: (
      <>
        <p>
          {counted(step.attempts.length, "attempt")}, {counted(calls.length, "tool call")}.
        </p>
        <dl class="facts">
          {step.endedAt === null ? null : <Fact name="Took">{duration(step.endedAt - step.startedAt)}</Fact>}
          {usages.length === 0 ? null : (
            <>
              <Fact name="Tokens">
                {count(usages.reduce((sum, { input_tokens }) => sum + input_tokens, 0))} in,{" "}
                {count(usages.reduce((sum, { output_tokens }) => sum + output_tokens, 0))} out
              </Fact>
              <Fact name="Cost">
                {cost(known.length < costs.length ? null : known.reduce((sum, one) => sum + one, 0))}
              </Fact>
            </>
          )}
        </dl>
        {plan === undefined ? null : <ForkForm key={number} plan={plan} step={number} />}
      </>
    )
  }
}

const detailsOf = (live: FollowedPlan, row: string): Details | undefined => {
  const view = live.view.value
  const [kind = "", ...rest] = row.split("-")
  const name = rest.join("-")
  switch (kind) {
    case "task": {
      const task = view.tasks.find(({ taskId }) => taskId === name)
      return task === undefined
        ? undefined
        : { title: task.tool, record: task, content: <CallDetails key={name} live={live} task={task} /> }
    }
    case "attempt":
    case "retry": {
      const place = findAttempt(view, name)
      return place === undefined
        ? undefined
        : {
            title: `Step ${place.step.step}, attempt ${place.attempt.attempt}`,
            record: place.attempt,
            content: <AttemptDetails key={name} live={live} place={place} />
          }
    }
    case "step":
      return stepDetails(view, Number(name), live.plan.value)
    case "approval": {
      const approval = view.approvals.find(({ taskId }) => taskId === name)
      if (approval === undefined) return undefined
      const { by, decision, endedAt, input, note, startedAt, tool } = approval
      return {
        title: `Approval of ${tool}`,
        record: approval,
        content: (
          <>
            {decision === null ? null : (
              <p>
                {decision === "approve" ? "Approved" : "Rejected"} by {by}
                {endedAt === null ? "" : ` after ${span(endedAt - startedAt)}`}
                {note === null ? "" : `: ${note}`}
              </p>
            )}
            <Arguments input={input} schema={null} />
          </>
        )
      }
    }
    case "compaction": {
      const compaction = view.compactions[Number(name) - 1]
      return compaction === undefined
        ? undefined
        : {
            title: "Compaction",
            record: compaction,
            content: (
              <>
                <p>
                  {counted(compaction.messagesCompacted, "message")}, {count(compaction.tokensBefore)} tokens before,{" "}
                  {count(compaction.tokensAfter)} after
                </p>
                <Block title="Summary">{compaction.summary}</Block>
              </>
            )
          }
    }
    case "queue":
      return {
        title: "Queue of the session",
        record: view.queue,
        content: <p>Another plan of the session ran first.</p>
      }
    default:
      return undefined
  }
}

/**
 * All that is known of the selected row, beside the timeline. Whoever opens it from there, or from the outcome, reads it at once; Escape gives
 * the focus back, up and down show the next row.
 */
export const RowDetails = ({
  live,
  onClose,
  onStep,
  row
}: {
  readonly live: FollowedPlan
  /** The selected row. */
  readonly row: string
  readonly onClose: () => void
  readonly onStep: (by: number) => void
}) => {
  const pane = useRef<HTMLElement>(null)
  const details = detailsOf(live, row)
  const isShown = details !== undefined
  const trace = traceHref(live.plan.value?.trace_id ?? null)
  useEffect(() => {
    if (document.activeElement?.matches(".grid, .ways a") === true) pane.current?.focus({ preventScroll: true })
    pane.current?.scrollTo(0, 0)
  }, [row, isShown])
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLElement>) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (event.key === "Escape") onClose()
    else if (by !== 0 && event.target === event.currentTarget) onStep(by)
    else return
    event.preventDefault()
  }
  return details === undefined ? null : (
    <section
      ref={pane}
      class="card details"
      tabIndex={-1}
      aria-label="Details of the selected row"
      onKeyDown={onKeyDown}
    >
      <header>
        <h2>{details.title}</h2>
        <button type="button" class="quiet" aria-label="Row above" onClick={() => onStep(-1)}>
          <Sign of="up" />
        </button>
        <button type="button" class="quiet" aria-label="Row below" onClick={() => onStep(1)}>
          <Sign of="open" />
        </button>
        <CopyButton
          label="Copy"
          what="Copy all of the row as JSON"
          text={() => JSON.stringify(details.record, null, 2)}
        />
        <button type="button" class="quiet" onClick={onClose}>
          Close
        </button>
      </header>
      {details.content}
      {trace === undefined ? null : (
        <p>
          <a href={trace} rel="noopener noreferrer" target="_blank">
            Trace of the plan
          </a>
        </p>
      )}
    </section>
  )
}
