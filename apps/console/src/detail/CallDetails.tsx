import type { ArtifactView, PlanView, TaskView } from "@bowline/client"
import { useMemo } from "preact/hooks"
import { Arguments } from "../call/Arguments.tsx"
import { schemaOf } from "../call/ToolSchemas.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { setQuery } from "../route/Location.ts"
import { Block, Fact, Id } from "../shell/Block.tsx"
import { duration, pretty, unknown } from "../text/Format.ts"
import { ofTask, RawFrames, Told } from "./Recorded.tsx"

const titleOf = ({ name }: ArtifactView, index: number, count: number): string =>
  ["Result", name ?? (count > 1 ? String(index + 1) : "")].filter((part) => part !== "").join(" ")

const noteOf = ({ mediaType, truncated, verified }: ArtifactView): string =>
  [mediaType, truncated ? "cut" : "", verified === null ? "" : `signed by the agent: ${verified}`]
    .filter((part) => part !== "")
    .join(" · ")

// A plan may have thousands of calls, and is drawn anew while it runs.
const inputs = new WeakMap<TaskView, string>()

const inputOf = (task: TaskView): string => {
  const known = inputs.get(task) ?? JSON.stringify(task.input)
  inputs.set(task, known)
  return known
}

/** The calls of the plan that asked the same of the same tool. */
const sameCalls = ({ tasks }: PlanView, task: TaskView): ReadonlyArray<TaskView> =>
  tasks.filter((other) => other.tool === task.tool && inputOf(other) === inputOf(task))

/** How many calls that asked the same are linked. */
const mostRepeats = 10

/** The gateway calls a tool once; a model may ask for the same again. */
const Repeats = ({ task, view }: { readonly task: TaskView; readonly view: PlanView }) => {
  const calls = useMemo(() => sameCalls(view, task), [view.tasks, task])
  if (calls.length < 2) return <>none</>
  return (
    <>
      {calls.length > mostRepeats ? `${calls.length} times, last: ` : null}
      {calls.slice(-mostRepeats).map((call, index) => (
        <>
          {index === 0 ? "" : ", "}
          {call === task ? (
            <strong>this one</strong>
          ) : (
            <button type="button" class="link" onClick={() => setQuery({ row: `task-${call.taskId}` })}>
              {call.state} in step {call.step}
            </button>
          )}
        </>
      ))}
    </>
  )
}

/** The earlier call that has done what this one was to do: of this plan, or of another one. */
const RepeatOf = ({ task, view }: { readonly task: string; readonly view: PlanView }) => {
  const call = view.tasks.find(({ taskId }) => taskId === task)
  return call === undefined ? (
    <code>{task}</code>
  ) : (
    <button type="button" class="link" onClick={() => setQuery({ row: `task-${task}` })}>
      the call in step {call.step}
    </button>
  )
}

/** One call of a tool: with what, what it gave, and where it was made. */
export const CallDetails = ({ live, task }: { readonly live: FollowedPlan; readonly task: TaskView }) => {
  const view = live.view.value
  const plan = live.plan.value
  const approval = view.approvals.find(({ taskId }) => taskId === task.taskId)
  return (
    <>
      {task.error === null ? null : <Block title="Error">{`${task.error.code}: ${task.error.message}`}</Block>}
      <dl class="facts">
        <Fact name="State">{task.state}</Fact>
        {task.repeatOf === undefined ? null : (
          <Fact name="Not made">
            It repeats <RepeatOf task={task.repeatOf} view={view} />
          </Fact>
        )}
        <Fact name="Took">{task.durationMs === null ? unknown : duration(task.durationMs)}</Fact>
        <Fact name={task.kind === "mcp" ? "MCP server" : "Agent"}>{task.agent ?? unknown}</Fact>
        {task.skill === null ? null : <Fact name="Skill">{task.skill}</Fact>}
        <Fact name="Same call in this plan">
          <Repeats task={task} view={view} />
        </Fact>
        {approval === undefined ? null : (
          <Fact name="Approval">
            {approval.decision === null ? "not decided" : `${approval.decision}d by ${approval.by ?? "somebody"}`}
          </Fact>
        )}
      </dl>
      <Arguments input={task.input} schema={plan === undefined ? null : schemaOf(plan, task.tool)} />
      {task.artifacts.map((artifact, index) => (
        <Block title={titleOf(artifact, index, task.artifacts.length)} note={noteOf(artifact)}>
          {pretty(artifact.content)}
        </Block>
      ))}
      {task.progress.length === 0 ? null : (
        <section class="block" aria-label="Progress">
          <header>
            <h3>Progress</h3>
          </header>
          <ul>
            {task.progress.slice(-50).map(({ at, message, state }) => (
              <li>
                <span class="number dim">{duration(at - task.startedAt)}</span> <span class="code">{state}</span>{" "}
                {message}
              </li>
            ))}
          </ul>
        </section>
      )}
      <dl class="facts ids">
        <Id name="Task" value={task.taskId} />
        <Id name="Remote task" value={task.remoteTaskId} />
        <Id name="Remote context" value={task.remoteContextId} />
        <Id
          name={task.agentDidSource === null ? "DID of the agent" : `DID of the agent, ${task.agentDidSource}`}
          value={task.agentDid}
        />
      </dl>
      <Told live={live} taskId={task.taskId} />
      <RawFrames live={live} wants={ofTask(task.taskId)} />
    </>
  )
}
