import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"

interface Attempt {
  readonly step: number
  readonly attempt: number
}

const between = "\n\n"

/**
 * The text of a plan as one text: that of its steps, joined by a blank line. What comes is given out at once, or, if it is held, when
 * nothing can retract it any more.
 */
export class PlanText {
  readonly #isHeld: boolean
  /** What has come of the current step and was not retracted, by attempt. */
  #attempts = new Map<number, string>()
  #step = 0
  #isBegun = false
  #isStepBegun = false

  constructor(isHeld: boolean) {
    this.#isHeld = isHeld
  }

  /** The text that can be shown with this event. Of an attempt that was retracted, nothing more. */
  next(event: PlanEvent): string {
    switch (event.event) {
      case "text.delta":
        return this.#add(event.data)
      case "text.retract":
        this.retract(event.data)
        return ""
      // The answer of the step is whole: its calls are made, or another step or nothing follows.
      case "step":
      case "task.started":
      case "approval.requested":
      case "final":
        return this.#release()
      default:
        return ""
    }
  }

  #add({ attempt, delta, step }: Attempt & { readonly delta: string }): string {
    const earlier = step === this.#step ? "" : this.#release()
    if (step !== this.#step) {
      this.#step = step
      this.#isStepBegun = false
      this.#attempts.clear()
    }
    this.#attempts.set(attempt, (this.#attempts.get(attempt) ?? "") + delta)
    return earlier + (this.#isHeld ? "" : this.#show(delta))
  }

  /** Takes an attempt back. Tells whether some of it was shown. */
  retract({ attempt, step }: Attempt): boolean {
    if (step !== this.#step) return false
    const wasShown = this.#attempts.delete(attempt) && !this.#isHeld
    // What follows is no further step of what was shown.
    if (wasShown) this.#isBegun = false
    return wasShown
  }

  /** Gives what was held of the step. */
  #release(): string {
    if (!this.#isHeld) return ""
    const text = Array.from(this.#attempts.values()).join("")
    this.#attempts.clear()
    return this.#show(text)
  }

  #show(text: string): string {
    if (text === "") return ""
    const joint = this.#isBegun && !this.#isStepBegun ? between : ""
    this.#isBegun = true
    this.#isStepBegun = true
    return joint + text
  }
}
