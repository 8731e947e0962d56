import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { Used } from "../asking/Listener.ts"

/** What one attempt has used. A summary belongs to step 0. */
export interface AttemptUsage extends Used {
  readonly step: number
}

/** The state of a running step. Each step begins with an empty one; the step writes it, and the end of the plan reads it. */
export class StepState {
  /** Why attempts have failed so far. */
  readonly failures: Array<ProviderErrorReason> = []
  /** The credential of the last one of those, as configured. */
  failedWith: string | undefined = undefined
  /** The attempts that readers have seen a delta of, without those that were retracted. */
  readonly shown = new Set<number>()
  #keptText = ""
  #shownText = ""
  #usage: AttemptUsage | undefined

  /** The text that readers have seen, without what was retracted. */
  get shownText(): string {
    return this.#shownText
  }

  showText(delta: string): void {
    this.#shownText += delta
  }

  /** The attempt has finished: a later retract leaves the text so far. */
  keepText(): void {
    this.#keptText = this.#shownText
  }

  /** Drops what the attempt has shown. */
  retractText(): void {
    this.#shownText = this.#keptText
  }

  /** Drops what all attempts have shown. */
  retractAll(): void {
    this.shown.clear()
    this.#keptText = ""
    this.#shownText = ""
  }

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
