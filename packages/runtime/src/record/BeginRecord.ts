import type { TaskId, ToolEffect } from "@bowline/domain/tool/TaskState"
import type { FileReference } from "@bowline/domain/session/Message"
import manifest from "../../package.json" with { type: "json" }
import type { DailyBudget } from "../config/PlansConfig.ts"
import type { EffectClaim, Spent } from "../store/PlanStore.ts"
import type { ToolResult } from "../tool/Tool.ts"
import type { HandedBack, SessionSummary } from "../store/SessionStore.ts"
import { Struct } from "effect"

/** The version that runs plans: all packages have the same one. */
export const { version } = manifest

/** What an agent or a server has told of its tools: as it is, or the digest of the text that is kept of it, where it is the operator's. */
export type Source = { readonly told: object } | { readonly digest: string }

/** What a process found when it got a plan. */
export interface BeginRecord {
  readonly type: "begin"
  readonly version: string
  /** The digest of what the operator has set and written: see `Environment`. */
  readonly environment: string
  /** Marks what comes from outside, for the model. */
  readonly delimiter: string
  /** The messages of the session that the prompt begins with, and what stands in place of those before. */
  readonly history: { readonly first: string; readonly last: string; readonly count: number } | null
  readonly summary?: Pick<SessionSummary, "covered_seq" | "priors" | "text">
  /** The files of the session that the model is told of, and its history does not have. */
  readonly files?: ReadonlyArray<FileReference>
  /** Whether another process had the plan before. */
  readonly resumed?: true
  /** The model that a process asks that has taken the plan over: the process before may have chosen it, and died before it stored why. */
  readonly model?: string
}

/** What the operator's settings say of the tools of a plan, by their names: those that the caller may not use, and those of `tools.approval` and `tools.effects`. Of recipes: those that the caller may not load. */
export interface OperatorRules {
  readonly withheld: ReadonlyArray<string>
  readonly recipes: ReadonlyArray<string>
  readonly always: ReadonlyArray<string>
  readonly sensitive: ReadonlyArray<string>
  readonly effects: Readonly<Record<string, ToolEffect>>
}

/** What agents and servers have told, by `card` or `server` and their names: as the plan began, and whenever a server has changed its tools. `operator` has the `OperatorRules`, where there are any; `tasks` what peers had handed back to earlier plans of the session as a summary of it was made. */
export interface SourcesRecord {
  readonly type: "sources"
  readonly sources: Readonly<Record<string, Source>>
}

/** The record of what peers have handed back to earlier plans. */
export const ofTasks = (handedBack: ReadonlyArray<HandedBack>): SourcesRecord => {
  const tasks = handedBack.map(Struct.pick(["agent", "skill", "remote_task_id"]))
  return { type: "sources", sources: { tasks: { told: { tasks } } } }
}

/** What the plan's caller might use up, and had used up, as a step looked at it. */
export interface AllowanceRecord {
  readonly type: "allowance"
  readonly budget: DailyBudget
  readonly spent: Spent
}

/** Another call had the effect of this one as this one was to be approved, or made; and what the peer of that one has `told` of it. */
export interface ClaimRecord {
  readonly type: "claim"
  readonly task_id: TaskId
  readonly before: "approval" | "call"
  readonly claim: EffectClaim
  readonly told?: ToolResult
}
