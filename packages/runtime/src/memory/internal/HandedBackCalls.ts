import { handedBack } from "@bowline/domain/tool/TaskState"
import type { HandedBack } from "../../store/SessionStore.ts"
import type { SessionRecord, Task } from "./MemoryRecords.ts"

const remoteOf = ({
  agent,
  endpoint,
  skill,
  remote_task_id,
  remote_context_id,
  preset
}: Task): HandedBack | undefined =>
  agent === null || endpoint === null || skill === null || remote_task_id === null
    ? undefined
    : { agent, endpoint, skill, remote_task_id, remote_context_id, preset }

const isHandedBack = ({ state }: Task): boolean => state !== "running" && handedBack.has(state)

/** What waits for a further call of the session: see `SessionStore`. */
export const handedBackTo = ({ tasks }: SessionRecord): ReadonlyArray<HandedBack> => {
  const keyOf = ({ endpoint, remote_task_id }: Task) => JSON.stringify([endpoint, remote_task_id])
  const reverted = new Set(tasks.filter((task) => task.reverted).map(keyOf))
  const newest = new Map<string, { readonly task: Task; readonly remote: HandedBack }>()
  for (const task of tasks) {
    const remote = remoteOf(task)
    if (remote === undefined || reverted.has(keyOf(task))) continue
    const key = JSON.stringify([remote.agent, remote.endpoint, remote.skill, remote.remote_task_id])
    // The newest call of a remote task also comes last here.
    newest.delete(key)
    newest.set(key, { task, remote })
  }
  const waiting = new Map<string, HandedBack>()
  for (const { task, remote } of newest.values()) {
    if (!isHandedBack(task)) continue
    const key = JSON.stringify([remote.agent, remote.endpoint, remote.skill])
    waiting.delete(key)
    waiting.set(key, remote)
  }
  return Array.from(waiting.values())
}

/** From now on no call continues what peers have handed back to these. Returns that. */
export const withdraw = (tasks: ReadonlyArray<Task>): ReadonlyArray<HandedBack> => {
  for (const task of tasks) task.reverted = true
  return tasks.filter(isHandedBack).flatMap((task) => remoteOf(task) ?? [])
}
