import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { defaultPreset, noPreset } from "@bowline/runtime/unstable/config/Presets"
import { isWebhookSecret, type Webhook } from "@bowline/domain/unstable/plan/Webhook"
import * as Admission from "@bowline/runtime/unstable/plan/Admission"
import type { PlacedAuth } from "./AccountSchema.ts"
import type { Issue } from "../setting/ConfigProblem.ts"
import type { Texts } from "../setting/ReadSettings.ts"
import type { Lists } from "./FileSchema.ts"
import { mcpServerIssues, toMcpServers, unsetVariables } from "./McpServerSettings.ts"
import type { FilePreset } from "./PresetSchema.ts"

/** A preset as the file has it. */
export interface PresetSettings {
  readonly name: string
  readonly description: string | undefined
  readonly instructions: string | undefined
  readonly permissions: FilePreset["permissions"] | undefined
  readonly agents: NonNullable<FilePreset["agents"]>
  readonly servers: ReadonlyArray<ConfiguredMcpServer>
  /** With the `model` of the preset, which stands at `modelPath`. */
  readonly preferences: NonNullable<FilePreset["preferences"]>
  readonly modelPath: Issue["path"]
  readonly webhooks: ReadonlyArray<Webhook>
}

/** With what the agents and the MCP servers of presets are called, and where the file says so. */
export const placedAuths = (presets: ReadonlyArray<PresetSettings>): ReadonlyArray<PlacedAuth> =>
  presets.flatMap(({ agents, name, servers }) => {
    const path = name === defaultPreset ? [] : ["presets", name]
    return [
      ...agents.map(({ auth }, at) => ({ auth, path: [...path, "agents", at] })),
      ...servers.flatMap((server, at) =>
        "url" in server ? [{ auth: server.auth, path: [...path, "mcp_servers", at] }] : []
      )
    ]
  })

const always = () => true

/** Variables that do not hold what signs. */
export const webhookIssues = (webhooks: ReadonlyArray<Webhook>, environment: Texts): ReadonlyArray<Issue> =>
  webhooks.flatMap(({ secret_env_var: variable }, index) => {
    if (variable === undefined || isWebhookSecret(environment[variable] ?? "")) return []
    const expected = `Expected ${variable} to hold whsec_ and the secret's bytes in base64`
    return [{ path: ["webhooks", index, "secret_env_var"], expected }]
  })

/** Everything that requests are refused for, too. Names of agents and servers alike stand in front of the names of tools. */
const catalogIssues = (
  { agents = [], mcp_servers = [], preferences = {}, webhooks = [] }: FilePreset,
  environment: Texts
) => {
  const asked = { question: "?", agents, mcp_servers: [], tools: [], history: [], metadata: {}, preferences }
  const rules = {
    allowsModel: always,
    allowsHost: always,
    allowsVariable: always,
    localTools: [],
    notAsCaller: () => undefined,
    notAtAccount: () => undefined
  }
  const agentNames = new Set(agents.map(({ name }) => name))
  return [
    ...Admission.check(asked, noPreset, rules).map(({ message, path }) => ({ path, expected: message })),
    ...agents.flatMap(({ auth }, index) => unsetVariables(["agents", index, "auth"], auth, environment)),
    ...mcpServerIssues(["mcp_servers"], mcp_servers, environment),
    ...webhookIssues(webhooks, environment),
    ...mcp_servers.flatMap(({ name }, index) =>
      agentNames.has(name)
        ? [{ path: ["mcp_servers", index, "name"], expected: "Expected another name than that of an agent" }]
        : []
    )
  ]
}

/** A name is part of the names of models and tools, and of URLs. */
const nameIssues = (name: string): ReadonlyArray<Issue> => {
  if (name === defaultPreset) {
    return [{ path: [], expected: "Expected another name: default is the agents and mcp_servers of the file itself" }]
  }
  const expected = "Expected a name of 1..64 characters of a-z 0-9 _ -, the first one a letter or a digit"
  return /^[a-z0-9][a-z0-9_-]{0,63}$/.test(name) ? [] : [{ path: [], expected }]
}

const twoModels = { path: ["model"], expected: "Expected either model or preferences.model" }

/** The presets of a file, `default` in front, and everything that is wrong with them. */
export const read = ({ agents = [], mcp_servers = [], presets = {} }: Lists, environment: Texts) => {
  const issues: Array<Issue> = []
  const toSettings = (
    name: string,
    preset: FilePreset,
    path: Issue["path"],
    wrong: ReadonlyArray<Issue>
  ): PresetSettings => {
    const { agents = [], description, instructions, mcp_servers = [], model, permissions, preferences = {} } = preset
    const { webhooks = [] } = preset
    const found = [...wrong, ...catalogIssues(preset, environment)]
    if (model !== undefined && preferences.model !== undefined) found.push(twoModels)
    issues.push(...found.map((issue) => ({ ...issue, path: [...path, ...issue.path] })))
    return {
      name,
      description,
      instructions,
      permissions,
      agents,
      servers: toMcpServers(mcp_servers),
      preferences: model === undefined ? preferences : { ...preferences, model },
      webhooks,
      modelPath: [...path, ...(model === undefined ? ["preferences"] : []), "model"]
    }
  }
  return {
    presets: [
      toSettings(defaultPreset, { agents, mcp_servers }, [], []),
      ...Object.entries(presets).map(([name, preset]) => toSettings(name, preset, ["presets", name], nameIssues(name)))
    ],
    issues
  }
}
