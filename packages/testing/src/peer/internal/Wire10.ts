import type { Part } from "../Act.ts"
import type { Said, Scene } from "./Scene.ts"
import type { PeerTask } from "./TaskBook.ts"
import type { PeerWire } from "./PeerWire.ts"

const toPart = ({ file, kind, ...rest }: Part) => {
  if (kind === "data") return { ...rest, mediaType: "application/json" }
  if (kind !== "file" || typeof file !== "object" || file === null || !("mimeType" in file)) return rest
  const { bytes, mimeType, name, uri } = file
  return {
    ...rest,
    ...(bytes === undefined ? { url: uri } : { raw: bytes }),
    ...(name !== undefined && { filename: name }),
    mediaType: mimeType
  }
}

const toState = (state: string) => `TASK_STATE_${state.replaceAll("-", "_").toUpperCase()}`

const message = (task: PeerTask, { by, messageId, metadata, parts }: Said, number: number) => ({
  messageId: messageId ?? `${task.id}-message-${number}`,
  contextId: task.contextId,
  taskId: task.id,
  role: by === "user" ? "ROLE_USER" : "ROLE_AGENT",
  parts: parts.map(toPart),
  ...(metadata !== undefined && { metadata })
})

const status = (task: PeerTask, scene: Scene) => ({
  state: toState(scene.state),
  ...(scene.message !== undefined && { message: message(task, scene.message, scene.said.length) })
})

const artifact = (task: PeerTask, parts: ReadonlyArray<Part>, number: number) => ({
  artifactId: `${task.id}-artifact-${number}`,
  parts: parts.map(toPart)
})

const taskAt = (task: PeerTask, scene: Scene) => ({
  id: task.id,
  contextId: task.contextId,
  status: status(task, scene),
  history: scene.said.map((said, index) => message(task, said, index)),
  ...(scene.artifacts.length > 0 && {
    artifacts: scene.artifacts.map((parts, index) => artifact(task, parts, index + 1))
  })
})

/** A2A 1.0: a result stands under a member that says what it is. */
export const wire10: PeerWire = {
  task: taskAt,
  sentTask: (task, scene) => ({ task: taskAt(task, scene) }),
  sentMessage: ({ contextId }, parts) => ({
    message: { messageId: `${contextId}-message-1`, contextId, role: "ROLE_AGENT", parts: parts.map(toPart) }
  }),
  told: (task, told) => {
    const ids = { taskId: task.id, contextId: task.contextId }
    switch (told._tag) {
      case "Task":
        return { task: taskAt(task, told.scene) }
      case "Status":
        return { statusUpdate: { ...ids, status: status(task, told.scene) } }
      case "Artifact": {
        const changed = artifact(task, told.parts, told.scene.artifacts.length)
        const pieces = { ...(told.append && { append: true }), ...(told.lastChunk && { lastChunk: true }) }
        return { artifactUpdate: { ...ids, artifact: changed, ...pieces } }
      }
    }
  }
}
