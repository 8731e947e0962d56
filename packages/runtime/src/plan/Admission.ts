import { type Agent, needsCallersToken, urlsOf, variablesOf } from "@bowline/domain/peer/Agent"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { hostOf } from "../config/Permissions.ts"
import type { Preset } from "../config/Presets.ts"
import { toolName as findTools } from "../planner/DeclaredTools.ts"
import { maxTools } from "../planner/GatheredTools.ts"
import { toolName as recipeTool } from "../prompt/RecipeTool.ts"
import { toolName as waitTool } from "../tool/WaitTool.ts"
import * as ToolName from "../tool/ToolName.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"

/** What this gateway allows and already has. */
interface Rules {
  readonly allowsModel: (model: string) => boolean
  readonly allowsHost: (url: string) => boolean
  readonly allowsVariable: (name: string) => boolean
  /** The names of the tools that the app itself brings. */
  readonly localTools: ReadonlyArray<string>
  /** Why no call of this name can be made as the caller, if so. */
  readonly notAsCaller: (name: string) => string | undefined
  /** Why what is granted for an account does not go to a URL that the request names, if so. */
  readonly notAtAccount: (account: string, url: string) => string | undefined
}

/** The tools that the gateway may add to a plan. Their names are nobody else's, whether a plan gets them or not. */
const reserved = new Map([
  [recipeTool, "the recipes"],
  [waitTool, "the gateway"],
  [findTools, "the gateway"]
])

/** What is wrong with the schemas of skills, of tools and of the answer. If there are too many, or they are too long together, none is examined. */
const schemaIssues = ({ agents, preferences, tools }: PlanRequest): InvalidRequest["issues"] => {
  const { response_format: format = "text" } = preferences
  const answer =
    format === "text" ? [] : [{ path: ["preferences", "response_format", "schema"], schema: format.schema }]
  const skills = agents.flatMap(({ skills = [] }, index) =>
    skills.flatMap(({ input_schema }, position) =>
      input_schema === undefined
        ? []
        : [{ path: ["agents", index, "skills", position, "input_schema"], schema: input_schema }]
    )
  )
  const ofTools = tools.flatMap(({ input_schema, output_schema }, index) => [
    { path: ["tools", index, "input_schema"], schema: input_schema },
    ...(output_schema === undefined ? [] : [{ path: ["tools", index, "output_schema"], schema: output_schema }])
  ])
  const schemas = [...answer, ...skills, ...ofTools]
  const characters = schemas.reduce((sum, { schema }) => sum + ToolSchema.charactersOf(schema), 0)
  if (characters > ToolSchema.maxCharacters) {
    const message = `Expected schemas of at most ${ToolSchema.maxCharacters} characters together, got ${characters}`
    const [list] = [skills.length > 0 ? ["agents"] : [], ofTools.length > 0 ? ["tools"] : []].flat()
    return [{ path: list === undefined ? ["preferences", "response_format"] : [list], message }]
  }
  return schemas.flatMap(({ path, schema }) => {
    const message = ToolSchema.problem(schema)
    return message === undefined ? [] : [{ path, message }]
  })
}

/** What is wrong with a request that names a preset that its caller may not use, or that does not exist. */
export const unknownPreset = (
  name: PlanRequest["preset"],
  names: ReadonlyArray<string>
): InvalidRequest["issues"][number] => ({
  path: ["preset"],
  message: `Expected ${names.length === 0 ? "none: there is no preset that you may use" : names.join(" or ")}, got ${JSON.stringify(name)}`
})

/** What a well-formed request asks for in vain: unknown models, hosts and variables that are not allowed, bad schemas, names that collide with one another or with those of its preset. */
export const check = (request: PlanRequest, preset: Preset, rules: Rules): InvalidRequest["issues"] => {
  const issues: Array<InvalidRequest["issues"][number]> = []
  const report = (path: ReadonlyArray<PropertyKey>, message: string) => void issues.push({ path, message })

  const { model } = request.preferences
  if (model !== undefined && !rules.allowsModel(model)) {
    report(["preferences", "model"], `Expected an allowed model as provider/model, got ${JSON.stringify(model)}`)
  }

  const owners = new Map(preset.agents.map(({ name }) => [name, `${name}, an agent of the preset ${preset.name}`]))
  for (const { terms } of preset.servers) owners.set(terms.name, `${terms.name}, a server of the preset ${preset.name}`)
  const take = (
    list: "agents" | "mcp_servers",
    index: number,
    { auth, name }: Pick<Agent, "auth" | "name">,
    url: string
  ) => {
    const fields = [list === "agents" ? ["endpoint"] : ["url"], ["auth", "token_url"]]
    for (const [at, named] of urlsOf(url, auth).entries()) {
      if (rules.allowsHost(named)) continue
      const host = JSON.stringify(hostOf(named))
      report(
        [list, index, ...(fields[at] ?? [])],
        `Expected a host that the permissions of the caller allow, got ${host}`
      )
    }
    const other = owners.get(name)
    if (other !== undefined) report([list, index, "name"], `Expected another name than that of ${other}`)
    owners.set(name, `${list}[${index}]`)
    const notAsCaller = needsCallersToken(auth) ? rules.notAsCaller(name) : undefined
    if (notAsCaller !== undefined) report([list, index, "auth", "type"], notAsCaller)
    const notAtAccount = auth.type === "account" ? rules.notAtAccount(auth.account, url) : undefined
    if (notAtAccount !== undefined) report([list, index, "auth", "account"], notAtAccount)
    for (const [field, variable] of variablesOf(auth)) {
      if (rules.allowsVariable(variable)) continue
      report(
        [list, index, "auth", field],
        "Expected a variable that BOWLINE_ENV_ALLOW (server.env_allow in the file) names"
      )
    }
  }
  const acting = [
    ...preset.agents.filter(({ auth }) => needsCallersToken(auth)).map(({ name }) => name),
    ...preset.servers.filter((server) => server.needsCallersToken === true).map(({ terms }) => terms.name)
  ]
  for (const name of acting) {
    const notAsCaller = rules.notAsCaller(name)
    if (notAsCaller !== undefined) report(["preset"], notAsCaller)
  }
  const tools = new Map(rules.localTools.map((name) => [name, `the local tool ${name}`]))
  for (const { name, skills = [] } of preset.agents) {
    for (const { id } of skills) {
      tools.set(ToolName.forSkill(name, id), `skill ${id} of agent ${name} of the preset ${preset.name}`)
    }
  }
  request.agents.forEach((agent, index) => {
    take("agents", index, agent, agent.endpoint)
    agent.skills?.forEach((skill, position) => {
      const path = ["agents", index, "skills", position]
      const tool = ToolName.forSkill(agent.name, skill.id)
      const owner = tools.get(tool) ?? reserved.get(tool)
      const own = `skill ${skill.id} of agent ${agent.name}`
      if (owner !== undefined) report([...path, "id"], `${own} and ${owner} would both be the tool ${tool}`)
      tools.set(tool, own)
    })
  })
  request.tools.forEach(({ name }, index) => {
    const owner = tools.get(name) ?? reserved.get(name)
    if (owner !== undefined) report(["tools", index, "name"], `Expected another name than that of ${owner}`)
    tools.set(name, `tools[${index}]`)
  })
  request.mcp_servers.forEach((server, index) => take("mcp_servers", index, server, server.url))
  if (request.call !== undefined && !owners.has(request.call.agent)) {
    report(
      ["call", "agent"],
      `Expected an agent or an MCP server of the plan, got ${JSON.stringify(request.call.agent)}`
    )
  }
  if (tools.size > maxTools) {
    const list = request.agents.length > 0 ? "agents" : "tools"
    report([list], `Expected at most ${maxTools} tools, got ${tools.size}`)
  }
  return issues.length > 0 ? issues : schemaIssues(request)
}
