import type { ArtifactView, PlanView, TaskView } from "@bowline/client"
import type { ComponentChildren, TargetedKeyboardEvent } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { traceHref } from "../gateway/Config.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { here } from "../route/Location.ts"
import { CopyButton } from "../shell/CopyButton.tsx"
import { cost, count, duration, pretty } from "../text/Format.ts"

const Text = ({ children, title }: { readonly title: string; readonly children: string }) => (
  <>
    <h3>{title}</h3>
    <pre tabIndex={0} aria-label={title}>
      {children}
    </pre>
  </>
)

const Id = ({ name, value }: { readonly name: string; readonly value: string | null }) =>
  value === null ? null : (
    <div>
      <dt>{name}</dt>
      <dd>
        <code>{value}</code> <CopyButton label="Copy" what={`Copy: ${name}`} text={value} />
      </dd>
    </div>
  )

const artifactTitle = ({ mediaType, name, truncated, verified }: ArtifactView): string =>
  [`Output ${name ?? ""}`.trim(), mediaType, truncated ? "cut" : "", verified === null ? "" : `verified: ${verified}`]
    .filter((part) => part !== "")
    .join(" · ")

const Task = ({ task }: { readonly task: TaskView }) => (
  <>
    <h2>{task.tool}</h2>
    <p>
      {task.state}
      {task.durationMs === null ? "" : ` after ${duration(task.durationMs)}`}
      {task.agent === null ? "" : `, by ${task.agent}`}
    </p>
    <dl class="facts ids">
      <Id name="Task" value={task.taskId} />
      <Id name="Remote task" value={task.remoteTaskId} />
      <Id name="Remote context" value={task.remoteContextId} />
      <Id name="DID of the agent" value={task.agentDid} />
    </dl>
    {task.error === null ? null : <Text title="Error">{`${task.error.code}: ${task.error.message}`}</Text>}
    <Text title="Input">{pretty(task.input)}</Text>
    {task.artifacts.map((artifact) => (
      <Text title={artifactTitle(artifact)}>{pretty(artifact.content)}</Text>
    ))}
    {task.progress.length === 0 ? null : (
      <>
        <h3>Progress</h3>
        <ul>
          {task.progress.slice(-50).map(({ message, state }) => (
            <li>
              <span class="code">{state}</span> {message}
            </li>
          ))}
        </ul>
      </>
    )}
  </>
)

const Attempt = ({ name, view }: { readonly view: PlanView; readonly name: string }) => {
  const [step, number] = name.split("-").map(Number)
  const attempt = view.steps.find((entry) => entry.step === step)?.attempts.find((entry) => entry.attempt === number)
  if (attempt === undefined) return null
  const { costUsd, error, firstTokenAt, reasoning, retry, startedAt, text, usage } = attempt
  return (
    <>
      <h2>
        Step {step}, attempt {number}
      </h2>
      {error === null ? null : <Text title="Error">{`${error.code}: ${error.message}`}</Text>}
      {firstTokenAt === null ? null : <p>First token after {duration(firstTokenAt - startedAt)}.</p>}
      {usage === null ? null : (
        <p>
          {count(usage.input_tokens)} tokens in, {count(usage.output_tokens)} out, {cost(costUsd)}
        </p>
      )}
      {retry === null ? null : (
        <>
          <p>
            Asked {retry.model} with credential {retry.credential ?? "of the configuration"} after{" "}
            {duration(retry.delayMs)}.
          </p>
          <Text title="Error of the attempt before">{`${retry.error.code}: ${retry.error.message}`}</Text>
        </>
      )}
      {text === "" ? null : <Text title={attempt.isRetracted ? "Text, retracted" : "Text"}>{text}</Text>}
      {reasoning === "" ? null : <Text title="Reasoning">{reasoning}</Text>}
    </>
  )
}

const Step = ({ number, view }: { readonly view: PlanView; readonly number: number }) => {
  const calls = view.tasks.filter(({ step }) => step === number).length
  const attempts = view.steps.find(({ step }) => step === number)?.attempts.length ?? 0
  return (
    <>
      <h2>Step {number}</h2>
      <p>
        {count(attempts)} {attempts === 1 ? "attempt" : "attempts"}, {count(calls)}{" "}
        {calls === 1 ? "tool call" : "tool calls"}.
      </p>
    </>
  )
}

const detailsOf = (view: PlanView, row: string): ComponentChildren => {
  const [kind = "", ...rest] = row.split("-")
  const name = rest.join("-")
  switch (kind) {
    case "task": {
      const task = view.tasks.find(({ taskId }) => taskId === name)
      return task === undefined ? null : <Task task={task} />
    }
    case "attempt":
    case "retry":
      return <Attempt view={view} name={name} />
    case "step":
      return <Step view={view} number={Number(name)} />
    case "approval": {
      const approval = view.approvals.find(({ taskId }) => taskId === name)
      return approval === undefined ? null : (
        <>
          <h2>Approval of {approval.tool}</h2>
          {approval.decision === null ? null : (
            <p>
              {approval.decision === "approve" ? "Approved" : "Rejected"} by {approval.by}
              {approval.note === null ? "" : `: ${approval.note}`}
            </p>
          )}
          <Text title="Input">{pretty(approval.input)}</Text>
        </>
      )
    }
    case "compaction": {
      const compaction = view.compactions[Number(name) - 1]
      return compaction === undefined ? null : (
        <>
          <h2>Compaction</h2>
          <p>
            {count(compaction.messagesCompacted)} messages, {count(compaction.tokensBefore)} tokens before,{" "}
            {count(compaction.tokensAfter)} after
          </p>
          <Text title="Summary">{compaction.summary}</Text>
        </>
      )
    }
    case "queue":
      return (
        <>
          <h2>Queue of the session</h2>
          <p>Another plan of the session ran first.</p>
        </>
      )
    default:
      return null
  }
}

/**
 * All that is known of the selected row, beside the timeline. Whoever opens it from there, or from the outcome, reads it at once; Escape gives
 * the focus back, up and down show the next row.
 */
export const RowDetails = ({
  live,
  onClose,
  onStep
}: {
  readonly live: FollowedPlan
  readonly onClose: () => void
  readonly onStep: (by: number) => void
}) => {
  const pane = useRef<HTMLElement>(null)
  const row = here.value.query.get("row")
  const details = row === null ? null : detailsOf(live.view.value, row)
  const trace = traceHref(live.plan.value?.trace_id ?? null)
  useEffect(() => {
    if (document.activeElement?.matches(".grid, .ways a") === true) pane.current?.focus({ preventScroll: true })
    pane.current?.scrollTo(0, 0)
  }, [row])
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLElement>) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (event.key === "Escape") onClose()
    else if (by !== 0 && event.target === event.currentTarget) onStep(by)
    else return
    event.preventDefault()
  }
  return details === null ? null : (
    <section
      ref={pane}
      class="card details"
      tabIndex={-1}
      aria-label="Details of the selected row"
      onKeyDown={onKeyDown}
    >
      <button type="button" class="quiet close" onClick={onClose}>
        Close
      </button>
      {details}
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
