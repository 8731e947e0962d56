import { Agent } from "@bowline/domain/peer/Agent"
import { Effect, Option, Schema } from "effect"
import type { StoredTask } from "../store/PlanStore.ts"
import type { PeerClient, Route } from "../peer/PeerClient.ts"

const decodeAgent = Schema.decodeUnknownOption(Agent)

/** Of what was stored of agents, those of which enough is known to speak to them: most secrets of a request are not kept. */
export const reachable = (agents: ReadonlyArray<unknown>): ReadonlyArray<Agent> =>
  agents.flatMap((agent) => Option.toArray(decodeAgent(agent)))

/** Tells peers to end tasks that were left with them: once and in the background, where their agents are among these. */
export const cancelAll = (
  peers: PeerClient["Service"],
  agents: ReadonlyArray<Agent>,
  route: Route,
  left: Iterable<Pick<StoredTask, "agent" | "endpoint" | "remote_task_id" | "remote_context_id">>
): Effect.Effect<void> =>
  Effect.forEach(
    left,
    (task) => {
      const { agent: name, endpoint, remote_context_id: contextId, remote_task_id: taskId } = task
      if (taskId === null) return Effect.void
      const agent = agents.find((agent) => agent.name === name && agent.endpoint === endpoint)
      return agent === undefined
        ? Effect.annotateLogs(
            Effect.logWarning(
              "A remote task may run on: to cancel it needs a secret that is not kept, or not readable"
            ),
            { agent: name, endpoint, remote_task_id: taskId }
          )
        : peers.cancel({ agent, taskId, contextId, route })
    },
    { discard: true }
  )
