import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type Agent, needsCallersToken } from "@bowline/domain/peer/Agent"
import type { GivenPreferences, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { Webhook } from "@bowline/domain/unstable/plan/Webhook"
import { Context, Effect } from "effect"
import type { ConfiguredServer } from "../remote/ConfiguredServers.ts"
import { direct, type PeerClient } from "../remote/PeerClient.ts"
import * as McpTools from "../tool/McpTools.ts"
import * as PeerTools from "../tool/PeerTools.ts"
import { allowsTool, everything, narrow, nothing, type Permission, type Permissions } from "./Permissions.ts"

/** The preset of a request that names none. */
export const defaultPreset = "default"

/** A named way to ask: what a plan gets besides what its request names. Its URLs and secrets are the operator's. */
export interface Preset {
  readonly name: string
  readonly description: string | null
  readonly agents: ReadonlyArray<Agent>
  readonly servers: ReadonlyArray<ConfiguredServer>
  /** They hold where the request says nothing. The `model` may be one that callers may not name. */
  readonly preferences: GivenPreferences
  /** They stand after the planner's instructions. */
  readonly instructions: string | undefined
  /** It narrows what the caller may use. */
  readonly permission: Permission
  /** Who is told of its plans besides. */
  readonly webhooks?: ReadonlyArray<Webhook>
}

/** What a request gets that names no preset, where there is no `default`, or its caller may not use it. */
export const noPreset: Preset = {
  name: defaultPreset,
  description: null,
  agents: [],
  servers: [],
  preferences: {},
  instructions: undefined,
  permission: everything
}

/** The presets that the app brings, by name. None, unless it says so. */
export const Presets = Context.Reference<ReadonlyMap<string, Preset>>("@bowline/runtime/config/Presets", {
  defaultValue: () => new Map([[defaultPreset, noPreset]])
})

/** The presets that a caller may use, in their order. */
export const allowed = (presets: ReadonlyMap<string, Preset>, permission: Permission): ReadonlyArray<Preset> =>
  Array.from(presets.values()).filter(({ name }) => permission.preset(name))

/** The preset of a request. Undefined if it names one that does not exist, or that the caller may not use. */
export const find = (
  presets: ReadonlyMap<string, Preset>,
  permission: Permission,
  name: PlanRequest["preset"]
): Preset | undefined => {
  const wanted = name ?? defaultPreset
  const preset = permission.preset(wanted) ? presets.get(wanted) : undefined
  return preset ?? (name === undefined ? noPreset : undefined)
}

/** A skill of an agent of a preset, as its tool. */
export type PresetSkill = ReturnType<typeof PeerTools.describe> & { readonly preset: string }

/** The skills of these presets that a caller may call, as far as the configuration names them: no card is read. */
export const skillsOf = (presets: ReadonlyArray<Preset>, permission: Permission): ReadonlyArray<PresetSkill> =>
  presets.flatMap((preset) => {
    const ofPreset = narrow(permission, preset.permission)
    return preset.agents
      .flatMap((agent) => (agent.skills ?? []).map((skill) => PeerTools.describe(agent, skill)))
      .filter((tool) => allowsTool(ofPreset, tool))
      .map((tool) => ({ ...tool, preset: preset.name }))
  })

/** What can be called, one by one, of an agent or an MCP server of a preset. */
export type OwnTool = Pick<PresetSkill, "name" | "skill" | "description" | "inputSchema">

const ofServer = Effect.fnUntraced(function* ({ connect, terms }: ConfiguredServer) {
  const { tools } = yield* connect(direct)
  return (yield* tools).flatMap((tool): ReadonlyArray<OwnTool> => {
    const { description, inputSchema, name: skill } = tool
    const isOffered = terms.allowed_tools?.includes(skill) ?? true
    return isOffered ? [{ name: McpTools.nameOf(terms, tool), skill, description: description ?? "", inputSchema }] : []
  })
}, Effect.scoped)

/** Asks an agent or an MCP server of a preset, by its name there, for its tools: undefined if the preset has none of that name. Skills that the configuration names need no request. */
export const toolsOf = ({ agents, servers }: Preset, name: string, { discover }: PeerClient["Service"]) => {
  const agent = agents.find((one) => one.name === name)
  const server = servers.find(({ terms }) => terms.name === name)
  const skills =
    agent?.skills === undefined
      ? agent && Effect.map(discover(agent), ({ skills }) => skills)
      : Effect.succeed(agent.skills)
  if (agent !== undefined && skills !== undefined) {
    return Effect.map(skills, (all): ReadonlyArray<OwnTool> => all.map((skill) => PeerTools.describe(agent, skill)))
  }
  return server === undefined ? undefined : ofServer(server)
}

/** The agents of a plan: those of its preset, then those that its request names. A plan that makes one call has the agent of that. */
export const agentsOf = ({
  preset,
  request
}: {
  readonly preset: Preset
  readonly request: PlanRequest
}): ReadonlyArray<Agent> => {
  const { agents, call } = request
  const all = preset.agents.length === 0 ? agents : [...preset.agents, ...agents]
  return call === undefined ? all : all.filter(({ name }) => name === call.agent)
}

/** Whether a plan makes calls that need its caller's token. */
export const needsToken = ({ agents, servers }: Preset, request: PlanRequest): boolean =>
  servers.some((server) => server.needsCallersToken === true) ||
  [...agents, ...request.agents, ...request.mcp_servers].some(({ auth }) => needsCallersToken(auth))

/** Whose plan it is, and what it brings. */
export interface PlanOfCaller {
  readonly caller: CallerName
  readonly preset: Preset
  readonly request: Pick<PlanRequest, "asker">
}

/** What a plan may use now: nothing, once its caller may not use the preset any more. */
export const permissionOf = (
  { forCaller }: typeof Permissions.Service,
  { caller, preset, request }: PlanOfCaller
): Permission => {
  const permission = forCaller(caller, request.asker?.groups)
  if (preset !== noPreset && !permission.preset(preset.name)) return nothing
  return narrow(permission, preset.permission)
}
