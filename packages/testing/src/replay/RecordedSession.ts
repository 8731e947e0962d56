import { ExternalSessionId, type SessionId } from "@bowline/domain/session/Session"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Effect } from "effect"
import * as Given from "../store/Given.ts"
import { type Fields, fieldsOf, listOf, type PlanRecording } from "./RecordFile.ts"

/** What peers had handed back to earlier plans, as the session was summarised: what the first summary has told comes last, as the newest. Undefined if none has told. */
export const tasksOf = ({ sources }: PlanRecording): ReadonlyArray<Fields> | undefined => {
  const told = sources.flatMap(({ sources: { tasks } }) => (tasks !== undefined && "told" in tasks ? [tasks.told] : []))
  return told.length === 0 ? undefined : told.toReversed().flatMap((tasks) => listOf(fieldsOf(tasks)["tasks"]))
}

/** Where the plan finds the agents that have handed back tasks: its calls go on with those of the same endpoint. */
const endpointsOf = ({ begins: [begin], plan, texts }: PlanRecording): ReadonlyMap<string, string> => {
  const { preset } = fieldsOf(JSON.parse(texts.get(begin?.environment ?? "") ?? "{}"))
  const agents = [...listOf(fieldsOf(preset)["agents"]), ...listOf(fieldsOf(plan.request)["agents"])]
  return new Map(agents.map(({ endpoint, name }) => [String(name), String(endpoint)]))
}

/** Has calls of an earlier plan get back what peers have handed back to the session. */
const handBack = Effect.fnUntraced(function* (recording: PlanRecording, earlier: Given.Stored) {
  const endpoints = endpointsOf(recording)
  for (const { agent, remote_task_id, skill } of tasksOf(recording) ?? []) {
    const called = { agent: String(agent), endpoint: endpoints.get(String(agent)) ?? "", skill: String(skill) }
    const task_id = yield* Given.newTask
    yield* Given.write(earlier, [
      Given.started(task_id, String(skill), called),
      { _tag: "TaskAccepted", task_id, remote_task_id: String(remote_task_id), remote_context_id: null },
      { _tag: "TaskFinished", task_id, state: "input-required", result: "", error: null, at: Given.at }
    ])
  }
})

/** The session has files that only its summary may tell of. */
const attachFiles = Effect.fnUntraced(function* (
  begin: PlanRecording["begins"][number] | undefined,
  session: SessionId
) {
  const ids = (begin?.files ?? []).map(({ file_id }) => file_id)
  if (ids.length > 0) yield* (yield* FileStore).attach(session, ids, Infinity)
})

/** Whether the store was away until the plan failed, while another one had its session. */
export const failsInQueue = ({ plan: { error } }: PlanRecording): boolean =>
  error?.code === "storage" && error.stage === "queue"

/** The session as the plan found it: a plan before it has left what it says. */
export const seed = Effect.fnUntraced(function* (recording: PlanRecording) {
  const { begins, frames, messages, plan } = recording
  const [begin] = begins
  const before = messages.filter(({ plan_id }) => plan_id !== plan.plan_id)
  const wasThere = frames.some(({ data, event }) => event === "session" && fieldsOf(data)["created"] === false)
  // A new session has what the request itself brings.
  if (!wasThere) return undefined
  const { external_session_id: given } = plan
  // The request brings the last one itself, if it has one.
  const { priors = [], text = null } = begin?.summary ?? {}
  const isOwn = priors.at(-1) === fieldsOf(plan.request)["prior_summary"]
  const summaries = [...(isOwn ? priors.slice(0, -1) : priors), ...(text === null ? [] : [text])]
  let name = given
  for (const [index, prior_summary] of [undefined, ...summaries].entries()) {
    const held = yield* Given.createHeld({
      owner: plan.caller,
      ...(name !== null && { external_session_id: name }),
      ...(index === 0 && { messages: before.map(({ message_id, parts, role }) => ({ message_id, role, parts })) }),
      ...(prior_summary !== undefined && { prior_summary })
    })
    if (index === 0) {
      yield* attachFiles(begin, held.session_id)
      yield* handBack(recording, held)
    }
    if (index < summaries.length || !failsInQueue(recording)) yield* Given.finish(held)
    // One without a name is known by its id.
    name ??= ExternalSessionId.make(held.session_id)
  }
  return name ?? undefined
})
