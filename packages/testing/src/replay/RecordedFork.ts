import { TaskId } from "@bowline/domain/tool/TaskState"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { questionId, type Recorded } from "@bowline/runtime/unstable/store/PlanStore"
import { fieldsOf, type PlanRecording, written } from "./RecordFile.ts"

/** What a fork has of the plan that it goes on from: what its own calls got of it. */
export const forkedFrom = ({ calls, frames, ofEdge: { fork }, plan, preferences, sources }: PlanRecording) => {
  if (fork === undefined) return undefined
  const started = new Map<string, ReturnType<typeof fieldsOf>>()
  const repeated = new Map<string, string>()
  for (const { data, event } of frames) {
    const fields = fieldsOf(data)
    const task = String(fields["task_id"])
    if (event === "task.started") started.set(task, fields)
    if (event === "task.finished" && typeof fields["repeat_of"] === "string") repeated.set(task, fields["repeat_of"])
  }
  // Its calls were made from that step on.
  const step: Omit<EventRow, "seq"> = {
    at: plan.created_at,
    count: 1,
    event: "step",
    payload: JSON.stringify({ step: fork.step }),
    record: JSON.stringify(sources)
  }
  const told = frames.flatMap(({ at, data, event }): ReadonlyArray<Omit<EventRow, "seq">> => {
    const task_id = repeated.get(String(fieldsOf(data)["task_id"]))
    if (task_id === undefined || (event !== "task.started" && event !== "task.artifact")) return []
    return [{ at, count: 1, event, payload: JSON.stringify({ ...data, task_id }) }]
  })
  const rows = [step, ...told].map((row, index): EventRow => ({ ...row, seq: index + 1 }))
  const recorded: Recorded = {
    preferences: written(preferences),
    request: null,
    calls: calls.flatMap((call) => {
      const task_id = repeated.get(call.task_id)
      return task_id === undefined
        ? []
        : [{ ...call, task_id: TaskId.make(task_id), input: written(started.get(call.task_id)?.["input"] ?? {}) }]
    })
  }
  return { plan_id: fork.plan_id, caller: plan.caller, recorded, rows }
}

/** The messages that its session was told as it was created: those of a fork, or of a client that keeps the history itself. */
export const toldTo = ({ begins: [begin], frames, messages, ofEdge, plan }: PlanRecording) => {
  const isNew = frames.some(({ data, event }) => event === "session" && fieldsOf(data)["created"] === true)
  if (ofEdge.fork === undefined && (!isNew || begin?.history == null)) return undefined
  const last = messages.findIndex(({ message_id }) => message_id === begin?.history?.last)
  const question = questionId(plan.plan_id)
  return messages.slice(0, last + 1).map(({ message_id, parts, role }) => ({
    role,
    parts,
    ...(message_id === question && { isQuestion: true as const })
  }))
}
