import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Result, type Scope } from "effect"
import type { ConfiguredServer } from "../mcp/ConfiguredServers.ts"
import type { McpClient } from "../mcp/McpClient.ts"
import type { PeerClient } from "../peer/PeerClient.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import { truncate } from "../tool/Envelope.ts"
import { HandedBackTasks } from "../tool/HandedBackTasks.ts"
import type { CheckOutput } from "../tool/McpTools.ts"
import * as PeerTools from "../tool/PeerTools.ts"
import type { Tool } from "../tool/Tool.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import { noticesOf, type MissingTool, type Notice } from "./MissingTools.ts"
import * as McpServers from "./McpServers.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"

/** How many tools a plan may be offered. */
export const maxTools = 128

/** How many characters of a reason the caller gets: it quotes the schema. */
const maxReason = 500

/** What a plan may call, by name, the agents and MCP servers that did not say what they can do, and what the caller should know of it. */
export interface Catalog {
  readonly tools: ReadonlyMap<string, Tool>
  readonly unreachable: ReadonlyArray<string>
  readonly notices: ReadonlyArray<Notice>
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

interface Given {
  readonly peers: PeerClient["Service"]
  readonly mcp: McpClient["Service"]
  readonly configured: ReadonlyArray<ConfiguredServer>
  readonly checkOutput: CheckOutput
  readonly local: ReadonlyArray<Tool>
  readonly sessions: SessionStore["Service"]
}

/** Adds the skills of the request's agents to the tools. */
const addSkills = Effect.fnUntraced(function* (
  tools: Map<string, Tool>,
  run: PlanRun,
  { peers, sessions }: Given
): Effect.fn.Return<Omit<Catalog, "tools">, StorageError> {
  const { request, route, session_id } = run.given
  if (request.agents.length === 0) return { unreachable: [], notices: [] }
  const left = new HandedBackTasks(yield* retryWhileAway(sessions.handedBack(session_id)))
  const found = yield* Effect.forEach(request.agents, (agent) => skillsOf(peers, agent), {
    concurrency: "unbounded"
  }).pipe(run.stages.within("tool"))
  const notices: Array<Notice> = []
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
    notices.push(...noticesOf("agent", agent.name, missing))
  }
  // A call that another process has started needs its tool, though its agent's card may be away by now.
  for (const { agent: name, skill, state, tool } of run.given.resumed?.tasks ?? []) {
    const agent = request.agents.find((agent) => agent.name === name)
    if (state !== "running" || agent === undefined || skill === null || tools.has(tool)) continue
    tools.set(tool, PeerTools.fromSkill({ peers, left, route }, agent, { id: skill }))
  }
  return { unreachable: found.filter(Result.isFailure).map(({ failure }) => failure), notices }
})

/** The MCP servers of the app, then those of the request. */
const serversOf = (run: PlanRun, { configured, mcp }: Given): ReadonlyArray<McpServers.OfferedServer> => {
  const { request, route } = run.given
  return [
    ...configured.map(({ connect, terms }) => ({ terms, connect: connect(route) })),
    ...request.mcp_servers.map((server) => ({ terms: server, connect: mcp.connect(server, route) }))
  ]
}

/** Adds the tools of MCP servers. They end the plan if they are too many. */
const addMcpTools = Effect.fnUntraced(function* (
  tools: Map<string, Tool>,
  run: PlanRun,
  servers: ReadonlyArray<McpServers.OfferedServer>,
  checkOutput: CheckOutput
): Effect.fn.Return<Omit<Catalog, "tools">, PlannerError, Scope.Scope> {
  const found = yield* run.stages.within("tool")(McpServers.connectAll(servers, checkOutput))
  for (const { server, tools: own } of found) {
    for (const tool of own) if (!tools.has(tool.name)) tools.set(tool.name, tool)
    if (tools.size <= maxTools) continue
    const message = `Expected at most ${maxTools} tools, got ${tools.size} with those of the MCP server ${server}`
    return yield* new PlannerError({ code: "invalid_request", message, data: { server } })
  }
  return {
    unreachable: found.filter(({ isReached }) => !isReached).map(({ server }) => server),
    notices: found.flatMap(({ notices }) => notices)
  }
})

/** Gathers the tools of a plan whose session is held: those of the app, of the request's agents, and of MCP servers, which stay connected for as long as the scope. */
export const of = Effect.fnUntraced(function* (
  run: PlanRun,
  given: Given
): Effect.fn.Return<Catalog, StorageError | PlannerError, Scope.Scope> {
  const tools = new Map(given.local.map((tool) => [tool.name, tool]))
  const skills = yield* addSkills(tools, run, given)
  const servers = serversOf(run, given)
  if (servers.length === 0) return { tools, ...skills }
  const listed = yield* addMcpTools(tools, run, servers, given.checkOutput)
  return {
    tools,
    unreachable: [...skills.unreachable, ...listed.unreachable],
    notices: [...skills.notices, ...listed.notices]
  }
})
