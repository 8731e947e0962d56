import type { Schema } from "effect"
import type { Artifact, Message, Task } from "./Task.ts"

/** One event of a peer's stream. A `Task` is all that is known of it, a message of the peer's being a task that is over. */
export type Update =
  | { readonly _tag: "Task"; readonly task: Task }
  | {
      readonly _tag: "Status"
      readonly taskId: string
      readonly contextId: string | null
      readonly state: string
      readonly message: Message | null
      readonly metadata: Schema.Json
    }
  | {
      readonly _tag: "Artifact"
      readonly taskId: string
      readonly contextId: string | null
      readonly artifact: Artifact
      /** Whether its parts go behind those of the artifact of the same id. */
      readonly append: boolean
    }

const nothing = (id: string, contextId: string | null): Task => ({
  id,
  contextId,
  state: "submitted",
  message: null,
  artifacts: [],
  history: [],
  metadata: null
})

const withArtifact = (artifacts: Task["artifacts"], artifact: Artifact, append: boolean): Task["artifacts"] => {
  const known = artifacts.findIndex(({ id }) => id !== null && id === artifact.id)
  const before = artifacts[known]
  if (before === undefined) return [...artifacts, artifact]
  return artifacts.with(known, append ? { ...artifact, parts: [...before.parts, ...artifact.parts] } : artifact)
}

/**
 * The task as it is after an event of its stream. A message of the status moves to the history when a new one comes; of
 * what was there before, every event has told.
 */
export const apply = (before: Task | null, update: Update): Task => {
  if (update._tag === "Task") return update.task
  const task = before ?? nothing(update.taskId, update.contextId)
  const contextId = update.contextId ?? task.contextId
  if (update._tag === "Artifact") {
    return { ...task, contextId, artifacts: withArtifact(task.artifacts, update.artifact, update.append) }
  }
  return {
    ...task,
    contextId,
    state: update.state,
    message: update.message,
    history: task.message === null ? task.history : [task.message],
    metadata: update.metadata ?? task.metadata
  }
}
