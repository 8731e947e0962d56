import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { PeerEvent } from "@bowline/runtime/peer/PeerClient"
import type { Message, Task } from "./Task.ts"
import { artifactEvent, keyOf, lastWords, textOf } from "./Words.ts"

/**
 * What has been told of a task so far, and so what is new in its next state. Where the content is withheld until it is
 * verified, only the states are told.
 */
export class Narration {
  #state: string | undefined
  readonly #told = new Set<string>()
  readonly #isWithheld: boolean

  constructor(isWithheld: boolean) {
    this.#isWithheld = isWithheld
  }

  /** What the agent said since the last time, then the state and its message. */
  next(task: Task): ReadonlyArray<PeerEvent> {
    const said = task.history.filter((message) => message.fromAgent)
    return this.#tell(task.state, task.message === null ? said : [...said, task.message])
  }

  /**
   * The end. The last words and the state are the result, so they are not told. The artifacts are: only now are they sure
   * to be whole.
   */
  end(task: Task, verified: Verified): ReadonlyArray<PeerEvent> {
    for (const message of lastWords(task)) this.#told.add(keyOf(message))
    this.#state = task.state
    return [...this.next(task), ...task.artifacts.map((artifact) => artifactEvent(artifact, verified))]
  }

  #tell(state: string, said: ReadonlyArray<Message>): ReadonlyArray<PeerEvent> {
    const events: Array<PeerEvent> = []
    for (const message of this.#isWithheld ? [] : said) {
      const key = keyOf(message)
      if (this.#told.has(key)) continue
      this.#told.add(key)
      events.push({ _tag: "Progress", state, message: textOf(message.parts) })
    }
    if (events.length === 0 && state !== this.#state) events.push({ _tag: "Progress", state })
    this.#state = state
    return events
  }
}
