import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { Effect, Result } from "effect"
import type { PeerClient } from "../peer/PeerClient.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import { truncate } from "../tool/Envelope.ts"
import { HandedBackTasks } from "../tool/HandedBackTasks.ts"
import * as PeerTools from "../tool/PeerTools.ts"
import type { Tool } from "../tool/Tool.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import type { PlanRun } from "./PlanRun.ts"

/** How many tools a plan may be offered. */
export const maxTools = 128

/** How many characters of a reason the caller gets: it quotes the schema. */
const maxReason = 500

/** What a plan may call, by name, the agents that did not say what they can do, and what the caller should know of tools that are missing. */
export interface Catalog {
  readonly tools: ReadonlyMap<string, Tool>
  readonly unreachable: ReadonlyArray<string>
  readonly notices: ReadonlyArray<Extract<PlanEvent, { readonly event: "notice" }>>
}

/** A tool that an agent's card names and that the plan does not get. */
interface MissingTool {
  readonly tool: string
  readonly reason: string
}

const noticeOf = (agent: string, missing: ReadonlyArray<MissingTool>): Catalog["notices"][number] => {
  const message = `Tools of the agent ${agent} are missing: ${missing.map(({ tool }) => tool).join(", ")}`
  return {
    event: "notice",
    data: { code: "tool_missing", message, data: { agent, tools: missing.map((tool) => ({ ...tool })) } }
  }
}

/** Why a plan that has so many tools does not get this one. Requests are refused for these reasons: only cards can bring such a skill. */
const obstacle = (skill: Skill, count: number): string | undefined => {
  if (count >= maxTools) return `A plan has at most ${maxTools} tools`
  const wrong = skill.input_schema === undefined ? undefined : ToolSchema.problem(skill.input_schema)
  return wrong === undefined ? undefined : truncate(`Its input schema cannot be used. ${wrong}`, maxReason).text
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
  if (request.agents.length === 0) return { tools, unreachable: [], notices: [] }
  const left = new HandedBackTasks(yield* retryWhileAway(sessions.handedBack(session_id)))
  const found = yield* Effect.forEach(request.agents, (agent) => skillsOf(peers, agent), {
    concurrency: "unbounded"
  }).pipe(run.stages.within("tool"))
  const notices: Array<Catalog["notices"][number]> = []
  for (const [index, agent] of request.agents.entries()) {
    const skills = found[index]
    if (skills === undefined || Result.isFailure(skills)) continue
    const missing: Array<MissingTool> = []
    for (const skill of skills.success) {
      const tool = PeerTools.fromSkill({ peers, left, route }, agent, skill)
      if (tools.has(tool.name)) continue
      const reason = agent.skills === undefined ? obstacle(skill, tools.size) : undefined
      if (reason === undefined) tools.set(tool.name, tool)
      else missing.push({ tool: tool.name, reason })
      // To look at the schemas of a card takes time, in which others are served.
      yield* Effect.yieldNow
    }
    if (missing.length > 0) notices.push(noticeOf(agent.name, missing))
  }
  // A call that another process has started needs its tool, though its agent's card may be away by now.
  for (const { agent: name, skill, state, tool } of run.given.resumed?.tasks ?? []) {
    const agent = request.agents.find((agent) => agent.name === name)
    if (state !== "running" || agent === undefined || skill === null || tools.has(tool)) continue
    tools.set(tool, PeerTools.fromSkill({ peers, left, route }, agent, { id: skill }))
  }
  return { tools, unreachable: found.filter(Result.isFailure).map(({ failure }) => failure), notices }
})
