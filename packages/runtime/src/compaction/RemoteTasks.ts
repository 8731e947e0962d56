import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Entry } from "../provider/LegalHistory.ts"
import type { HandedBack } from "../store/SessionStore.ts"
import * as ToolName from "../tool/ToolName.ts"

/** The peers' ids of the tasks that they have handed back, by the newest call of each skill. */
export const waitingTasks = (
  messages: ReadonlyArray<Entry>,
  waiting: ReadonlyArray<HandedBack>
): ReadonlyMap<TaskId, string> => {
  const tasks = new Map(waiting.map((task) => [ToolName.forSkill(task.agent, task.skill), task.remote_task_id]))
  const newest = new Map<string, TaskId>()
  for (const part of messages.flatMap(({ parts }) => parts)) {
    if (part.type === "tool_call") newest.set(part.tool, part.task_id)
  }
  return new Map(
    Array.from(newest).flatMap(([tool, task_id]) => {
      const remote = tasks.get(tool)
      return remote === undefined ? [] : [[task_id, remote] as const]
    })
  )
}
