import type { Final } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import * as Usage from "@bowline/domain/plan/Usage"
import { callId } from "../leg/ClientResults.ts"
import { PlanLegs } from "../leg/PlanLegs.ts"

/** The part of a plan that one answer shows: behind the results that its request has `brought`, up to where it waits for others. */
export class ChatLeg {
  readonly #legs = new PlanLegs(["result"])
  readonly #brought: ReadonlySet<string>
  #hasBegun: boolean
  #usage: Usage.Usage = Usage.empty

  constructor(brought: Iterable<string> = []) {
    this.#brought = new Set(brought)
    this.#hasBegun = this.#brought.size === 0
  }

  /** Takes an event in. Says whether it belongs to the answer. */
  next(event: PlanEvent): boolean {
    this.#legs.next(event)
    if (event.event === "task.finished" && this.#brought.has(event.data.task_id)) this.#hasBegun = true
    if (event.event === "final" || event.event === "error") this.#hasBegun = true
    if (event.event === "usage" && this.#hasBegun) this.#usage = Usage.add(this.#usage, event.data)
    return this.#hasBegun
  }

  get waits(): boolean {
    return this.#hasBegun && this.#legs.waits(this.#brought)
  }

  /** What the answer has used. */
  get usage(): Usage.Usage {
    return this.#usage
  }

  usageAt(final: Final): Usage.Usage {
    return this.#brought.size === 0 ? final.usage : this.#usage
  }

  /** The calls that the client is to make, as clients of OpenAI's API see them. */
  get calls() {
    return this.#legs.results
      .filter(({ task_id }) => !this.#brought.has(task_id))
      .map(({ input, task_id, tool }) => ({
        id: callId(task_id),
        type: "function" as const,
        function: { name: tool, arguments: JSON.stringify(input) }
      }))
  }
}
