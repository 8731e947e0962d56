import type { Entry } from "@bowline/domain/plan/Inbox"
import type { Decision } from "@bowline/domain/plan/Approval"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { Usage } from "@bowline/domain/plan/Usage"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import type { Message } from "@bowline/domain/session/Message"
import type { SessionId } from "@bowline/domain/session/Session"
import type { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import type { WebhookEvent } from "@bowline/domain/unstable/plan/Webhook"
import type { DailyBudget, PlansConfig } from "@bowline/runtime/config/PlansConfig"
import type { FinishReason } from "@bowline/runtime/provider/Provider"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import type { PlanChange, StoredTask } from "@bowline/runtime/unstable/store/PlanStore"
import type { SessionSummary } from "@bowline/runtime/unstable/store/SessionStore"
import type { Schema } from "effect"
import type { Asked } from "../../provider/Script.ts"
import type { Budget, Fault } from "./Scenario.ts"

/**
 * When something was observed: in milliseconds of virtual time since the run began. `order` counts all observations of a run, so that
 * two of one millisecond have an order.
 */
export interface Moment {
  readonly at: number
  readonly order: number
}

/** From then on, until then; `to` is infinite for what never ended. Milliseconds of virtual time. */
export interface Span {
  readonly from: number
  readonly to: number
  /** How long each way to the store took meanwhile, if it was only slow; in milliseconds. */
  readonly wayMs?: number | undefined
}

/** A process of the gateway, from its start to its end. A name has one process after the other, each with an id of its own. */
export interface ObservedReplica {
  readonly replica: string
  readonly started: Moment
  /** Undefined while it lives. */
  readonly ended: (Moment & { readonly how: "killed" | "drained" }) | undefined
  /** While it was frozen. */
  readonly pauses: ReadonlyArray<Span>
  /** While it did not reach the store, or only slowly. */
  readonly cutOff: ReadonlyArray<Span>
  /** While notices to it were lost or late. */
  readonly deaf: ReadonlyArray<Span>
}

/** One connection of a reader. */
export interface ObservedReader {
  readonly reader: string
  readonly plan_id: PlanId
  readonly replica: string
  /** The last `seq` that it had seen before. */
  readonly after: number
  /** How long it takes for each frame, in milliseconds. */
  readonly readMs: number
  /** When its replica had answered. */
  readonly began: Moment
  readonly frames: ReadonlyArray<Moment & { readonly frame: PlanFrame }>
  readonly pings: ReadonlyArray<Moment>
  /**
   * `closed`: the gateway has ended the stream without `done`. `given up`: the same, and the reader does not come back. `broken`: its replica
   * was killed, or the network.
   */
  readonly ended: (Moment & { readonly how: "done" | "closed" | "given up" | "left" | "broken" }) | undefined
}

/** One write that the store has done: what of a commit reached the plan. */
export interface ObservedCommit extends Moment {
  readonly replica: string
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly fence: number
  readonly changes: ReadonlyArray<PlanChange>
  /** The first and the last `seq` of its events; undefined for a commit without events. */
  readonly events: { readonly first: number; readonly last: number } | undefined
}

/** What the plans of a day may use up, until it is lifted for the questions that are asked when all is over. */
export interface ObservedDay extends DailyBudget {
  readonly lifted: Moment | undefined
}

/** What is known of a plan in the end. */
export interface ObservedPlan {
  /** The name in the scenario; the question has it as `FACT-<name>`. */
  readonly name: string
  /** Where it was created. */
  readonly replica: string
  /** As it is stored. */
  readonly plan: Plan
  readonly request: PlanRequest
  /** As its caller has asked for it. */
  readonly budget: Budget
  /** How long a call may take, as its caller has asked for it, in milliseconds; infinite if it has not. */
  readonly toolTimeoutMs: number
  readonly created: Moment
  /** In milliseconds of virtual time, whatever wall clocks say. What it was parked does not count. */
  readonly deadline: number
  /** While it was parked: until a process has taken it over. */
  readonly parked: ReadonlyArray<Span & { readonly order: number }>
  readonly frames: ReadonlyArray<PlanFrame>
  /** What is on its row of what it has come to. */
  readonly gist: Schema.Json | null
  /** What its webhook is told, in order. */
  readonly told: ReadonlyArray<WebhookEvent>
  readonly tasks: ReadonlyArray<StoredTask>
  /** What was accepted for it, oldest first. */
  readonly inbox: ReadonlyArray<Entry>
}

/** What is stored of a session in the end. */
export interface ObservedSession {
  readonly session_id: SessionId
  readonly messages: ReadonlyArray<Message>
  readonly summary: SessionSummary
}

/** A call that a tool or a peer got. */
export interface ObservedCall {
  /** What the call is by its arguments: no other call of the scenario has it. */
  readonly key: string
  readonly plan: string
  /** Where a local tool ran; empty for a peer. */
  readonly replica: string
  readonly task_id: TaskId
  readonly tool: string
  readonly isIdempotent: boolean
  /** Its tool says that none of its calls has to be approved. */
  readonly isFree: boolean
  readonly began: Moment
  /** How long a peer or a server works at it at least, in milliseconds: infinite for one that never ends. 0 for a local tool. */
  readonly ms: number
  /** What the tool has made of it, or a peer or a server when it is through; undefined if a local tool has not come to an end. */
  readonly result: { readonly state: TaskState; readonly content: string } | undefined
  /** What it pays, if it pays something. */
  readonly payment?: ObservedPayment
  /** When it was over for the tool; undefined if it runs still. */
  readonly ended: Moment | undefined
  /** When a request to cancel it has left a replica. */
  readonly cancels: ReadonlyArray<Moment>
  /** When a replica could cancel it: a peer has told it the id of its task, a request to an MCP server has one. Undefined for a local tool, and where the answer was lost. */
  readonly named: (Moment & { readonly replica: string }) | undefined
  /** A remote task of a peer, by the id that a replica has stored: it goes on until it is told to cancel. */
  readonly remote_task_id: string | null
}

/** What the bank sees of a call. `order`: what is paid; `key`: the idempotency key, which callers are not told; `isRefused`: the bank says that it has done nothing. */
export interface ObservedPayment {
  readonly order: string
  readonly key: string | undefined
  readonly isRefused: boolean
}

/** A call of a tool that its caller runs itself, by which the caller has paid something. */
export type ObservedPaid = Pick<ObservedCall, "key" | "plan" | "task_id" | "tool" | "began"> &
  Required<Pick<ObservedCall, "payment">>

/** A request that a provider got, and what it did. */
export interface ObservedAttempt {
  /** The name of the plan that asks; empty for a summary. */
  readonly plan: string
  readonly session_id: SessionId | undefined
  readonly replica: string
  readonly credential: string
  readonly model: string
  readonly asked: Asked
  readonly began: Moment
  readonly ended: Moment | undefined
  /** `finished`, or the reason of `ProviderError` that the provider's fault has to become; `cut` if the gateway ended it. */
  readonly result: string
  /** A refusal without a reason: it is about the key, unless the key has succeeded shortly before. */
  readonly isUnexplained: boolean
  /** Why the provider says that it has finished. */
  readonly finish: FinishReason | undefined
  /** How many calls its finished answer has. */
  readonly calls: number
  /** How long the provider had said nothing when it ended, in milliseconds. */
  readonly quiet: number
  /** The text that the provider has said. */
  readonly said: string
  /** What the provider has said that it used. */
  readonly usage: Usage | undefined
  /** When it has said that. */
  readonly usedAt: Moment | undefined
  /** How long behind its finish it has said that, in milliseconds. */
  readonly usageMs: number
}

/** A time for which a credential was blocked, as it was stored. */
export interface ObservedWindow extends Moment {
  readonly credential: string
  /** Null: whatever the model. */
  readonly model: string | null
  readonly reason: string
  readonly until: number
}

/** A request whose connection the network reset before its answer was over. */
export interface ObservedReset extends Moment {
  readonly replica: string
  /** The name of the plan that asks; empty for a summary. */
  readonly plan: string
  /** The key of the call of an MCP server; undefined for a request to a provider. */
  readonly call: string | undefined
}

/** A replica that takes a plan over. */
export interface ObservedTakeOver extends Moment {
  readonly replica: string
  readonly plan_id: PlanId
  /** When the store's answer reached the replica, in milliseconds; undefined if it never did. */
  readonly heard: number | undefined
}

/** A due time of a schedule for which a plan was created, in milliseconds of virtual time. */
export interface ObservedFiring extends Moment {
  readonly replica: string
  readonly plan_id: PlanId
  readonly schedule_id: ScheduleId
  readonly due: number
}

/** A decision about a call, as the store got it, and the one that the store says stands since. */
export interface ObservedDecision extends Moment {
  readonly task_id: TaskId
  readonly asked: Decision["decision"]
  readonly stands: Decision["decision"]
}

/** A text that a caller has sent to the inbox of its plan, and what it was told, however often it had to send it. */
export interface ObservedSaid extends Moment {
  readonly plan_id: PlanId
  readonly text: string
  readonly when: "boundary" | "now"
  readonly else: "ask" | "reject"
  /** `unknown`: no answer came. */
  readonly answer: "accepted" | "refused" | "unknown"
  /** The plan that has it, by the answer. */
  readonly taker: PlanId | undefined
}

/** A result that a caller has sent for a call that it makes itself, and what it was told, however often it had to send it. */
export interface ObservedGiven extends Moment {
  readonly plan_id: PlanId
  readonly task_id: TaskId
  readonly type: "result" | "answer"
  readonly content: string
  /** The caller's tool says that it has failed. */
  readonly isError: boolean
  readonly answer: ObservedSaid["answer"]
  /** When the store has accepted it, if it has. */
  readonly accepted: Moment | undefined
}

/** A file that a caller has sent, and what it was told, however often it had to send it. */
export interface ObservedUpload extends Moment {
  readonly plan: string
  /** Of all of its bytes, whether all were sent or not. */
  readonly sha256: string
  readonly isCut: boolean
  /** The id that the gateway has given the file; undefined if it never did. */
  readonly file_id: FileId | undefined
}

/** What the store has in the end of an upload that has begun there. */
export interface ObservedFile {
  readonly file_id: FileId
  readonly replica: string
  /** Whether it is a file, and not what is left of an upload. */
  readonly isKept: boolean
  /** Of the bytes that it has; undefined if it has none. */
  readonly sha256: string | undefined
}

/** An answer that a peer has got to what it has asked. */
export interface ObservedAnswer extends Moment {
  readonly task_id: TaskId
  readonly content: string
  /** The id of the message: the same one comes where its answer was lost. */
  readonly message_id: string
}

/** A fault that has struck. One at a call or at a request may strike at any time. */
export interface ObservedFault extends Span {
  readonly fault: Fault
}

/** A request of a caller that waits for an answer: a question, a cancel, a decision. */
export interface ObservedRequest {
  readonly what: "ask" | "cancel" | "decide" | "drain" | "give" | "say" | "upload"
  /** The name of its plan; empty for a drain. */
  readonly plan: string
  readonly replica: string
  readonly began: Moment
  readonly ended: Moment | undefined
  /** The answer was an error: it is not done. */
  readonly isRefused?: boolean
  /** The caller of a question left before the answer named its plan. */
  readonly hasLeft?: boolean
}

/** What runs though nothing should. */
export interface Left {
  readonly what: "fiber" | "socket" | "timer" | "lease" | "task" | "reader"
  readonly replica: string
  readonly detail: string
}

/** All that the checkers look at: what callers, tools, peers, providers and the store have seen of a run. */
export interface Observed {
  readonly firings: ReadonlyArray<ObservedFiring>
  readonly replicas: ReadonlyArray<ObservedReplica>
  readonly plans: ReadonlyArray<ObservedPlan>
  readonly sessions: ReadonlyArray<ObservedSession>
  readonly readers: ReadonlyArray<ObservedReader>
  readonly commits: ReadonlyArray<ObservedCommit>
  readonly takeOvers: ReadonlyArray<ObservedTakeOver>
  readonly requests: ReadonlyArray<ObservedRequest>
  readonly calls: ReadonlyArray<ObservedCall>
  readonly paid: ReadonlyArray<ObservedPaid>
  readonly decisions: ReadonlyArray<ObservedDecision>
  readonly said: ReadonlyArray<ObservedSaid>
  readonly given: ReadonlyArray<ObservedGiven>
  readonly answers: ReadonlyArray<ObservedAnswer>
  readonly uploads: ReadonlyArray<ObservedUpload>
  readonly files: ReadonlyArray<ObservedFile>
  readonly faults: ReadonlyArray<ObservedFault>
  readonly attempts: ReadonlyArray<ObservedAttempt>
  readonly windows: ReadonlyArray<ObservedWindow>
  readonly resets: ReadonlyArray<ObservedReset>
  /** While no replica reached the store. */
  readonly storeAway: ReadonlyArray<Span>
  /** From when on the next answer of the store to a replica was lost. */
  readonly lostAnswers: ReadonlyArray<Moment & { readonly replica: string }>
  /** The names of the questions that were asked when all faults were over. */
  readonly probes: ReadonlyArray<string>
  readonly day: ObservedDay | undefined
  /** As every replica has it. */
  readonly config: PlansConfig["Service"]
  /** The shortest time in milliseconds after which a replica gives up a provider that says nothing. */
  readonly silence: number
  /** When the last fault was over. */
  readonly faultsEnd: number
  /** When the run ended. */
  readonly end: number
  /** At the end, when every plan had the time to end and the session to be free. */
  readonly left: ReadonlyArray<Left>
}
