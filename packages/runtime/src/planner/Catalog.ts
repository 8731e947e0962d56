import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Result } from "effect"
import type { PeerClient } from "../peer/PeerClient.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import { HandedBackTasks } from "../tool/HandedBackTasks.ts"
import * as PeerTools from "../tool/PeerTools.ts"
import type { Tool } from "../tool/Tool.ts"
import type { PlanRun } from "./PlanRun.ts"

/** How many tools a plan may be offered. */
export const maxTools = 128

/** What a plan may call, by name, and the agents that did not say what they can do. */
export interface Catalog {
  readonly tools: ReadonlyMap<string, Tool>
  readonly unreachable: ReadonlyArray<string>
}

/** The skills of an agent: those of the request, else those on its card. */
const skillsOf = (
  peers: PeerClient["Service"],
  agent: Agent
): Effect.Effect<Result.Result<ReadonlyArray<Skill>, string>> =>
  agent.skills === undefined
    ? peers.discover(agent).pipe(
        Effect.tapError((error) =>
          Effect.annotateLogs(Effect.logWarning("peer_card_unavailable"), {
            agent: agent.name,
            error_type: error.reason._tag
          })
        ),
        Effect.mapBoth({ onFailure: () => agent.name, onSuccess: ({ skills }) => skills }),
        Effect.result
      )
    : Effect.succeed(Result.succeed(agent.skills))

/** Gathers the tools of a plan whose session is held: those of the app, and the skills of the request's agents. */
export const of = Effect.fnUntraced(function* (
  run: PlanRun,
  given: {
    readonly peers: PeerClient["Service"]
    readonly local: ReadonlyArray<Tool>
    readonly sessions: SessionStore["Service"]
  }
): Effect.fn.Return<Catalog, StorageError> {
  const { request, route, session_id } = run.given
  const { local, peers, sessions } = given
  const tools = new Map(local.map((tool) => [tool.name, tool]))
  if (request.agents.length === 0) return { tools, unreachable: [] }
  const left = new HandedBackTasks(yield* retryWhileAway(sessions.handedBack(session_id)))
  const found = yield* Effect.forEach(request.agents, (agent) => skillsOf(peers, agent), {
    concurrency: "unbounded"
  }).pipe(run.stages.within("tool"))
  let leftOut = 0
  request.agents.forEach((agent, index) => {
    const skills = found[index]
    if (skills === undefined || Result.isFailure(skills)) return
    for (const skill of skills.success) {
      const tool = PeerTools.fromSkill({ peers, left, route }, agent, skill)
      if (tools.size >= maxTools) leftOut++
      else if (!tools.has(tool.name)) tools.set(tool.name, tool)
    }
  })
  // A call that another process has started needs its tool, though its agent's card may be away by now.
  for (const { agent: name, skill, state, tool } of run.given.resumed?.tasks ?? []) {
    const agent = request.agents.find((agent) => agent.name === name)
    if (state !== "running" || agent === undefined || skill === null || tools.has(tool)) continue
    tools.set(tool, PeerTools.fromSkill({ peers, left, route }, agent, { id: skill }))
  }
  // Only cards can bring so many: a request that does is refused.
  if (leftOut > 0) yield* Effect.annotateLogs(Effect.logWarning("tools_left_out"), { left_out: leftOut })
  return { tools, unreachable: found.filter(Result.isFailure).map(({ failure }) => failure) }
})
