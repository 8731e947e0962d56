import type { Usage } from "@bowline/domain/plan/Usage"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"

/** Tokens of one attempt. A summary belongs to step 0. */
export interface AttemptUsage {
  readonly step: number
  readonly attempt: number
  readonly usage: Usage
}

/**
 * What a plan knows of the step that runs. Each step begins with an empty one; the step writes it, and whoever ends the plan
 * reads it.
 */
export class StepState {
  /** The text that readers have seen, without what was retracted. */
  shownText = ""
  /** Why attempts have failed so far. */
  readonly failures: Array<ProviderErrorReason> = []
  #usage: AttemptUsage | undefined

  /** The provider has reported what the running attempt has used so far. */
  reportUsage(usage: AttemptUsage): void {
    this.#usage = usage
  }

  /** Gives what the running attempt has used and is not counted yet. */
  takeUsage(): AttemptUsage | undefined {
    const usage = this.#usage
    this.#usage = undefined
    return usage
  }
}
