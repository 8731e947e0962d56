import type { Verified } from "@bowline/domain/plan/PlanEvent"
import { TaskState } from "@bowline/domain/tool/TaskState"
import type { PeerEvent } from "@bowline/runtime/remote/PeerClient"
import type { Artifact, Message, Task } from "./Task.ts"
import { artifactEvent, digestOf, keyOf, lastWords, textOf } from "./Words.ts"

/** The states of A2A and bindu. A peer may use others. */
const states = new Set<string>([...TaskState.literals, "submitted", "working", "unknown"])
const maxState = 64

/**
 * Remembers what was told of a task, and finds what is new in its next state. While the content is withheld, until it is
 * verified, only states are told.
 */
export class Narration {
  #state: string | undefined
  readonly #told = new Set<string>()
  /** The next state of a stream holds them again. */
  readonly #seen = new WeakSet<Message | Artifact>()
  readonly #toldArtifacts = new Set<string>()
  readonly #isWithheld: boolean

  constructor(isWithheld: boolean) {
    this.#isWithheld = isWithheld
  }

  /** The new messages of the agent, or else a new state, and the artifacts that have become whole. */
  next(task: Task): ReadonlyArray<PeerEvent> {
    const whole = this.#isWithheld ? [] : task.artifacts.filter(({ id, isWhole }) => id !== null && isWhole === true)
    return [...this.#say(task), ...this.#show(whole, "unknown")]
  }

  /** The events at the end. The last messages and the state are in the result, so they are not told. Every artifact is whole. */
  end(task: Task, verified: Verified): ReadonlyArray<PeerEvent> {
    for (const message of lastWords(task)) this.#told.add(keyOf(message))
    this.#state = this.#shown(task.state)
    return [...this.#say(task), ...this.#show(task.artifacts, verified)]
  }

  #say(task: Task): ReadonlyArray<PeerEvent> {
    const said = task.history.filter((message) => message.fromAgent)
    return this.#tell(task.state, task.message === null ? said : [...said, task.message])
  }

  #show(artifacts: ReadonlyArray<Artifact>, verified: Verified): ReadonlyArray<PeerEvent> {
    return artifacts.filter((artifact) => this.#isNew(artifact)).map((artifact) => artifactEvent(artifact, verified))
  }

  #isNew(artifact: Artifact): boolean {
    if (artifact.id === null) return true
    if (this.#seen.has(artifact)) return false
    this.#seen.add(artifact)
    const key = digestOf(artifact.id)
    const isNew = !this.#toldArtifacts.has(key)
    this.#toldArtifacts.add(key)
    return isNew
  }

  #shown(state: string): string {
    return this.#isWithheld && !states.has(state) ? "working" : state.slice(0, maxState)
  }

  #tell(peerState: string, said: ReadonlyArray<Message>): ReadonlyArray<PeerEvent> {
    const state = this.#shown(peerState)
    const events: Array<PeerEvent> = []
    for (const message of this.#isWithheld ? [] : said) {
      if (this.#seen.has(message)) continue
      this.#seen.add(message)
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
