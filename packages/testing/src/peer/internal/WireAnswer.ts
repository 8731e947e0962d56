import type { Dialect } from "@bowline/domain/peer/Agent"
import type { Part } from "../Act.ts"
import type { Said, Scene } from "./Script.ts"
import type { SendParams } from "./StrictRequest.ts"

/** A task as the peer keeps it. */
export interface PeerTask {
  readonly id: string
  readonly contextId: string
  readonly question: SendParams["message"]
}

const camelCase = { task: "taskId", context: "contextId", message: "messageId", artifact: "artifactId" }
const names = {
  "a2a-1.0": camelCase,
  "a2a-0.3": camelCase,
  bindu: { task: "task_id", context: "context_id", message: "message_id", artifact: "artifact_id" }
}

const saidBy = (dialect: Dialect, task: PeerTask, { parts, metadata }: Said, number: number) => ({
  kind: "message",
  role: "agent",
  [names[dialect].message]: `${task.id}-message-${number}`,
  [names[dialect].task]: task.id,
  [names[dialect].context]: task.contextId,
  parts,
  ...(metadata !== undefined && { metadata })
})

const question = (dialect: Dialect, task: PeerTask) => ({
  kind: "message",
  role: "user",
  [names[dialect].message]: task.question.messageId,
  [names[dialect].task]: task.id,
  [names[dialect].context]: task.contextId,
  parts: task.question.parts
})

/** The answer of a kind `message`: there is no task. */
export const messageAnswer = (dialect: Dialect, task: PeerTask, parts: ReadonlyArray<Part>) => ({
  kind: "message",
  role: "agent",
  [names[dialect].message]: `${task.contextId}-message-1`,
  [names[dialect].context]: task.contextId,
  parts
})

/** The answer of a kind `task`. */
export const taskAnswer = (dialect: Dialect, task: PeerTask, { artifacts, message, said, state }: Scene) => ({
  kind: "task",
  id: task.id,
  [names[dialect].context]: task.contextId,
  status: {
    state,
    ...(message !== undefined && { message: saidBy(dialect, task, message, said.length + 1) })
  },
  history: [question(dialect, task), ...said.map((message, index) => saidBy(dialect, task, message, index + 1))],
  ...(artifacts.length > 0 && {
    artifacts: artifacts.map((parts, index) => ({
      [names[dialect].artifact]: `${task.id}-artifact-${index + 1}`,
      parts
    }))
  })
})
