import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Result, type Scope } from "effect"
import { allowsTool, allowsUrl, type Permission } from "../config/Permissions.ts"
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
  /** What the caller may not use: the model does not know of it, but an earlier process may have offered it. */
  readonly withheld: ReadonlyMap<string, Tool>
  readonly unreachable: ReadonlyArray<string>
  readonly notices: ReadonlyArray<Notice>
}

/** Why a plan that has so many tools does not get this one. Requests are refused for these reasons: only cards can bring such a skill. */
const obstacle = (skill: Skill, count: number): string | undefined => {
  if (count >= maxTools) return `A plan has at most ${maxTools} tools`
  const wrong = skill.input_schema === undefined ? undefined : ToolSchema.problem(skill.input_schema)
  return wrong === undefined ? undefined : truncate(`Its input schema cannot be used. ${wrong}`, maxReason).text
}

/** The skills of an agent: those of the request, else those on its card, which is not requested from a host that is not allowed. */
const skillsOf = (
  { peers, permission }: Given,
  agent: Agent
): Effect.Effect<Result.Result<ReadonlyArray<Skill>, string>> => {
  if (agent.skills !== undefined) return Effect.succeed(Result.succeed(agent.skills))
  if (!allowsUrl(permission, agent.endpoint, agent.auth)) return Effect.succeed(Result.fail(agent.name))
  return peers.discover(agent).pipe(
    Effect.tapError((error) =>
      Effect.annotateLogs(Effect.logWarning("peer_card_unavailable"), {
        agent: agent.name,
        error_type: error.reason._tag
      })
    ),
    Effect.mapBoth({ onFailure: () => agent.name, onSuccess: ({ skills }) => skills }),
    Effect.result
  )
}

interface Given {
  readonly permission: Permission
  readonly peers: PeerClient["Service"]
  readonly mcp: McpClient["Service"]
  readonly checkOutput: CheckOutput
  readonly local: ReadonlyArray<Tool>
  readonly sessions: SessionStore["Service"]
}

const notAllowed = "The permissions of the caller do not allow it"

/** What one source of tools adds to a catalog besides its tools. */
type Remarks = Pick<Catalog, "unreachable" | "notices">

const nothing: Remarks = { unreachable: [], notices: [] }

/** The tools of a plan while they are gathered. */
class Tools {
  readonly offered = new Map<string, Tool>()
  readonly withheld = new Map<string, Tool>()
  readonly #permission: Permission

  constructor(permission: Permission) {
    this.#permission = permission
  }

  has(name: string): boolean {
    return this.offered.has(name) || this.withheld.has(name)
  }

  /** Adds a tool that has a name of its own, and says whether the caller may use it. */
  add(tool: Tool): boolean {
    const isAllowed = allowsTool(this.#permission, tool)
    if (!this.has(tool.name)) (isAllowed ? this.offered : this.withheld).set(tool.name, tool)
    return isAllowed
  }
}

/** Adds the skills of the request's agents to the tools. */
const addSkills = Effect.fnUntraced(function* (
  tools: Tools,
  run: PlanRun,
  given: Given
): Effect.fn.Return<Remarks, StorageError> {
  const { peers, sessions } = given
  const { request, route, session_id } = run.given
  if (request.agents.length === 0) return nothing
  const left = new HandedBackTasks(yield* retryWhileAway(sessions.handedBack(session_id)))
  const found = yield* Effect.forEach(request.agents, (agent) => skillsOf(given, agent), {
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
      const found = agent.skills === undefined ? obstacle(skill, tools.offered.size) : undefined
      const reason = found ?? (tools.add(tool) ? undefined : notAllowed)
      if (reason !== undefined) missing.push({ tool: tool.name, reason })
      // To look at the schemas of a card takes time, in which others are served.
      yield* Effect.yieldNow
    }
    notices.push(...noticesOf("agent", agent.name, missing))
  }
  // A call that another process has started needs its tool, though its agent's card may be away by now.
  for (const { agent: name, skill, state, tool } of run.given.resumed?.tasks ?? []) {
    const agent = request.agents.find((agent) => agent.name === name)
    if (state !== "running" || agent === undefined || skill === null || tools.has(tool)) continue
    tools.add(PeerTools.fromSkill({ peers, left, route }, agent, { id: skill }))
  }
  return { unreachable: found.filter(Result.isFailure).map(({ failure }) => failure), notices }
})

/** Adds the tools of the request's MCP servers. They end the plan if they are too many. */
const addMcpTools = Effect.fnUntraced(function* (
  tools: Tools,
  run: PlanRun,
  { checkOutput, mcp, permission }: Given
): Effect.fn.Return<Remarks, PlannerError, Scope.Scope> {
  const { mcp_servers } = run.given.request
  const servers = mcp_servers.filter(({ auth, url }) => allowsUrl(permission, url, auth))
  const connected = McpServers.connectAll(mcp, servers, checkOutput)
  const found = yield* run.stages.within("tool")(connected)
  const notices: Array<Notice> = []
  for (const { server, tools: own, notices: told } of found) {
    const missing = own.filter((tool) => !tools.add(tool)).map(({ name }) => ({ tool: name, reason: notAllowed }))
    notices.push(...told, ...noticesOf("server", server, missing))
    const { size } = tools.offered
    if (size <= maxTools) continue
    const message = `Expected at most ${maxTools} tools, got ${size} with those of the MCP server ${server}`
    return yield* new PlannerError({ code: "invalid_request", message, data: { server } })
  }
  const reached = new Set(found.filter(({ isReached }) => isReached).map(({ server }) => server))
  return { unreachable: mcp_servers.map(({ name }) => name).filter((name) => !reached.has(name)), notices }
})

/** Gathers the tools of a plan whose session is held: those of the app, of the request's agents and of its MCP servers, which stay connected for as long as the scope. */
export const of = Effect.fnUntraced(function* (
  run: PlanRun,
  given: Given
): Effect.fn.Return<Catalog, StorageError | PlannerError, Scope.Scope> {
  const tools = new Tools(given.permission)
  for (const tool of given.local) tools.add(tool)
  const skills = yield* addSkills(tools, run, given)
  const { mcp_servers } = run.given.request
  const listed = mcp_servers.length === 0 ? nothing : yield* addMcpTools(tools, run, given)
  return {
    tools: tools.offered,
    withheld: tools.withheld,
    unreachable: [...skills.unreachable, ...listed.unreachable],
    notices: [...skills.notices, ...listed.notices]
  }
})
