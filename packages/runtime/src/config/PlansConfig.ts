import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { ToolEffect } from "@bowline/domain/tool/TaskState"
import type { Webhook } from "@bowline/domain/unstable/plan/Webhook"
import { Context, Duration, Layer } from "effect"
import type { AttemptTimers } from "../provider/Attempt.ts"
import { type ModelOverrides, noOverrides } from "../provider/ModelTable.ts"

export type { AttemptTimers, ModelOverrides, Webhook }

/** When calls of a plan lead nowhere. 0 switches a rule off. */
export interface LoopLimits {
  /** Steps that contain a call of the same tool and arguments, one after the other, in which it fails. */
  readonly failures: number
  /** Calls of the same tool and arguments with the same result, one after the other. */
  readonly repeats: number
  /** Rounds of two calls that alternate with the same results. */
  readonly pairs: number
}

/** Which tools, by name, an operator lets nobody call without an approval, and which ones are sensitive: requests decide about those. */
export interface ApprovalRules {
  readonly isAlways: (tool: string) => boolean
  readonly isSensitive: (tool: string) => boolean
}

/** What an operator says that calls of a tool, by its name, do that must not be done twice. */
export type EffectRule = (tool: string) => ToolEffect | undefined

/** What a caller may use up on one day, and in one month. */
export interface DailyBudget {
  /** Of input and output, of all its plans. */
  readonly tokens: number
  readonly tool_calls: number
  /** US dollars. */
  readonly cost_usd?: number
  readonly month_cost_usd?: number
}

/**
 * What an operator sets of how plans run.
 *
 * @example
 * ```ts
 * import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
 * import { Duration } from "effect"
 *
 * export const Config = PlansConfig.layer({
 *   model: "openai/gpt-5.1",
 *   fallbackModels: ["anthropic/claude-sonnet-4-5"],
 *   toolTimeout: Duration.minutes(1)
 * })
 * ```
 */
export class PlansConfig extends Context.Service<
  PlansConfig,
  {
    /** `provider/model` of the planner. */
    readonly model: string
    /** What takes its place when it cannot be used, in this order. */
    readonly fallbackModels: ReadonlyArray<string>
    /** Who writes summaries; without it the model of the plan does. */
    readonly summaryModel: string | undefined
    /** Whether `preferences.model` may name this model. */
    readonly allowsModel: (model: string) => boolean
    /** Plans that run or wait on this replica at once. */
    readonly maxPlans: number
    /** Plans that wait for one session at once. */
    readonly maxQueue: number
    readonly leaseTtl: Duration.Duration
    /** How long plans may run on when the gateway shuts down. */
    readonly shutdownGrace: Duration.Duration
    /** Whether plans of a dead process are resumed. */
    readonly resume: boolean
    /** How long a disconnected reader counts as connected, so that it can come back before its plan is aborted. */
    readonly streamGrace: Duration.Duration
    /** How long a resumed plan may run before a reader of it has come. */
    readonly takeoverGrace: Duration.Duration
    /** How long a plan only waits for somebody before it is parked: then no process has it. Undefined: none is. */
    readonly parkAfter: Duration.Duration | undefined
    /** Facts about models that the table lacks, or has wrong. It is asked anew for each request to a provider, since an operator may change them. */
    readonly models: () => ModelOverrides
    /** By the name of a provider, for its models. They win over those for every model. */
    readonly providerTimers: ReadonlyMap<string, Partial<AttemptTimers>>
    /** Tokens, of a model that the table does not have. */
    readonly contextWindow: number
    /** Of every model; without it the model says, as `idleTimeout` does. */
    readonly firstTokenTimeout: Duration.Duration | undefined
    readonly idleTimeout: Duration.Duration | undefined
    readonly attemptTimeout: Duration.Duration
    /** Retries of a step, and the bound of the first wait. */
    readonly maxRetries: number
    readonly retryBase: Duration.Duration
    /** Where a plan whose calls lead nowhere is stopped. */
    readonly loop: LoopLimits
    readonly approvals: ApprovalRules
    readonly effectOf: EffectRule
    /** Calls of one step that run at once. */
    readonly toolConcurrency: number
    /** How many tools are declared to the model, all of them; with more, it searches them. */
    readonly declareAtMost: number
    /** The limit of each call, besides those of the request and of its tool. */
    readonly toolTimeout: Duration.Duration
    /** Who is told of all plans. */
    readonly webhooks: ReadonlyArray<Webhook>
    /** The shortest interval of a schedule. */
    readonly scheduleMin: Duration.Duration
    /** Undefined for a caller that has none. */
    readonly budgetOf: (caller: CallerName) => DailyBudget | undefined
    /** What becomes of a request under a limit in money for a model whose price nobody knows: it is refused, or such a model costs nothing. */
    readonly unknownPrice: "refuse" | "ignore"
  }
>()("@bowline/runtime/config/PlansConfig") {
  /** Fields that are left out have their defaults: then a plan may name `model` and the `fallbackModels`, and no other. */
  static readonly layer = (
    given: Pick<PlansConfig["Service"], "model"> & Partial<PlansConfig["Service"]>
  ): Layer.Layer<PlansConfig> => {
    const { model, fallbackModels = defaults.fallbackModels } = given
    const allowsModel = (name: string) => name === model || fallbackModels.includes(name)
    return Layer.succeed(PlansConfig, { ...defaults, allowsModel, ...given })
  }
}

const defaults: Omit<PlansConfig["Service"], "model" | "allowsModel"> = {
  fallbackModels: [],
  summaryModel: undefined,
  maxPlans: 1_000,
  maxQueue: 32,
  leaseTtl: Duration.seconds(15),
  shutdownGrace: Duration.seconds(30),
  resume: true,
  streamGrace: Duration.zero,
  takeoverGrace: Duration.seconds(60),
  parkAfter: Duration.seconds(5),
  models: () => noOverrides,
  providerTimers: new Map(),
  contextWindow: 128_000,
  firstTokenTimeout: undefined,
  idleTimeout: undefined,
  attemptTimeout: Duration.seconds(1_800),
  maxRetries: 3,
  retryBase: Duration.seconds(1),
  loop: { failures: 3, repeats: 5, pairs: 4 },
  approvals: { isAlways: () => false, isSensitive: () => false },
  effectOf: () => undefined,
  toolConcurrency: 8,
  declareAtMost: 64,
  toolTimeout: Duration.hours(6),
  webhooks: [],
  scheduleMin: Duration.minutes(1),
  budgetOf: () => undefined,
  unknownPrice: "refuse"
}
