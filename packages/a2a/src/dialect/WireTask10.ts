import { RemoteId } from "@bowline/domain/peer/Agent"
import { Option, Result, Schema } from "effect"
import type { Artifact, Message, Task } from "../task/Task.ts"
import type { Update } from "../task/Update.ts"
import { toPart, WirePart10 } from "./WirePart10.ts"

const word = Schema.optionalKey(Schema.NullOr(Schema.String))
// Some peers write an empty string for none.
const id = Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.Literal(""), RemoteId])))
const metadata = Schema.optionalKey(Schema.Json)
// A peer may leave out an empty list.
const list = <A, I>(item: Schema.Codec<A, I>) => Schema.optionalKey(Schema.NullOr(Schema.Array(item)))

const WireMessage = Schema.Struct({
  role: Schema.optionalKey(Schema.NullOr(Schema.String)),
  parts: list(WirePart10),
  messageId: word,
  taskId: id,
  contextId: id,
  metadata
})

const WireStatus = Schema.Struct({
  state: Schema.String,
  message: Schema.optionalKey(Schema.NullOr(WireMessage))
})

const WireArtifact = Schema.Struct({ artifactId: word, name: word, parts: list(WirePart10) })

const WireTask = Schema.Struct({
  id: RemoteId,
  contextId: id,
  status: WireStatus,
  artifacts: list(WireArtifact),
  history: list(WireMessage),
  metadata
})

const toMessage = (wire: typeof WireMessage.Type): Message => ({
  id: wire.messageId || null,
  fromAgent: wire.role !== "ROLE_USER",
  parts: (wire.parts ?? []).map(toPart),
  metadata: wire.metadata ?? null
})

const toArtifact = (wire: typeof WireArtifact.Type): Artifact => ({
  id: wire.artifactId || null,
  ...(wire.name && { name: wire.name }),
  parts: (wire.parts ?? []).map(toPart)
})

/** `TASK_STATE_INPUT_REQUIRED` is `input-required`, and so is any other state, known or not. */
export const stateOf = (state: string): string =>
  state
    .replace(/^TASK_STATE_/, "")
    .replaceAll("_", "-")
    .toLowerCase()

const toTask = (wire: typeof WireTask.Type): Task => ({
  id: wire.id,
  contextId: wire.contextId || null,
  state: stateOf(wire.status.state),
  message: wire.status.message == null ? null : toMessage(wire.status.message),
  artifacts: (wire.artifacts ?? []).map(toArtifact),
  history: (wire.history ?? []).map(toMessage),
  metadata: wire.metadata ?? null
})

/** A peer that answers with a message has no task: the message is the result. */
const fromMessage = (wire: typeof WireMessage.Type): Task => ({
  id: wire.taskId || null,
  contextId: wire.contextId || null,
  state: "completed",
  message: toMessage(wire),
  artifacts: [],
  history: [],
  metadata: null
})

const StatusUpdate = Schema.Struct({ taskId: RemoteId, contextId: id, status: WireStatus, metadata })
const flag = Schema.optionalKey(Schema.NullOr(Schema.Boolean))
const ArtifactUpdate = Schema.Struct({
  taskId: RemoteId,
  contextId: id,
  artifact: WireArtifact,
  append: flag,
  lastChunk: flag
})

const holds = (name: string) => Schema.is(Schema.Struct({ [name]: Schema.JsonObject }))
const holdsTask = holds("task")
const holdsMessage = holds("message")
const holdsStatus = holds("statusUpdate")
const holdsArtifact = holds("artifactUpdate")
const decodeBareTask = Schema.decodeUnknownResult(WireTask)
const decodeTask = Schema.decodeUnknownResult(Schema.Struct({ task: WireTask }))
const decodeMessage = Schema.decodeUnknownResult(Schema.Struct({ message: WireMessage }))
const decodeStatus = Schema.decodeUnknownResult(Schema.Struct({ statusUpdate: StatusUpdate }))
const decodeArtifact = Schema.decodeUnknownResult(Schema.Struct({ artifactUpdate: ArtifactUpdate }))

/** The result of a send, under `task` or `message`; or that of a get, which is bare. */
export const taskOf = (result: Schema.Json): Result.Result<Task, Schema.SchemaError> => {
  if (holdsTask(result)) return Result.map(decodeTask(result), ({ task }) => toTask(task))
  if (holdsMessage(result)) return Result.map(decodeMessage(result), ({ message }) => fromMessage(message))
  return Result.map(decodeBareTask(result), toTask)
}

/** An event of a stream, by the member that it stands under. */
export const updateOf = (result: Schema.Json): Result.Result<Update, Schema.SchemaError> => {
  if (holdsStatus(result)) {
    return Result.map(decodeStatus(result), ({ statusUpdate: { contextId, metadata, status, taskId } }) => ({
      _tag: "Status",
      taskId,
      contextId: contextId || null,
      state: stateOf(status.state),
      message: status.message == null ? null : toMessage(status.message),
      metadata: metadata ?? null
    }))
  }
  if (holdsArtifact(result)) {
    return Result.map(
      decodeArtifact(result),
      ({ artifactUpdate: { append, artifact, contextId, lastChunk, taskId } }) => ({
        _tag: "Artifact",
        taskId,
        contextId: contextId || null,
        artifact: toArtifact(artifact),
        append: append === true,
        isLast: lastChunk === true
      })
    )
  }
  return Result.map(taskOf(result), (task) => ({ _tag: "Task", task }))
}

const Identified = Schema.Struct({ id: RemoteId })
const Naming = Schema.Struct({ taskId: RemoteId })
const decodeIds = Schema.decodeUnknownOption(
  Schema.Union([
    Schema.Struct({ task: Identified }),
    Schema.Struct({ statusUpdate: Naming }),
    Schema.Struct({ artifactUpdate: Naming }),
    Identified
  ])
)

/** The id of a task that does not decode: the call still has to cancel it. */
export const taskIdOf = (result: Schema.Json): string | null =>
  Option.match(decodeIds(result), {
    onNone: () => null,
    onSome: (ids) => {
      if ("task" in ids) return ids.task.id
      if ("statusUpdate" in ids) return ids.statusUpdate.taskId
      return "artifactUpdate" in ids ? ids.artifactUpdate.taskId : ids.id
    }
  })
