import type { Schema } from "effect"
import type { Standing } from "@bowline/runtime/unstable/store/TaskStore"
import type { Part } from "../task/Task.ts"

/** What the gateway serves of a task, in every dialect. Times are ISO 8601 in UTC. */
export interface ServedMessage {
  readonly messageId: string
  readonly role: "user" | "agent"
  readonly parts: ReadonlyArray<Part>
  readonly metadata?: Metadata
}

export type Metadata = { readonly [key: string]: Schema.Json }

/** Without a `timestamp` nobody has recorded when it began. */
export interface ServedStatus {
  readonly standing: Standing
  readonly message?: ServedMessage
  readonly timestamp?: string
}

export interface ServedArtifact {
  readonly artifactId: string
  readonly name: string
  readonly parts: ReadonlyArray<Part>
  readonly metadata?: Metadata
}

export interface ServedTask {
  readonly id: string
  readonly contextId: string
  readonly status: ServedStatus
  readonly artifacts: ReadonlyArray<ServedArtifact>
  readonly history: ReadonlyArray<ServedMessage>
  readonly metadata: Metadata
}

/**
 * A change of a task. A status is `final` if its stream ends behind it: the task is over, or waits for its client. One that is `progress`
 * only says what the task does; a newer one may take its place.
 */
export type ServedUpdate =
  | {
      readonly _tag: "Status"
      readonly status: ServedStatus
      readonly metadata: Metadata
      readonly weight: "progress" | "change" | "final"
    }
  | {
      readonly _tag: "Artifact"
      readonly artifact: ServedArtifact
      readonly append: boolean
      readonly lastChunk: boolean
    }

/** The ids that every update has. */
export type TaskIds = Pick<ServedTask, "id" | "contextId">
