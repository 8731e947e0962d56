import { Schema } from "effect"
import type { Standing } from "@bowline/runtime/unstable/store/TaskStore"
import type { Part } from "../task/Task.ts"
import type {
  Metadata,
  ServedArtifact,
  ServedMessage,
  ServedStatus,
  ServedTask,
  ServedUpdate,
  TaskIds
} from "./ServedTask.ts"

/** How a wire spells what all of them say. */
interface Spelling {
  readonly part: (part: Part) => Metadata
  readonly role: (role: ServedMessage["role"]) => string
  readonly state: (standing: Standing) => string
  /** The name of the parts of a message. */
  readonly parts: "parts" | "content"
  /** Whether each object says what it is in its `kind`; else its member's name says so. */
  readonly hasKinds: boolean
  /** Whether a status says that its stream ends. */
  readonly saysFinal: boolean
}

/** Writes tasks and the events of streams as JSON. */
export interface ServedJson {
  readonly task: (task: ServedTask) => Metadata
  /** The answer to a message, and the first event of a stream. */
  readonly sent: (task: ServedTask) => Metadata
  readonly update: (ids: TaskIds, update: ServedUpdate) => Metadata
}

const make = (spelling: Spelling): ServedJson => {
  const kind = (name: string) => spelling.hasKinds && { kind: name }
  const wrapped = (name: "task" | "statusUpdate" | "artifactUpdate", value: Metadata): Metadata =>
    spelling.hasKinds ? value : { [name]: value }

  const messageOf = ({ messageId, metadata, parts, role }: ServedMessage, { contextId, id }: TaskIds): Metadata => ({
    ...kind("message"),
    messageId,
    contextId,
    taskId: id,
    role: spelling.role(role),
    [spelling.parts]: parts.map(spelling.part),
    ...(metadata !== undefined && { metadata })
  })
  const statusOf = ({ message, standing, timestamp }: ServedStatus, ids: TaskIds): Metadata => ({
    state: spelling.state(standing),
    ...(message !== undefined && { message: messageOf(message, ids) }),
    ...(timestamp !== undefined && { timestamp })
  })
  const artifactOf = ({ artifactId, metadata, name, parts }: ServedArtifact): Metadata => ({
    artifactId,
    name,
    parts: parts.map(spelling.part),
    ...(metadata !== undefined && { metadata })
  })
  const taskOf = (task: ServedTask): Metadata => ({
    ...kind("task"),
    id: task.id,
    contextId: task.contextId,
    status: statusOf(task.status, task),
    ...(task.artifacts.length > 0 && { artifacts: task.artifacts.map(artifactOf) }),
    ...(task.history.length > 0 && { history: task.history.map((message) => messageOf(message, task)) }),
    metadata: task.metadata
  })

  return {
    task: taskOf,
    sent: (task) => wrapped("task", taskOf(task)),
    update: (ids, update) => {
      const common = { taskId: ids.id, contextId: ids.contextId }
      if (update._tag === "Artifact") {
        const { append, artifact, lastChunk } = update
        const event = { ...kind("artifact-update"), ...common, artifact: artifactOf(artifact), append, lastChunk }
        return wrapped("artifactUpdate", event)
      }
      const { metadata, status, weight } = update
      const final = spelling.saysFinal && { final: weight === "final" }
      const event = { ...kind("status-update"), ...common, status: statusOf(status, ids), ...final, metadata }
      return wrapped("statusUpdate", event)
    }
  }
}

const isObject = Schema.is(Schema.Record(Schema.String, Schema.Json))

const upper = (word: string): string => word.toUpperCase().replaceAll("-", "_")

/** In 0.3 the data of a part is an object. */
const objectOf = ({ data }: Part & { readonly _tag: "Data" }): Metadata => (isObject(data) ? data : { value: data })

/** A2A 1.0, in both bindings. */
export const json10 = make({
  part: (part) => {
    switch (part._tag) {
      case "Text":
        return { text: part.text }
      case "Data":
        return { data: part.data, mediaType: "application/json" }
      case "File": {
        const { bytes, mediaType, name, uri = "" } = part
        return {
          ...(bytes === undefined ? { url: uri } : { raw: bytes }),
          ...(name !== undefined && { filename: name }),
          mediaType
        }
      }
    }
  },
  role: (role) => `ROLE_${upper(role)}`,
  state: (standing) => `TASK_STATE_${upper(standing)}`,
  parts: "parts",
  hasKinds: false,
  saysFinal: false
})

/** JSON-RPC of A2A 0.3. */
export const json03 = make({
  part: (part) => {
    switch (part._tag) {
      case "Text":
        return { kind: "text", text: part.text }
      case "Data":
        return { kind: "data", data: objectOf(part) }
      case "File": {
        const { bytes, mediaType: mimeType, name, uri = "" } = part
        const place = bytes === undefined ? { uri } : { bytes }
        return { kind: "file", file: { ...place, ...(name !== undefined && { name }), mimeType } }
      }
    }
  },
  role: (role) => role,
  state: (standing) => standing,
  parts: "parts",
  hasKinds: true,
  saysFinal: true
})

/** HTTP+JSON of A2A 0.3: the JSON of its protocol buffers, which differs from that of its JSON-RPC. */
export const jsonProto03 = make({
  part: (part) => {
    switch (part._tag) {
      case "Text":
        return { text: part.text }
      case "Data":
        return { data: { data: objectOf(part) } }
      case "File": {
        const { bytes, mediaType: mimeType, uri = "" } = part
        return { file: { ...(bytes === undefined ? { fileWithUri: uri } : { fileWithBytes: bytes }), mimeType } }
      }
    }
  },
  role: (role) => `ROLE_${upper(role)}`,
  state: (standing) => (standing === "canceled" ? "TASK_STATE_CANCELLED" : `TASK_STATE_${upper(standing)}`),
  parts: "content",
  hasKinds: false,
  saysFinal: true
})
