import type { Part } from "../Act.ts"
import { isFinal, type Said, type Scene } from "./Scene.ts"
import type { PeerTask } from "./TaskBook.ts"
import type { PeerWire } from "./PeerWire.ts"

interface Names {
  readonly task: string
  readonly context: string
  readonly message: string
  readonly artifact: string
}

/** A2A 0.3 and bindu: a result stands alone, and its `kind` says what it is. */
export const bareWire = (names: Names): PeerWire => {
  const message = (task: PeerTask, { by, messageId, metadata, parts }: Said, number: number) => ({
    kind: "message",
    role: by,
    [names.message]: messageId ?? `${task.id}-message-${number}`,
    [names.task]: task.id,
    [names.context]: task.contextId,
    parts,
    ...(metadata !== undefined && { metadata })
  })
  const status = (task: PeerTask, scene: Scene) => ({
    state: scene.state,
    ...(scene.message !== undefined && { message: message(task, scene.message, scene.said.length) })
  })
  const artifact = (task: PeerTask, parts: ReadonlyArray<Part>, number: number) => ({
    [names.artifact]: `${task.id}-artifact-${number}`,
    parts
  })
  const taskAt = (task: PeerTask, scene: Scene) => ({
    kind: "task",
    id: task.id,
    [names.context]: task.contextId,
    status: status(task, scene),
    history: scene.said.map((said, index) => message(task, said, index)),
    ...(scene.artifacts.length > 0 && {
      artifacts: scene.artifacts.map((parts, index) => artifact(task, parts, index + 1))
    })
  })
  return {
    task: taskAt,
    sentTask: taskAt,
    sentMessage: (task, parts) => ({
      kind: "message",
      role: "agent",
      [names.message]: `${task.contextId}-message-1`,
      [names.context]: task.contextId,
      parts
    }),
    told: (task, told) => {
      const ids = { [names.task]: task.id, [names.context]: task.contextId }
      switch (told._tag) {
        case "Task":
          return taskAt(task, told.scene)
        case "Status":
          return { kind: "status-update", ...ids, status: status(task, told.scene), final: isFinal(told.scene) }
        case "Artifact":
          return {
            kind: "artifact-update",
            ...ids,
            artifact: artifact(task, told.parts, told.scene.artifacts.length),
            append: told.append,
            lastChunk: told.lastChunk
          }
      }
    }
  }
}
