import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import type { TaskId } from "@bowline/domain/tool/TaskId"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import { Context, type Duration, type Effect, type Schema } from "effect"

/** One call of a peer's skill. `taskId` goes with it as the idempotency key. `input` has matched the skill's schema. */
export interface PeerCall {
  readonly agent: Agent
  readonly skill: Skill
  readonly taskId: TaskId
  readonly input: { readonly [key: string]: Schema.Json }
}

/**
 * What happens to a call before it ends. `Accepted` tells the peer's own ids as soon as they are known: before the
 * request leaves where the client makes them, else with the first answer. `Progress` is a change of the peer's state, or a
 * status message. An `Artifact` is told once, whole.
 */
export type PeerEvent =
  | { readonly _tag: "Accepted"; readonly remoteTaskId: string | null; readonly remoteContextId: string | null }
  | { readonly _tag: "Progress"; readonly state: string; readonly message?: string }
  | { readonly _tag: "Artifact"; readonly content: Schema.Json; readonly mediaType: string }

/** The state in which the peer left the task, and all that it said, as text for the model. */
export interface PeerResult {
  readonly state: Exclude<TaskState, "timed-out" | "interrupted" | "invalid">
  readonly content: string
}

/** Remote agents that speak A2A. Contract: `docs/reference/peers.md`. */
export class PeerClient extends Context.Service<
  PeerClient,
  {
    /** The skills on the peer's card: one request for each location of a card, 2 s in all. */
    readonly discover: (agent: Agent) => Effect.Effect<ReadonlyArray<Skill>, PeerError>
    /**
     * Sends the message and waits until the task ends, however long: the time is bounded by whoever calls. Every exit
     * that leaves the remote task unfinished, interruption above all, cancels it: once, best effort, within `cancelTimeout`,
     * in a fiber of the client's own that nobody waits for.
     */
    readonly call: (
      call: PeerCall,
      onEvent: (event: PeerEvent) => Effect.Effect<void>
    ) => Effect.Effect<PeerResult, PeerError>
  }
>()("@bowline/runtime/peer/PeerClient") {}

export const cancelTimeout: Duration.Input = "5 seconds"
