import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Clock, Effect, Result, type Scope } from "effect"
import type { PeerClient } from "../peer/PeerClient.ts"
import type { ApprovalStore } from "../store/ApprovalStore.ts"
import { canonicalJson } from "../store/CanonicalJson.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import { truncate } from "../tool/Envelope.ts"
import { HandedBackTasks } from "../tool/HandedBackTasks.ts"
import * as PeerTools from "../tool/PeerTools.ts"
import type { Tool } from "../tool/Tool.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import { noticesOf, type MissingTool, type Notice } from "./MissingTools.ts"
import * as McpServers from "./McpServers.ts"
import * as ToolChanges from "./ToolChanges.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"

/** How many tools a plan may be offered. */
export const maxTools = 128

/** How many characters of a reason the caller gets: it quotes the schema. */
const maxReason = 500

/** What was found of a plan's agents and servers: those that did not say what they can do, and what the caller should know of it. */
interface Found {
  readonly unreachable: ReadonlyArray<string>
  readonly notices: ReadonlyArray<Notice>
}

/** What a plan may call, by name. */
export interface Catalog extends Found {
  /** They change in `refresh`, and never else. */
  readonly tools: ReadonlyMap<string, Tool>
  /** Lists the tools of the MCP servers that have changed them. Returns what the caller should know of it; undefined where none has. */
  readonly refresh: Effect.Effect<ReadonlyArray<Notice> | undefined, StorageError | PlannerError>
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
  readonly mcp: McpServers.Given
  readonly approvals: ApprovalStore["Service"]
  readonly local: ReadonlyArray<Tool>
  readonly sessions: SessionStore["Service"]
}

/** Adds the skills of the request's agents to the tools. */
const addSkills = Effect.fnUntraced(function* (
  tools: Map<string, Tool>,
  run: PlanRun,
  { peers, sessions }: Given
): Effect.fn.Return<Found, StorageError> {
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

/** Compares the tools of MCP servers with what the caller knows of them. */
const meet = Effect.fnUntraced(function* (
  tools: Iterable<Tool>,
  run: PlanRun,
  { approvals }: Given
): Effect.fn.Return<void, StorageError> {
  const known = Array.from(tools).flatMap(({ trust }) =>
    trust === undefined || trust.known === null ? [] : [{ trust, id: trust.known }]
  )
  const digests = new Map(known.map(({ id, trust }) => [id, trust.digest]))
  const now = fromMillis(yield* Clock.currentTimeMillis)
  const standing = yield* retryWhileAway(approvals.meetTools(run.given.caller, digests, now))
  for (const { id, trust } of known) trust.isChanged = standing.get(id) !== trust.digest
})

/** Has the plan offer the tools of these servers, and no other tools of servers. They end the plan if they are too many. */
const offer = Effect.fnUntraced(function* (
  tools: Map<string, Tool>,
  servers: ReadonlyArray<McpServers.Found>,
  run: PlanRun,
  given: Given
): Effect.fn.Return<ReadonlyArray<Notice>, StorageError | PlannerError> {
  for (const { kind, name } of Array.from(tools.values())) if (kind === "mcp") tools.delete(name)
  for (const { server, tools: own } of servers) {
    for (const tool of own) if (!tools.has(tool.name)) tools.set(tool.name, tool)
    if (tools.size <= maxTools) continue
    const message = `Expected at most ${maxTools} tools, got ${tools.size} with those of the MCP server ${server.name}`
    return yield* new PlannerError({ code: "invalid_request", message, data: { server: server.name } })
  }
  yield* meet(tools.values(), run, given)
  return [...servers.flatMap(({ notices }) => notices), ...ToolChanges.noticesOf(tools.values())]
})

/** Adds the tools of the request's MCP servers, which stay connected for as long as the scope. */
const addMcpTools = Effect.fnUntraced(function* (
  tools: Map<string, Tool>,
  run: PlanRun,
  given: Given
): Effect.fn.Return<Found & Pick<Catalog, "refresh">, StorageError | PlannerError, Scope.Scope> {
  const within = run.stages.within("tool")
  let servers = yield* within(McpServers.connectAll(run.given.request.mcp_servers, given.mcp))
  const notices = yield* offer(tools, servers, run, given)
  const told = new Set(notices.map(({ data }) => canonicalJson(data)))
  const isNews = ({ data }: Notice): boolean => {
    const text = canonicalJson(data)
    const isTold = told.has(text)
    told.add(text)
    return !isTold
  }

  return {
    unreachable: servers.filter(({ connection }) => connection === undefined).map(({ server }) => server.name),
    notices,
    refresh: Effect.gen(function* () {
      const listed = yield* within(ToolChanges.listChanged(servers, given.mcp))
      if (listed === undefined) return undefined
      servers = listed
      return (yield* offer(tools, servers, run, given)).filter(isNews)
    })
  }
})

/** Gathers the tools of a plan whose session is held: those of the app, of the request's agents and of its MCP servers, which stay connected for as long as the scope. */
export const of = Effect.fnUntraced(function* (
  run: PlanRun,
  given: Given
): Effect.fn.Return<Catalog, StorageError | PlannerError, Scope.Scope> {
  const tools = new Map(given.local.map((tool) => [tool.name, tool]))
  const skills = yield* addSkills(tools, run, given)
  const { mcp_servers } = run.given.request
  if (mcp_servers.length === 0) return { tools, ...skills, refresh: Effect.undefined }
  const listed = yield* addMcpTools(tools, run, given)
  return {
    tools,
    unreachable: [...skills.unreachable, ...listed.unreachable],
    notices: [...skills.notices, ...listed.notices],
    refresh: listed.refresh
  }
})
