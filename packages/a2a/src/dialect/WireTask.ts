import { RemoteId } from "@bowline/domain/peer/Agent"
import { Option, Result, Schema } from "effect"
import type { Artifact, Message, Task } from "../task/Task.ts"
import type { Update } from "../task/Update.ts"
import { toPart, WirePart } from "./WirePart.ts"

const word = Schema.optionalKey(Schema.NullOr(Schema.String))
const id = Schema.optionalKey(Schema.NullOr(RemoteId))
const metadata = Schema.optionalKey(Schema.Json)
const list = <A, I>(item: Schema.Codec<A, I>) => Schema.optionalKey(Schema.NullOr(Schema.Array(item)))

const WireMessage = Schema.Struct({
  role: Schema.String,
  parts: Schema.Array(WirePart),
  messageId: word,
  message_id: word,
  taskId: id,
  task_id: id,
  contextId: id,
  context_id: id,
  metadata
})

const WireStatus = Schema.Struct({
  state: Schema.String,
  message: Schema.optionalKey(Schema.NullOr(WireMessage))
})

const WireArtifact = Schema.Struct({ artifactId: word, artifact_id: word, name: word, parts: Schema.Array(WirePart) })

const WireTask = Schema.Struct({
  id: RemoteId,
  contextId: id,
  context_id: id,
  status: WireStatus,
  artifacts: list(WireArtifact),
  history: list(WireMessage),
  metadata
})

const toMessage = (wire: typeof WireMessage.Type): Message => ({
  id: wire.messageId ?? wire.message_id ?? null,
  fromAgent: wire.role !== "user",
  parts: wire.parts.map(toPart),
  metadata: wire.metadata ?? null
})

const toArtifact = (wire: typeof WireArtifact.Type): Artifact => ({
  id: wire.artifactId ?? wire.artifact_id ?? null,
  ...(wire.name != null && wire.name !== "" && { name: wire.name }),
  parts: wire.parts.map(toPart)
})

const toTask = (wire: typeof WireTask.Type): Task => ({
  id: wire.id,
  contextId: wire.contextId ?? wire.context_id ?? null,
  state: wire.status.state,
  message: wire.status.message == null ? null : toMessage(wire.status.message),
  artifacts: (wire.artifacts ?? []).map(toArtifact),
  history: (wire.history ?? []).map(toMessage),
  metadata: wire.metadata ?? null
})

/** A peer that answers with a message has no task: the message is the result. */
const fromMessage = (wire: typeof WireMessage.Type): Task => ({
  id: wire.taskId ?? wire.task_id ?? null,
  contextId: wire.contextId ?? wire.context_id ?? null,
  state: "completed",
  message: toMessage(wire),
  artifacts: [],
  history: [],
  metadata: null
})

const isMessage = Schema.is(Schema.Struct({ kind: Schema.Literal("message") }))
const decodeMessage = Schema.decodeUnknownResult(WireMessage)
const decodeTask = Schema.decodeUnknownResult(WireTask)
const decodeId = Schema.decodeUnknownOption(Schema.Struct({ id: RemoteId }))

/** The result of a send or a get, bare, by its `kind`. Names in camel case (A2A) or snake case (bindu). */
export const taskOf = (result: Schema.Json): Result.Result<Task, Schema.SchemaError> =>
  isMessage(result) ? Result.map(decodeMessage(result), fromMessage) : Result.map(decodeTask(result), toTask)

const StatusUpdate = Schema.Struct({
  kind: Schema.Literal("status-update"),
  taskId: id,
  task_id: id,
  contextId: id,
  context_id: id,
  status: WireStatus,
  metadata
})
const flag = Schema.optionalKey(Schema.NullOr(Schema.Boolean))
const ArtifactUpdate = Schema.Struct({
  kind: Schema.Literal("artifact-update"),
  taskId: id,
  task_id: id,
  contextId: id,
  context_id: id,
  artifact: WireArtifact,
  append: flag,
  lastChunk: flag
})
const isKind = (kind: string) => Schema.is(Schema.Struct({ kind: Schema.Literal(kind) }))
const isStatus = isKind("status-update")
const isArtifact = isKind("artifact-update")
const decodeStatus = Schema.decodeUnknownResult(StatusUpdate)
const decodeArtifact = Schema.decodeUnknownResult(ArtifactUpdate)

/** An event of a stream, by its `kind`. */
export const updateOf = (result: Schema.Json): Result.Result<Update, Schema.SchemaError> => {
  if (isStatus(result)) {
    return Result.map(decodeStatus(result), (wire) => ({
      _tag: "Status",
      taskId: wire.taskId ?? wire.task_id ?? null,
      contextId: wire.contextId ?? wire.context_id ?? null,
      state: wire.status.state,
      message: wire.status.message == null ? null : toMessage(wire.status.message),
      metadata: wire.metadata ?? null
    }))
  }
  if (isArtifact(result)) {
    return Result.map(decodeArtifact(result), (wire) => ({
      _tag: "Artifact",
      taskId: wire.taskId ?? wire.task_id ?? null,
      contextId: wire.contextId ?? wire.context_id ?? null,
      artifact: toArtifact(wire.artifact),
      append: wire.append === true,
      isLast: wire.lastChunk === true
    }))
  }
  return Result.map(taskOf(result), (task) => ({ _tag: "Task", task }))
}

/** The id of a task that does not decode: the call still has to cancel it. */
export const taskIdOf = (result: Schema.Json): string | null =>
  Option.match(decodeId(result), { onNone: () => null, onSome: (task) => task.id })
