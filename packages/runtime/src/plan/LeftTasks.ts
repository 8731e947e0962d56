import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Agent } from "@bowline/domain/peer/Agent"
import { Effect, Option, Schema } from "effect"
import { OnBehalfOf } from "../auth/CallerTokens.ts"
import { AskerFacts } from "../config/AskerFacts.ts"
import { GatewayId } from "../config/GatewayId.ts"
import { allowsUrl, type Permission, Permissions } from "../config/Permissions.ts"
import { find, Presets } from "../config/Presets.ts"
import * as UrlSecrets from "../egress/UrlSecrets.ts"
import type { StoredTask } from "../store/PlanStore.ts"
import { endpointOf } from "../store/StoredAgent.ts"
import type { HandedBack } from "../store/SessionStore.ts"
import { direct, PeerClient, type Route } from "../remote/PeerClient.ts"
import * as Hops from "./Hops.ts"

const decodeAgent = Schema.decodeUnknownOption(Agent)

/**
 * The agents that can still be reached: those of the preset that a plan's request named, if the caller may use it now, then the stored
 * ones. The secrets of a request are mostly not stored, so an agent that needs one cannot be reached.
 */
export const reachable = (
  presets: typeof Presets.Service,
  permission: Permission,
  preset: string | null,
  stored: ReadonlyArray<unknown>
): ReadonlyArray<Agent> => [
  ...(find(presets, permission, preset ?? undefined)?.agents ?? []),
  ...stored.flatMap((agent) => Option.toArray(decodeAgent(agent)))
]

/** What it takes to reach the peers of a plan or a session. */
interface Reach {
  readonly agents: ReadonlyArray<Agent>
  readonly route: Route
  readonly permission: Permission
  /** Whose tasks they are. */
  readonly caller: CallerName
}

/**
 * Asks peers to cancel the tasks that are still open with them, once and in the background. Skips tasks of other agents than these, those
 * whose host the caller may not use, and those that nobody knows the id of: the log says so.
 */
export const cancelAll = (
  peers: PeerClient["Service"],
  { agents, caller, permission, route }: Reach,
  left: Iterable<Pick<StoredTask, "agent" | "endpoint" | "remote_task_id" | "remote_context_id">>
): Effect.Effect<void> =>
  Effect.forEach(
    left,
    (task) => {
      const { agent: name, endpoint, remote_context_id: contextId, remote_task_id: taskId } = task
      const notCancelled = (reason: string) =>
        Effect.annotateLogs(Effect.logWarning("remote_task_not_cancelled"), {
          reason,
          agent: name,
          endpoint,
          remote_task_id: taskId
        })
      // Of no peer, or of one that a dead process has called.
      if (taskId === null) return name === null ? Effect.void : notCancelled("The peer has not sent the id of its task")
      const agent = agents.find(
        (agent) =>
          agent.name === name &&
          endpointOf(agent) === endpoint &&
          !UrlSecrets.lacks(agent.endpoint) &&
          allowsUrl(permission, agent.endpoint, agent.auth)
      )
      return agent === undefined
        ? notCancelled("It needs a secret that is not kept or not readable, or a host that its caller may not use")
        : peers.cancel({ agent, taskId, contextId, route })
    },
    { discard: true }
  ).pipe(Effect.provideService(OnBehalfOf, caller))

/** As `cancelAll`, for what a caller's session has lost: only where that needs no secret of a request, since those are not kept. */
export const makeCancelLeft = Effect.gen(function* () {
  const peers = yield* PeerClient
  const permissions = yield* Permissions
  const presets = yield* Presets
  const route = Hops.onward(direct, yield* GatewayId)

  return (caller: CallerName, stored: ReadonlyArray<unknown>, left: ReadonlyArray<HandedBack>): Effect.Effect<void> => {
    return Effect.flatMap(AskerFacts, ({ groups }) => {
      const permission = permissions.forCaller(caller, groups)
      return Effect.forEach(
        Map.groupBy(left, ({ preset }) => preset),
        ([preset, tasks]) => {
          const agents = reachable(presets, permission, preset, stored)
          return cancelAll(peers, { agents, caller, route, permission }, tasks)
        },
        { discard: true }
      )
    })
  }
})
