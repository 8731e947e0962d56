import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { RemoteIds } from "../remote/PeerClient.ts"
import type { HandedBack } from "../store/SessionStore.ts"
import { endpointOf } from "../store/StoredAgent.ts"

const keyOf = (agent: string, endpoint: string, skill: string): string => JSON.stringify([agent, endpoint, skill])

/**
 * The remote tasks that peers of a session have handed back, by agent, endpoint and skill. If there are several calls of
 * one skill, the first one continues the task.
 */
export class HandedBackTasks {
  readonly #tasks = new Map<string, RemoteIds>()

  constructor(left: ReadonlyArray<HandedBack>) {
    for (const { agent, endpoint, skill, ...ids } of left) {
      this.#tasks.set(keyOf(agent, endpoint, skill), { taskId: ids.remote_task_id, contextId: ids.remote_context_id })
    }
  }

  /** Returns the task that the next call continues, and removes it, so that no other call gets it. */
  take(agent: Agent, skill: Skill): RemoteIds | null {
    const key = keyOf(agent.name, endpointOf(agent), skill.id)
    const task = this.#tasks.get(key) ?? null
    this.#tasks.delete(key)
    return task
  }

  leave(agent: Agent, skill: Skill, task: RemoteIds): void {
    this.#tasks.set(keyOf(agent.name, endpointOf(agent), skill.id), task)
  }
}
