import type { EffectRule } from "../config/PlansConfig.ts"
import { urlsOf, type Agent, type Skill } from "@bowline/domain/peer/Agent"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Result, type Scope } from "effect"
import type { McpClient } from "../remote/McpClient.ts"
import { allowsUrl, type Permission } from "../config/Permissions.ts"
import { agentsOf } from "../config/Presets.ts"
import type { Discovery, PeerClient } from "../remote/PeerClient.ts"
import type { RecipeTable } from "../prompt/Recipes.ts"
import * as RecipeTool from "../prompt/RecipeTool.ts"
import type { InboxStore } from "../store/InboxStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import { HandedBackTasks } from "../tool/HandedBackTasks.ts"
import * as ClientTools from "../tool/ClientTools.ts"
import * as FileTool from "../tool/FileTool.ts"
import * as WaitTool from "../tool/WaitTool.ts"
import * as PeerTools from "../tool/PeerTools.ts"
import type { Tool } from "../tool/Tool.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import { noticesOf, type MissingTool, type Notice } from "./MissingTools.ts"
import type * as AccountWaits from "./AccountWaits.ts"
import type * as McpServers from "./McpServers.ts"
import { DeclaredTools, toolName as findTools } from "./DeclaredTools.ts"
import { GatheredTools, maxTools, notAllowed, type Remarks } from "./GatheredTools.ts"
import type { PlannerError } from "./PlannerError.ts"
import type { PlanFiles } from "./PlanFiles.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { RecordedTools } from "./RecordedTools.ts"
import * as ServerTools from "./ServerTools.ts"

const tooMany = `A plan has at most ${maxTools} tools`

/** What a plan may call, and what was found out on the way to it. */
export interface Catalog extends Remarks {
  /** By name. They change in `refresh`, and never else. */
  readonly tools: ReadonlyMap<string, Tool>
  /** What the caller may not use: the model does not know of it, but an earlier process may have offered it. */
  readonly withheld: ReadonlyMap<string, Tool>
  /** Which of them the model is told of. */
  readonly declared: DeclaredTools
  /** What servers and agents say of themselves, by name. */
  readonly descriptions: ReadonlyMap<string, string>
  /** The recipes that the plan may load. */
  readonly recipes: RecipeTable
  /** Takes in the tools that the client has now, and lists those of the MCP servers that have changed them. Returns what the caller should know of it; undefined where none has. */
  readonly refresh: Effect.Effect<ReadonlyArray<Notice> | undefined, StorageError | PlannerError>
}

/** Why a plan that has so many tools does not get this one. Requests are refused for these reasons: only cards can bring such a skill. */
const obstacle = (skill: Skill, count: number): string | undefined => {
  if (count >= maxTools) return tooMany
  const wrong = skill.input_schema === undefined ? undefined : ToolSchema.problem(skill.input_schema)
  return wrong === undefined ? undefined : `Its input schema cannot be used. ${wrong}`
}

/** Tells the caller that an agent has no tools in the plan. */
const withoutCard = ({ name }: Agent, reason: string, why: string): Notice => {
  const message = `The card of the agent ${name} is not available: the plan has none of its skills. ${why}`
  return { event: "notice", data: { code: "card_unavailable", message, data: { agent: name, reason } } }
}

const isForbidden = (permission: Permission, { auth, endpoint }: Agent): boolean =>
  !allowsUrl(permission, endpoint, auth)

/** The skills of an agent: those of the request, else those on its card, which is not requested from a host that is not allowed. */
const skillsOf = (
  { heardCard, peers, permission }: Given,
  agent: Agent
): Effect.Effect<Result.Result<Pick<Discovery, "description" | "skills">, Notice>> => {
  if (agent.skills !== undefined) return Effect.succeed(Result.succeed({ skills: agent.skills }))
  if (isForbidden(permission, agent)) {
    return Effect.succeed(Result.fail(withoutCard(agent, "not_allowed", notAllowed)))
  }
  return peers.discover(agent).pipe(
    Effect.tap(({ description = null, did, skills }) =>
      Effect.sync(() => heardCard(agent, { description, did, skills }))
    ),
    Effect.tapError(({ reason }) => Effect.sync(() => heardCard(agent, { error: reason }))),
    Effect.tapError((error) =>
      Effect.annotateLogs(Effect.logWarning("peer_card_unavailable"), {
        agent: agent.name,
        error_type: error.reason._tag
      })
    ),
    Effect.mapError(({ message, reason }) => withoutCard(agent, reason._tag, message)),
    Effect.result
  )
}

/** Where the tools of a plan come from. */
export interface Given {
  readonly permission: Permission
  readonly peers: PeerClient["Service"]
  readonly mcp: McpServers.Given & { readonly client: McpClient["Service"] }
  readonly inboxes: InboxStore["Service"]
  readonly lookAgain: AccountWaits.LookAgain
  readonly local: ReadonlyArray<Tool>
  readonly recipes: RecipeTable
  /** Whether the caller may load the recipe of this name. It is asked again when a recipe is loaded. */
  readonly allowsRecipe: (name: string) => boolean
  readonly sessions: SessionStore["Service"]
  /** With more tools than so many, not all are declared. */
  readonly declareAtMost: number
  readonly effectOf: EffectRule
  readonly files: PlanFiles
  /** What a fork has in place of agents, servers and calls. */
  readonly recorded?: RecordedTools | undefined
  /** Is told what an agent says of its skills, or why it says nothing. */
  readonly heardCard: (agent: Agent, told: object) => void
  /** Is told which tools the client has given in place of those of the request. */
  readonly heardClient: (tools: ReadonlyArray<ClientTool>) => void
}

type Described = Pick<Catalog, "descriptions">

const nothing: Remarks = { unreachable: [], notices: [] }

/** Adds the tool that loads recipes, if there are any, or another process has begun to load one. It comes before those of strangers, so none can take its name. */
const addRecipes = (tools: GatheredTools, run: PlanRun, given: Given): Pick<Catalog, "recipes" | "notices"> => {
  const none = { recipes: new Map(), notices: [] }
  const { resumed } = run.given
  const recipes = RecipeTool.allowed(given.recipes, given.allowsRecipe)
  const isBegun = resumed?.tasks.some(({ kind, state }) => kind === "recipe" && state === "running") ?? false
  if ((recipes.size === 0 && !isBegun) || tools.has(RecipeTool.toolName)) return none
  const skills = agentsOf(run.given).reduce((count, { skills = [] }) => count + skills.length, 0)
  if (tools.offered.size + skills < maxTools) {
    return tools.add(RecipeTool.toTool(recipes, given.allowsRecipe)) === undefined ? { recipes, notices: [] } : none
  }
  const message = `A tool is missing: ${RecipeTool.toolName}`
  const data = { tools: [{ tool: RecipeTool.toolName, reason: tooMany }] }
  return { ...none, notices: [{ event: "notice", data: { code: "tool_missing", message, data } }] }
}

/** Whether calls wait for the answers to what peers and servers ask. */
const waitsForAnswers = ({ given }: PlanRun): boolean => given.request.preferences.on_input_required === "wait"

/** Adds the skills of the agents of the preset and of the request to the tools. */
const addSkills = Effect.fnUntraced(function* (
  tools: GatheredTools,
  run: PlanRun,
  given: Given
): Effect.fn.Return<Remarks & Described, StorageError> {
  const { peers, permission, sessions } = given
  const { preset, route, session_id } = run.given
  const agents = agentsOf(run.given)
  const descriptions = new Map<string, string>()
  if (agents.length === 0) return { ...nothing, descriptions }
  const left = new HandedBackTasks(yield* retryWhileAway(sessions.handedBack(session_id)))
  const found = yield* Effect.forEach(agents, (agent) => skillsOf(given, agent), {
    concurrency: "unbounded"
  }).pipe(run.stages.within("tool"))
  const shared = { peers, left, route, waits: waitsForAnswers(run) }
  const notices: Array<Notice> = []
  const unreachable: Array<string> = []
  for (const [index, agent] of agents.entries()) {
    const card = found[index]
    if (card === undefined) continue
    // What the caller may not use of an agent that it has not named is nothing to it.
    const isNamed = !preset.agents.includes(agent)
    if (Result.isFailure(card)) {
      if (!isNamed && isForbidden(permission, agent)) continue
      unreachable.push(agent.name)
      notices.push(card.failure)
      continue
    }
    const { description, skills } = card.success
    if (description != null) descriptions.set(agent.name, description)
    const missing: Array<MissingTool> = []
    for (const skill of skills) {
      const tool = PeerTools.fromSkill(shared, agent, skill)
      const reason = (agent.skills === undefined ? obstacle(skill, tools.offered.size) : undefined) ?? tools.add(tool)
      if (reason !== undefined && (isNamed || reason !== notAllowed)) missing.push({ tool: tool.name, reason })
      // To look at the schemas of a card takes time, in which others are served.
      yield* Effect.yieldNow
    }
    notices.push(...noticesOf({ agent: agent.name }, missing))
  }
  // A call that another process has started needs its tool, though its agent's card may be away by now.
  for (const { agent: name, skill, state, tool } of run.given.resumed?.tasks ?? []) {
    const agent = agents.find((agent) => agent.name === name)
    if (state !== "running" || agent === undefined || skill === null || tools.has(tool)) continue
    tools.add(PeerTools.fromSkill(shared, agent, { id: skill }))
  }
  return { unreachable, notices, descriptions }
})

/** The MCP servers of the preset, then those of the request that the caller may use. */
const serversOf = (run: PlanRun, { mcp, permission, recorded }: Given): ReadonlyArray<McpServers.OfferedServer> => {
  const { preset, request, route } = run.given
  const answers = waitsForAnswers(run)
  const named = request.mcp_servers.filter(({ auth, url }) => allowsUrl(permission, url, auth))
  const all = [
    ...preset.servers.map(({ connect, ...server }) => ({
      ...server,
      urls: [],
      connect: connect(route, answers),
      answers
    })),
    ...named.map((server) => {
      const { auth, url } = server
      const connect = mcp.client.connect(server, route, answers)
      return { terms: server, address: url, urls: urlsOf(url, auth), connect, answers }
    })
  ]
  // A plan that makes one call waits for no other server.
  const { call } = request
  const needed = call === undefined ? all : all.filter(({ terms }) => terms.name === call.agent)
  if (recorded === undefined) return needed
  return needed.map((server) => ({ ...server, connect: recorded.connect(server.terms.name, server.connect) }))
}

/** Offers the tools that the client runs itself, and keeps up with what it says of them. */
const offerClients = (tools: GatheredTools, { given, inbox }: PlanRun, heardClient: Given["heardClient"]) => {
  let known: ReadonlyArray<ClientTool> | undefined
  const offer = (): ReadonlyArray<Notice> | undefined => {
    const now = inbox.tools ?? given.request.tools
    if (now === known) return undefined
    if (now === inbox.tools) heardClient(now)
    known = now
    tools.remove("client")
    const missing = now.flatMap((tool): ReadonlyArray<MissingTool> => {
      const reason = tools.add(ClientTools.fromRequest(tool))
      return reason === undefined ? [] : [{ tool: tool.name, reason }]
    })
    return noticesOf({ request: null }, missing)
  }
  const notices = offer() ?? []
  // A call that another process has started needs its tool, though the client may have taken that away by now.
  for (const { kind, state, tool } of given.resumed?.tasks ?? []) {
    if (kind !== "client" || state !== "running" || tools.has(tool)) continue
    tools.withheld.set(tool, ClientTools.fromRequest({ name: tool, input_schema: {} }))
  }
  return { notices, refresh: Effect.sync(offer) }
}

/** Offers to look at files again once the session has some. A tool of the client with the same name wins. */
const offerFiles = (tools: GatheredTools, files: PlanFiles) => {
  let isOffered = false
  const offer = (): ReadonlyArray<Notice> | undefined => {
    if (isOffered || !files.hasAny()) return undefined
    isOffered = true
    return tools.add(FileTool.make(files.find)) === undefined ? [] : undefined
  }
  offer()
  return offer
}

/** Gathers the tools of a plan whose session is held: those of the app, the recipes, those of the agents and of the MCP servers of preset and request, which stay connected for as long as the scope. */
export const of = Effect.fnUntraced(function* (
  run: PlanRun,
  given: Given
): Effect.fn.Return<Catalog, StorageError | PlannerError, Scope.Scope> {
  const tools = new GatheredTools(given.permission, given.effectOf, given.recorded)
  for (const tool of given.local) tools.add(tool)
  const { notices, recipes } = addRecipes(tools, run, given)
  if (run.given.request.preferences.may_wait === true) tools.add(WaitTool.tool)
  const ofClient = offerClients(tools, run, given.heardClient)
  const ofFiles = offerFiles(tools, given.files)
  const skills = yield* addSkills(tools, run, given)
  const servers = serversOf(run, given)
  const listed =
    servers.length === 0
      ? { ...nothing, descriptions: new Map<string, string>(), refresh: Effect.undefined }
      : yield* ServerTools.addAll(tools, servers, run, given)
  const declared = new DeclaredTools(tools.offered, given.declareAtMost)
  const offerSearch = () => {
    declared.changed()
    if (declared.isSearched && !tools.has(findTools)) tools.add(declared.tool)
  }
  offerSearch()
  return {
    tools: tools.offered,
    withheld: tools.withheld,
    declared,
    descriptions: new Map([...skills.descriptions, ...listed.descriptions]),
    recipes,
    unreachable: [...skills.unreachable, ...listed.unreachable],
    notices: [...notices, ...ofClient.notices, ...skills.notices, ...listed.notices],
    refresh: Effect.gen(function* () {
      const told = [yield* ofClient.refresh, ofFiles(), yield* listed.refresh].filter(
        (notices) => notices !== undefined
      )
      if (told.length > 0) offerSearch()
      return told.length === 0 ? undefined : told.flat()
    })
  }
})
