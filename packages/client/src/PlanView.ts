import type { AbortReason, Failure, Final, Json, Stage, TaskError, TaskState, Usage } from "./Wire.ts"

/** One frame of a plan's stream, as it came. Events and fields that this version does not know are kept. */
export interface Frame {
  /** Counts 1, 2, 3 … within the plan. */
  readonly id: number
  readonly event: string
  readonly data: object
}

/** The wait before an attempt, and what went wrong with the one before. */
export interface RetryView {
  readonly at: number
  readonly delayMs: number
  readonly error: TaskError
  readonly credential: string | null
  readonly model: string
}

/** One request to a provider. A retracted attempt keeps its texts: they are no part of the answer. */
export interface AttemptView {
  readonly attempt: number
  readonly startedAt: number
  readonly endedAt: number | null
  /** When the first piece of its text or reasoning came. */
  readonly firstTokenAt: number | null
  /** The model that was asked. Null where no frame has named one yet. */
  readonly model: string | null
  /** What led to this attempt. Null for the first one of a step, and for the continuation of an answer. */
  readonly retry: RetryView | null
  readonly text: string
  readonly reasoning: string
  readonly isRetracted: boolean
  /** Why it did not succeed: its own failure, or the end of the plan that it ran in, which has a `reason` where it is an abort. */
  readonly error: (TaskError & { readonly reason?: AbortReason }) | null
  readonly usage: Usage | null
  /** In US dollars; null where the price is unknown. */
  readonly costUsd: number | null
}

export interface StepView {
  readonly step: number
  readonly startedAt: number
  readonly endedAt: number | null
  readonly attempts: ReadonlyArray<AttemptView>
}

/** One call of a tool. */
export interface TaskView {
  readonly taskId: string
  /** The step that asked for it. */
  readonly step: number
  readonly tool: string
  readonly kind: string | null
  readonly agent: string | null
  readonly skill: string | null
  readonly agentDid: string | null
  readonly agentDidSource: string | null
  readonly input: Json
  readonly state: "running" | TaskState
  readonly startedAt: number
  readonly endedAt: number | null
  readonly durationMs: number | null
  readonly remoteTaskId: string | null
  readonly remoteContextId: string | null
  readonly error: TaskError | null
  /** The earlier call whose result it is: this one was not made. */
  readonly repeatOf?: string | undefined
  readonly progress: ReadonlyArray<{ readonly at: number; readonly state: string; readonly message: string | null }>
  readonly artifacts: ReadonlyArray<ArtifactView>
}

export interface ArtifactView {
  readonly at: number
  readonly content: Json
  readonly mediaType: string
  readonly truncated: boolean
  readonly verified: string | null
  readonly name: string | null
}

/** A call that waits for a person, or did. Without a decision, and with `endedAt`, the plan ended first. */
export interface ApprovalView {
  readonly taskId: string
  readonly step: number
  readonly tool: string
  /** The peer or MCP server that is called. */
  readonly agent: string | null
  readonly input: Json
  readonly why: string
  /** What is known besides: of `maybe_done`, the earlier call as `{task_id, plan_id, at}`. */
  readonly data?: Json | undefined
  readonly expiresAt: number
  readonly startedAt: number
  readonly endedAt: number | null
  readonly decision: "approve" | "reject" | null
  readonly note: string | null
  readonly by: string | null
}

/** A text that somebody has added while the plan worked, and the step that has read it, or the plan whose question it is. */
export interface EntryView {
  readonly entryId: string
  readonly by: string
  readonly text: string
  readonly at: number
  readonly state: "accepted" | "taken" | "moved" | "withdrawn"
  readonly step: number | null
  readonly movedTo: string | null
}

export interface CompactionView {
  readonly at: number
  /** The step that it came after; 0 before the first one. */
  readonly afterStep: number
  readonly summary: string
  readonly tokensBefore: number
  readonly tokensAfter: number
  readonly messagesCompacted: number
}

export interface NoticeView {
  readonly at: number
  readonly code: string
  readonly message: string
  readonly data: Json | null
}

export type OutcomeView =
  | { readonly state: "completed"; readonly final: Final }
  | { readonly state: "failed" | "aborted"; readonly error: Failure }

/**
 * Everything that can be shown of a plan. Times are milliseconds since 1970, by the gateway's clock (`at` of the frames), so a plan that is
 * replayed looks as it did live. A view is never changed: what a frame does not touch is the same object in the next view.
 */
export interface PlanView {
  readonly planId: string | null
  readonly sessionId: string | null
  readonly externalSessionId: string | null
  /** The model that is asked now, or was asked last. */
  readonly model: string | null
  readonly deadlineAt: number | null
  /** The number of the last frame; 0 before the first one. */
  readonly lastId: number
  /** When the first and the last frame were stored. */
  readonly startedAt: number | null
  readonly lastAt: number | null
  /** When the plan had its outcome. */
  readonly endedAt: number | null
  readonly state: "queued" | "running" | "waiting" | "completed" | "failed" | "aborted"
  /** The stream is over: `done` has come. */
  readonly isDone: boolean
  /** What the plan waits for, as far as its frames tell; null before it begins and after its end. */
  readonly stage: Stage | null
  readonly outcome: OutcomeView | null
  /** The answer as it stands: the text of the step that runs, without what was retracted; in the end that of `final`. */
  readonly text: string
  /** The wait for the session, and the place in its line. */
  readonly queue: { readonly startedAt: number; readonly endedAt: number | null; readonly position: number } | null
  readonly steps: ReadonlyArray<StepView>
  readonly tasks: ReadonlyArray<TaskView>
  readonly approvals: ReadonlyArray<ApprovalView>
  readonly entries: ReadonlyArray<EntryView>
  readonly compactions: ReadonlyArray<CompactionView>
  readonly notices: ReadonlyArray<NoticeView>
  readonly retries: number
  /** Tokens of all attempts and summaries. */
  readonly usage: Usage
  /** In US dollars, of all attempts and summaries; null as long as nothing was used, and where a price is unknown. */
  readonly costUsd: number | null
}

export const noUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, reasoning_tokens: 0 }

/** A plan of which no frame is known. */
export const initialView: PlanView = {
  planId: null,
  sessionId: null,
  externalSessionId: null,
  model: null,
  deadlineAt: null,
  lastId: 0,
  startedAt: null,
  lastAt: null,
  endedAt: null,
  state: "queued",
  isDone: false,
  stage: null,
  outcome: null,
  text: "",
  queue: null,
  steps: [],
  tasks: [],
  approvals: [],
  entries: [],
  compactions: [],
  notices: [],
  retries: 0,
  usage: noUsage,
  costUsd: null
}
