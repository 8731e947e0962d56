import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { PeerEvent } from "@bowline/runtime/peer/PeerClient"
import type { Task } from "./Task.ts"
import { artifactEvent, keyOf, lastWords, textOf } from "./Words.ts"

/** What has been told of a task so far. */
export interface Narration {
  readonly state: string | null
  readonly messages: ReadonlySet<string>
}

export const beginning: Narration = { state: null, messages: new Set() }

/** What an answer adds to what was told: what the agent said since the last one, then the state and its message. */
export const narrate = (told: Narration, task: Task): readonly [Narration, ReadonlyArray<PeerEvent>] => {
  const messages = new Set(told.messages)
  const events: Array<PeerEvent> = []
  const said = task.history.filter((message) => message.fromAgent)
  for (const message of task.message === null ? said : [...said, task.message]) {
    const key = keyOf(message)
    if (messages.has(key)) continue
    messages.add(key)
    events.push({ _tag: "Progress", state: task.state, message: textOf(message.parts) })
  }
  if (events.length === 0 && task.state !== told.state) events.push({ _tag: "Progress", state: task.state })
  return [{ state: task.state, messages }, events]
}

/**
 * What an answer adds at the end. The last words and the state are the result, so they are not told. The artifacts are:
 * only now are they sure to be whole.
 */
export const narrateEnd = (told: Narration, task: Task, verified: Verified): ReadonlyArray<PeerEvent> => {
  const messages = new Set([...told.messages, ...lastWords(task).map(keyOf)])
  const [, events] = narrate({ state: task.state, messages }, task)
  return [...events, ...task.artifacts.map((artifact) => artifactEvent(artifact, verified))]
}
