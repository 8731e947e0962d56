import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import type { AgentSummary } from "@bowline/domain/peer/Agent"
import type { Entry } from "@bowline/domain/plan/Inbox"
import type { AbortReason, WokenBy } from "@bowline/domain/plan/Outcome"
import type { TaskError } from "@bowline/domain/plan/PlanEvent"
import type { PlanFacts, PlanId } from "@bowline/domain/plan/Plan"
import type { ClientTool, Preferences, TaskMessage } from "@bowline/domain/plan/PlanRequest"
import type { Feedback } from "@bowline/domain/unstable/plan/Feedback"
import type { DeliveryState, WebhookEvent } from "@bowline/domain/unstable/plan/Webhook"
import type { Firing, Schedule } from "@bowline/domain/unstable/schedule/Schedule"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { Message } from "@bowline/domain/session/Message"
import type { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Schema } from "effect"
import type { RemoteIds, Route } from "../../remote/PeerClient.ts"
import type { EventRow } from "../../store/EventRow.ts"
import type { Settlement, StoredEntry } from "../../store/InboxStore.ts"
import type { KeptFile } from "../../store/FileStore.ts"
import type { ReplicaId } from "../../store/LeaseStore.ts"
import type { Charge, EffectClaim, PlanChange, StoredTask } from "../../store/PlanStore.ts"
import type { ClaimedTarget, DueDelivery, PushCursor } from "../../store/PushStore.ts"
import type { Course, ScheduleFields } from "../../store/ScheduleStore.ts"
import type { SessionMetadata } from "../../store/SessionStore.ts"
import type { StoredRequest } from "../../store/StoredRequest.ts"

export type Task = { -readonly [K in keyof StoredTask]: StoredTask[K] } & {
  readonly preset: string | null
  readonly input: Schema.Json
  finished_at: string | null
  error: TaskError | null
  result: string | null
  reverted: boolean
}

export interface PlanRecord {
  plan: PlanFacts
  readonly ordinal: number
  readonly owner: CallerName
  readonly key_id: KeyId | undefined
  replica: ReplicaId
  fence: number
  abort: AbortReason | undefined
  request: StoredRequest
  preferences: Preferences
  echo: Schema.Json | null
  /** The text of what the plan has come to. */
  gist: string | null
  firstTokenAt: string | null
  readonly route: Route
  readonly message: TaskMessage | null
  /** When the task was cancelled that waited behind it. */
  cancelledAt: string | null
  /** When it has to be over, by the clock of the store. */
  endsAt: number
  /** How much of its time is left, while no process has it that was parked. */
  leftMs: number | null
  wokenBy: WokenBy | null
  /** Of a parked plan: whether it ends when nobody reads it. */
  needsReader: boolean
  deaths: number
  isHandedOver: boolean
  readonly events: Array<EventRow>
  readonly tasks: Map<TaskId, Task>
  readonly inbox: Array<EntryRecord>
  inboxCount: number
  readonly waits: Map<TaskId, WaitRecord>
  /** One of each caller, the latest last. */
  feedback: ReadonlyArray<Feedback>
}

export interface SessionRecord {
  readonly session_id: SessionId
  readonly ordinal: number
  readonly owner: CallerName
  readonly external_session_id: ExternalSessionId | null
  readonly created_at: string
  /** How long it is kept, if that is shorter than for others. */
  readonly ttlMs: number
  metadata: SessionMetadata
  last_active_at: string
  fence: number
  lease: { readonly replica: ReplicaId; readonly fence: number; expires: number } | undefined
  readonly agents: Map<string, AgentSummary>
  /** Without reverted ones, whose numbers are not used again. */
  messages: Array<Message>
  readonly reverted: Array<Message>
  lastSeq: number
  summary: string | null
  coveredSeq: number
  /** The callers' summaries of earlier history, and how many of them the session's summary covers. */
  readonly priors: Array<string>
  coveredPriors: number
  readonly files: Set<FileId>
  readonly plans: Set<PlanId>
  /** Those that are not over. */
  readonly open: Set<PlanRecord>
  /** How many read events of its plans. */
  readers: number
  /** What it takes, as the bound estimates it. */
  bytes: number
  /** Of all its plans, in the order in which they have started. */
  readonly tasks: Array<Task>
}

/** What was said to a plan. */
export interface EntryRecord extends Pick<Entry, "entry_id" | "by" | "at"> {
  readonly ordinal: number
  readonly entry: StoredEntry
  readonly tools: ReadonlyArray<ClientTool> | undefined
  /** Of what settles a call: the round that it has settled. */
  readonly round: number | null
  state: Entry["state"]
  /** The state that readers of the plan have seen. */
  told: Entry["state"] | null
  step: number | null
  moved_to: PlanId | null
}

/** What a call waits for, or waited for last. */
export interface WaitRecord {
  readonly ordinal: number
  readonly since: string
  readonly request: Extract<PlanChange, { readonly _tag: "WaitOpened" }>
  settlement: Settlement | undefined
}

/** A place that is notified about a task. */
export interface PushRecord extends Pick<ClaimedTarget, "owner" | "task_id" | "target"> {
  cursor: PushCursor
  failing_since: number | null
  fence: number
  replica: ReplicaId
  isOver: boolean
  /** Of a webhook. */
  events: ReadonlyArray<WebhookEvent>
  readonly deliveries: Array<DeliveryRecord>
}

export interface DeliveryRecord extends Omit<DueDelivery, "dueInMs"> {
  state: DeliveryState
  tries: number
  last_status: number | null
  failing_since: number | null
  /** By the clock of the store. */
  nextTryAt: number
}

/** Whose an effect is. */
export interface ClaimRecord extends Omit<EffectClaim, "result" | keyof RemoteIds> {
  readonly owner: CallerName
  readonly tool: string
  state: EffectClaim["state"]
  readonly expires_at: string
}

/** A schedule, and its firings by their due times. */
export interface ScheduleRecord extends Pick<Schedule, "schedule_id" | "created_at"> {
  readonly owner: CallerName
  readonly ordinal: number
  fields: ScheduleFields
  version: number
  course: Course
  /** When somebody is to look at it; null if it is not due any more. */
  lookAt: number | null
  claimedUntil: number
  last_at: string | null
  last_plan_id: PlanId | null
  failures: number
  open: ReadonlyArray<PlanId>
  readonly firings: Map<number, Firing>
}

/** A tool that a caller knows. */
export interface KnownTool {
  readonly digest: string
  readonly expires_at: string
}

/** What an owner was charged for a model and a preset on a day. `cost_usd` has what is known of it, and `unpriced` counts what is not. */
export interface ChargeRecord extends Charge {
  readonly owner: CallerName
  readonly preset: string | null
  readonly cost_usd: number
  readonly unpriced: number
}

/** A file, or an upload. */
export interface FileRecord {
  readonly ordinal: number
  readonly owner: CallerName
  readonly chunks: Array<Uint8Array>
  /** Until when it is kept, or may be silent. */
  expires_at: string
  /** Without it, it is an upload. */
  file: KeptFile | undefined
}
