import type { AccountRequired } from "@bowline/domain/peer/PeerError"
import type { DidSource, TaskError, Verified } from "@bowline/domain/plan/PlanEvent"
import type { TaskId, TaskState, ToolEffect, ToolKind } from "@bowline/domain/tool/TaskState"
import type { Effect, Schema } from "effect"
import type { FileReference } from "@bowline/domain/session/Message"
import type { OpenTask, PeerEvent, ReceivedFile, SentFile } from "../remote/PeerClient.ts"
import type { KnownToolId, Settlement } from "../store/InboxStore.ts"

/** A JSON Schema of 2020-12, or of draft-07 or 2019-09 where its `$schema` says so. */
export type JsonSchema = { readonly [key: string]: Schema.Json }

export type ToolInput = { readonly [key: string]: Schema.Json }

/** How a task ended; `content` is all of what the model may read. */
export interface ToolResult {
  readonly state: Exclude<TaskState, "interrupted">
  readonly content: string
  /** Of a peer: whether all of the content is signed. */
  readonly verified?: Verified
  /** What it gives besides: files that are to be stored, and stored ones. The content does not tell of those that are to be stored. */
  readonly files?: ReadonlyArray<ReceivedFile | FileReference>
  /** What the gateway itself tells the model about it. */
  readonly note?: string
  readonly error?: TaskError
  /** Whether the request that would have made the call was never sent. */
  readonly isUnsent?: boolean
  /** It has failed, but the tool has not said so: nobody knows what it has done. */
  readonly isBroken?: boolean
  /** The earlier call whose result it is: this one was not made. */
  readonly repeat_of?: TaskId
}

/** The DID of an agent, and who named it. */
export interface AgentDid {
  readonly did: string
  readonly source: DidSource
}

/** One call of a tool: `taskId` goes with it as the idempotency key, unless it has another one, which all calls of its effect have. */
export interface TaskCall {
  readonly taskId: TaskId
  readonly idempotencyKey?: string | undefined
  /** The input has matched the tool's schema. */
  readonly input: ToolInput
  /** The files that the input names, for a tool that gets them beside it. */
  readonly files?: ReadonlyArray<SentFile> | undefined
  /** The remote task that this call started in an earlier process. The tool waits for it, and starts nothing. */
  readonly resumes?: OpenTask | undefined
  /** Whether it goes on with no task that its peer has handed back to an earlier call: that one was to do something else. */
  readonly isOther?: boolean
  /** Whether somebody only wants to know what has become of the task that it resumes, which is another call's: no later call goes on with that. */
  readonly isInquiry?: boolean
  /** Whether the next process continues the call: then an interruption leaves its remote task running. */
  readonly isHandedOver: () => boolean
  readonly onEvent: (event: PeerEvent) => Effect.Effect<void>
  /**
   * Asks somebody outside, and waits for what settles that: the call may wait for days, and its own time stands still. The same question of a
   * call that another process has begun is asked once.
   */
  readonly ask: (question: CallQuestion) => Effect.Effect<Settlement>
  /**
   * Waits until there is what the call needs to act as its caller, however long: its own time stands still. Says whether it is there; else nobody has come in time.
   */
  readonly awaitAccount: (needed: NeededAccount) => Effect.Effect<boolean>
  /** By what its server knows the call, which has waited for an account meanwhile. */
  readonly continues?: string | undefined
  /** What the call has asked last in an earlier process, if it has asked for an answer. */
  readonly asked?: AskedQuestion | undefined
}

/** What a call needs to act as its caller: an account, or with null a valid token. `mark` is by what its server knows the call, if it has taken it. */
export type NeededAccount = Pick<AccountRequired, "account" | "found" | "mark" | "message">

/** A question that a call has asked, as it is stored. */
export interface AskedQuestion {
  readonly round: number
  readonly mark: string | null
}

/** What a call asks: the result of a tool of the client, an answer for a peer or a server, or the time, which a text ends, too. */
export interface CallQuestion {
  readonly kind: "result" | "answer" | "timer"
  /** Counts the questions of one call, from 1. */
  readonly round: number
  /** What has to match, see `OpenWait`. */
  readonly schema: JsonSchema | null
  /** The tool's own limit in milliseconds, in place of the request's. */
  readonly timeoutMs?: number | undefined
  readonly message?: string
  readonly data?: Schema.Json
  readonly url?: string
  /** By what the next process knows the question again, or goes on from it. Nobody else sees it. */
  readonly mark?: string
  /** Whether the one who asks waits at an open connection: no other process can go on with the call then. */
  readonly isHeld?: boolean
}

/** Whether a tool is still what its caller knows it to be. A call of one that has changed needs an approval. */
export interface ToolTrust {
  /** Of what the server says of the tool now. */
  readonly digest: string
  /** What the known digest is stored under. Null where the request pins it: an approval is then good for one call. */
  readonly known: KnownToolId | null
  /** The digest is not the known or pinned one. An approval ends that. */
  isChanged: boolean
}

/** Anything the planner may call. It is found by its name in a map; the name is never parsed. */
export interface Tool {
  readonly name: string
  readonly kind: ToolKind
  readonly agent: string | null
  /** Where the agent is. */
  readonly endpoint: string | null
  /** What its calls connect to, if they do: the caller has to be allowed the hosts. */
  readonly urls?: ReadonlyArray<string>
  readonly skill: string | null
  readonly description: string
  readonly inputSchema: JsonSchema
  /** The tool's own limit in milliseconds, besides the request's. */
  readonly timeoutMs: number | undefined
  /** Who the agent is, as far as it is known before the call: it may have to ask for the agent's card. */
  readonly identify: Effect.Effect<AgentDid | null>
  /** Whether a call whose end is unknown may be made again, with the same id. */
  readonly isIdempotent: boolean
  /** Why the caller may have to approve its calls: the tool may destroy something. */
  readonly approvalReason?: "sensitive"
  /** What a call of it does, where that must not be done twice. */
  readonly effect?: ToolEffect | undefined
  /** Whether it is meant to be asked the same thing again and again. */
  readonly isPolling: boolean
  /** What the request says of approvals of its calls, besides what it says of all calls. */
  readonly approval: "never" | "always" | undefined
  /** Only tools of MCP servers have it: their servers may change what they say of them. */
  readonly trust?: ToolTrust
  /** Makes the call. A failure is a result, too. The caller limits the time. */
  readonly call: (call: TaskCall) => Effect.Effect<ToolResult>
}
