import { Duration } from "effect"
import type { AttemptTimers } from "../provider/Attempt.ts"
import * as ModelTable from "../provider/ModelTable.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"

/** How long a model that reasons, or any other one, may be silent. */
const silence = {
  reasoning: { firstToken: Duration.seconds(600), idle: Duration.seconds(300) },
  other: { firstToken: Duration.seconds(120), idle: Duration.seconds(120) }
}

/** What plans assume about a model: the configuration counts first, then the table of models. */
export interface ModelLimits {
  /** Tokens of prompt and answer together. */
  readonly contextWindow: number
  readonly timers: AttemptTimers
  /** Undefined for a model that neither the configuration nor the table has. */
  readonly facts: ModelTable.Model | undefined
}

/** `model` is a `provider/model`. */
export const of = (config: PlansConfig["Service"], model: string): ModelLimits => {
  const found = ModelTable.find(model, config.models())
  const contextWindow = found?.contextWindow ?? config.contextWindow
  const { firstToken, idle } = found?.isReasoning === true ? silence.reasoning : silence.other
  const own = config.providerTimers.get(model.slice(0, model.indexOf("/")))
  return {
    contextWindow,
    timers: {
      firstToken: own?.firstToken ?? config.firstTokenTimeout ?? firstToken,
      idle: own?.idle ?? config.idleTimeout ?? idle,
      total: own?.total ?? config.attemptTimeout
    },
    facts: found && { ...found, contextWindow }
  }
}
