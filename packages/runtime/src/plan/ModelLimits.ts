import { Duration } from "effect"
import type { AttemptTimers } from "../provider/Attempt.ts"
import * as ModelTable from "../provider/ModelTable.ts"
import type { PlansConfig } from "./PlansConfig.ts"

/** How long a model that reasons, or any other one, may be silent. */
const silence = {
  reasoning: { firstToken: Duration.seconds(600), idle: Duration.seconds(300) },
  other: { firstToken: Duration.seconds(120), idle: Duration.seconds(120) }
}

/** What a plan takes a model for: by what is configured, else by the table. */
export interface ModelLimits {
  /** Tokens of prompt and answer together. */
  readonly contextWindow: number
  readonly timers: AttemptTimers
  /** Nothing, of a model that is not in the table. */
  readonly facts: ModelTable.Model | undefined
}

/** `model` is a `provider/model`. */
export const of = (config: PlansConfig["Service"], model: string): ModelLimits => {
  const facts = ModelTable.find(model)
  const { firstToken, idle } = facts?.isReasoning === true ? silence.reasoning : silence.other
  return {
    contextWindow: facts?.contextWindow ?? config.contextWindow,
    timers: {
      firstToken: config.firstTokenTimeout ?? firstToken,
      idle: config.idleTimeout ?? idle,
      total: config.attemptTimeout
    },
    facts
  }
}
