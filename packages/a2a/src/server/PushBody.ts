import { isOver } from "@bowline/runtime/unstable/store/TaskStore"
import type { Wire } from "./PushConfig.ts"
import { json03, json10 } from "./ServedJson.ts"
import type { Metadata, ServedTask, ServedUpdate } from "./ServedTask.ts"

/** Of the pieces of an artifact only the last one matters, and of statuses those that change it. */
const isTold = (update: ServedUpdate): boolean =>
  update._tag === "Status" ? update.weight !== "progress" : update.lastChunk

/** An artifact of which there are only pieces so far is not told. */
const withoutPieces = (task: ServedTask): ServedTask =>
  isOver(task.status.standing)
    ? task
    : { ...task, artifacts: task.artifacts.filter(({ artifactId }) => artifactId !== "answer") }

/**
 * What a receiver is told of a change: in 1.0 each new status and each whole artifact, in 0.3 the whole task. `task` is as it stands
 * behind the change.
 */
export const bodiesOf = (
  wire: Wire,
  task: ServedTask,
  updates: ReadonlyArray<ServedUpdate>
): ReadonlyArray<Metadata> => {
  const told = updates.filter(isTold)
  if (wire !== "1.0") return told.length === 0 ? [] : [json03.task(withoutPieces(task))]
  return told.map((update) => {
    if (update._tag === "Status") return json10.update(task, update)
    const whole = task.artifacts.find(({ artifactId }) => artifactId === update.artifact.artifactId)
    return json10.update(task, { ...update, artifact: whole ?? update.artifact, append: false })
  })
}
