import type { Agent, Dialect, Skill } from "@bowline/domain/peer/Agent"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import { Context, type Duration, Effect, Layer, type Schema } from "effect"

/** The peer's own names of a task. */
export interface RemoteIds {
  readonly taskId: string | null
  readonly contextId: string | null
}

/** How many gateways have passed a plan on, and their ids in that order. The route of a call to a peer includes this gateway. */
export interface Route {
  readonly hops: number
  readonly via: ReadonlyArray<string>
  /** The trace that the plan is a part of, if it is one, as W3C Trace Context writes it. It is stored with the plan. */
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string }
  /** The `request_id` in the log of the request that has started the plan, if there was one. It is stored with the plan. */
  readonly request_id?: string
}

/** The route of a plan that a caller posted here directly. */
export const direct: Route = { hops: 0, via: [] }

/** The id of the trace that a plan with this route is a part of. */
export const traceIdOf = ({ trace }: Route): string | null => trace?.traceparent.split("-")[1] ?? null

/** The headers that tell whoever is called of a route. */
export const routeHeaders = ({ hops, via }: Route): Readonly<Record<string, string>> => ({
  "x-bowline-hops": String(hops),
  "x-bowline-via": via.join(",")
})

/** A file that goes with a call: its bytes in base64, or the URL by which the peer may read it for an hour. */
export type SentFile = { readonly mediaType: string; readonly name: string } & (
  | { readonly data: string }
  | { readonly url: string }
)

/** One call of a peer's skill. `taskId` goes with it as the idempotency key, unless it has another one. `input` has matched the skill's schema. */
export interface PeerCall {
  readonly agent: Agent
  readonly skill: Skill
  readonly taskId: TaskId
  readonly idempotencyKey?: string | undefined
  readonly input: { readonly [key: string]: Schema.Json }
  /** The files that the input names: each is a part of the message. */
  readonly files?: ReadonlyArray<SentFile> | undefined
  /** The remote task that this call continues: one that its peer handed back to an earlier call of the session. */
  readonly continues: RemoteIds | null
  /** The remote task that this call started in an earlier process. The client sends no new message; it asks the peer for this task. */
  readonly resumes?: OpenTask | undefined
  /** Whether the next process continues the remote task: then an interruption of the call does not cancel it. */
  readonly isHandedOver?: (() => boolean) | undefined
  readonly route: Route
  /**
   * Answers what the peer asks in the middle of its task: the answer is sent in the same remote task. Undefined hands the task back, as it is where
   * nobody can be asked; `expired` ends the call as `timed-out`, and cancels the task.
   */
  readonly answer?: ((question: PeerQuestion) => Effect.Effect<PeerAnswer | "expired" | undefined>) | undefined
}

/** What a peer asks. The `mark` tells the question from the peer's others, also in another process. */
export interface PeerQuestion {
  readonly mark: string
  readonly message: string
  readonly data?: Schema.Json
}

/** What somebody has answered, and the id of the message that says it: a peer that gets it twice sees that it is one. */
export interface PeerAnswer {
  readonly messageId: string
  readonly content: Schema.Json
}

/** A remote task that the peer works at. */
export interface OpenTask extends RemoteIds {
  readonly taskId: string
}

/** A remote task that nobody will continue. */
export interface LeftTask {
  readonly agent: Agent
  readonly taskId: string
  readonly contextId: string | null
  readonly route: Route
}

/** What is known of a peer before it is called. */
export interface Discovery {
  readonly skills: ReadonlyArray<Skill>
  /** What its card says of it as a whole. */
  readonly description?: string | null
  /** The DID on its card. It is what the peer says of itself. */
  readonly did: string | null
}

/** The state of the breaker of an endpoint, for operators. `openUntil` is in milliseconds. */
export interface PeerStatus {
  readonly endpoint: string
  readonly dialect: Dialect | null
  readonly card: { readonly name: string | null; readonly fetchedAt: number } | null
  readonly breaker: { readonly state: "closed" | "open" | "half-open"; readonly openUntil: number | null }
}

/** A file that an agent or a server has sent: its bytes in base64, or where it is. `mediaType` is what they say of it. */
export type ReceivedFile = { readonly mediaType: string; readonly name?: string } & (
  | { readonly data: string }
  | { readonly url: string }
)

/**
 * What happens to a call before it ends. `Accepted` has the peer's ids of the task, as soon as they are known: before the request is
 * sent, or else with the first answer. An `Accepted` whose ids are null revokes an earlier one: the request did not arrive.
 * `Progress` is a change of the peer's state, or a status message. Each `Artifact` comes once, whole; `files`
 * are what it has of them, and are not in the content, which is null where there is nothing else.
 */
export type PeerEvent =
  | { readonly _tag: "Accepted"; readonly remoteTaskId: string | null; readonly remoteContextId: string | null }
  | { readonly _tag: "Progress"; readonly state: string; readonly message?: string }
  | {
      readonly _tag: "Artifact"
      readonly content: Schema.Json
      readonly mediaType: string
      readonly verified: Verified
      readonly name?: string
      readonly files?: ReadonlyArray<ReceivedFile>
    }

/** The last state of the task, all that the peer said, as text for the model, and the files of its artifacts. `timed-out`: nobody has answered the peer's question. */
export interface PeerResult {
  readonly state: Exclude<TaskState, "interrupted" | "invalid">
  readonly content: string
  readonly verified: Verified
  readonly files?: ReadonlyArray<ReceivedFile>
}

/**
 * Remote agents that speak A2A. Contract: `docs/reference/peers.md`.
 *
 * @example
 * ```ts
 * import { cancelTimeout, direct, PeerClient, routeHeaders, traceIdOf } from "@bowline/runtime/remote/PeerClient"
 * import { Duration, Effect } from "effect"
 *
 * // An app without remote agents. `@bowline/a2a` has the client that calls them.
 * export const Peers = PeerClient.layerNone
 *
 * // What a client of one's own tells a peer of a plan that was posted here, and how long it may take to cancel a task.
 * export const headers = routeHeaders(direct)
 * export const said = Effect.log(traceIdOf(direct), Duration.format(Duration.fromInputUnsafe(cancelTimeout)))
 * ```
 */
export class PeerClient extends Context.Service<
  PeerClient,
  {
    /** What the peer's card says: one request for each location of a card, 2 s in all. */
    readonly discover: (agent: Agent) => Effect.Effect<Discovery, PeerError>
    /** The peers that this process has spoken to. */
    readonly peers: Effect.Effect<ReadonlyArray<PeerStatus>>
    /**
     * Sends the message, unless the call resumes a task, and waits until the task ends. The caller limits the time. If the call
     * ends before the remote task does, above all by an interruption, the client cancels the task: once, best effort, within
     * `cancelTimeout`, in a fiber of its own that nobody waits for. Only a call that is interrupted while it `isHandedOver` cancels
     * nothing.
     */
    readonly call: (
      call: PeerCall,
      onEvent: (event: PeerEvent) => Effect.Effect<void>
    ) => Effect.Effect<PeerResult, PeerError>
    /**
     * Asks a peer to cancel a task that an earlier call left open: once, best effort, within `cancelTimeout`, in a fiber of the
     * client's own that nobody waits for.
     */
    readonly cancel: (left: LeftTask) => Effect.Effect<void>
  }
>()("@bowline/runtime/remote/PeerClient") {
  /** For an app without peers: an agent that a request names cannot be reached. */
  static readonly layerNone = Layer.succeed(PeerClient, {
    discover: () => unreachable,
    peers: Effect.succeed([]),
    call: () => unreachable,
    cancel: () => Effect.void
  })
}

const unreachable = Effect.suspend(() =>
  Effect.fail(new PeerError({ reason: new Unreachable({ message: "This gateway calls no peers" }) }))
)

/** How long one attempt to cancel a remote task may take. A client that closes waits as long for the attempts that still run. */
export const cancelTimeout: Duration.Input = "5 seconds"
