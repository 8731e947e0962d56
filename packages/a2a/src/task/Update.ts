import type { Schema } from "effect"
import type { Artifact, Message, Part, Task } from "./Task.ts"

/** One event of a peer's stream. A `Task` is the whole task; a message in place of a task counts as a task that is over. */
export type Update =
  | { readonly _tag: "Task"; readonly task: Task }
  | {
      readonly _tag: "Status"
      readonly taskId: string | null
      readonly contextId: string | null
      readonly state: string
      readonly message: Message | null
      readonly metadata: Schema.Json
    }
  | {
      readonly _tag: "Artifact"
      readonly taskId: string | null
      readonly contextId: string | null
      readonly artifact: Pick<Artifact, "id" | "name" | "parts">
      /** Whether its parts are appended to the artifact of the same id. */
      readonly append: boolean
      readonly isLast: boolean
    }

const nothing = (id: string | null, contextId: string | null): Task => ({
  id,
  contextId,
  state: "submitted",
  message: null,
  artifacts: [],
  history: [],
  metadata: null
})

type Piece = Extract<Update, { readonly _tag: "Artifact" }>

const isPlain = (part: Part | undefined): part is Part & { readonly _tag: "Text" } =>
  part?._tag === "Text" && part.metadata === undefined

/** Appends parts. Pieces of one text become one text. */
const joined = (before: ReadonlyArray<Part>, parts: ReadonlyArray<Part>): ReadonlyArray<Part> => {
  const last = before.at(-1)
  const [first, ...others] = parts
  return isPlain(last) && isPlain(first)
    ? [...before.slice(0, -1), { ...last, text: last.text + first.text }, ...others]
    : [...before, ...parts]
}

const withArtifact = (artifacts: Task["artifacts"], { append, artifact, isLast }: Piece): Task["artifacts"] => {
  const { parts, ...named } = artifact
  const { id } = named
  const known = artifacts.findIndex((other) => id !== null && other.id === id)
  const before = artifacts[known]
  // The first pieces came in an earlier stream: the whole artifact comes with the task.
  if (before === undefined) return [...artifacts, { ...named, parts, isWhole: isLast && !append }]
  const whole = append ? { ...before, ...named, parts: joined(before.parts, parts) } : artifact
  return artifacts.with(known, { ...whole, isWhole: isLast })
}

/** Only the last message of the agent may be in the result. */
const lastSaid = (history: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  history.length <= 1 ? history : history.filter(({ fromAgent }) => fromAgent).slice(-1)

/**
 * The task after an event of its stream. When a new status message comes, the one before it becomes the history: older
 * messages are already told.
 */
export const apply = (before: Task | null, update: Update): Task => {
  if (update._tag === "Task") return update.task
  const task = before ?? nothing(update.taskId, update.contextId)
  const contextId = update.contextId ?? task.contextId
  if (update._tag === "Artifact") {
    return { ...task, contextId, artifacts: withArtifact(task.artifacts, update), history: lastSaid(task.history) }
  }
  return {
    ...task,
    contextId,
    state: update.state,
    message: update.message,
    history: task.message === null ? lastSaid(task.history) : [task.message],
    metadata: update.metadata ?? task.metadata
  }
}
