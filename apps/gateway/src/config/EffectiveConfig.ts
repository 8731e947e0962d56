import type { Webhook } from "@bowline/domain/unstable/plan/Webhook"
import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import type { Agent } from "@bowline/domain/peer/Agent"
import { defaultPreset } from "@bowline/runtime/unstable/config/Presets"
import { Duration, Record, Redacted } from "effect"
import type { ConfigFile } from "./file/ConfigFile.ts"
import type { FileAccount } from "./file/AccountSchema.ts"
import type { FileS3 } from "./file/BucketSchema.ts"
import type { FileIssuer } from "./file/IssuerSchema.ts"
import type { PresetSettings } from "./file/PresetSettings.ts"
import type { FileProvider } from "./file/FileSchema.ts"
import type { ProviderSettings } from "./file/ProviderSettings.ts"
import type { CallerKey } from "./setting/CallerKeys.ts"
import type { Sources } from "./setting/ReadSettings.ts"
import { type SettingName, table, type Values } from "./setting/Settings.ts"

const redacted = "<redacted>"

const callers = (keys: ReadonlyArray<CallerKey>) =>
  Record.map(
    Object.groupBy(keys, ({ name }) => name),
    (keys = []) => keys.map(() => redacted)
  )

/** A setting as the operator wrote it, or its default. */
const shown = (name: SettingName, values: Values, sources: Sources): unknown => {
  if (name === "apiKeys") return callers(values.apiKeys)
  const given = sources.get(name)
  if (given !== undefined) return table[name].secret === true ? redacted : given.text
  const value = values[name]
  const { default: usual } = table[name]
  return typeof value === "object" && usual !== undefined ? usual : (value ?? null)
}

/** All settings, in the sections of the file. */
const sectionsOf = (values: Values, sources: Sources): Record<string, Record<string, unknown>> => {
  const sections: Record<string, Record<string, unknown>> = {}
  for (const [name, { path }] of Record.toEntries(table)) {
    if (path === undefined) continue
    const [section, key] = path
    sections[section] = { ...sections[section], [key]: shown(name, values, sources) }
  }
  return sections
}

/** A key may stand in the query, or in front of the host. */
const withoutSecrets = (url: string): string => {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

const providerOf = (
  { apiKeys, baseUrl, headers, name, wire }: ProviderSettings,
  { models = {}, timeouts = {} }: Partial<FileProvider>
) => ({
  name,
  wire,
  base_url: withoutSecrets(baseUrl),
  api_keys: apiKeys.map(() => redacted),
  headers: Record.map(headers, () => redacted),
  models,
  timeouts: Object.fromEntries(Object.entries(timeouts).map(([name, timeout]) => [name, Duration.format(timeout)]))
})

const mcpServerOf = (server: ConfiguredMcpServer) => {
  if ("url" in server) {
    const { auth, headers, url, ...terms } = server
    const shown = headers === undefined ? {} : { headers: Record.map(Redacted.value(headers), () => redacted) }
    return { ...terms, url: withoutSecrets(url), auth: { type: auth.type }, ...shown }
  }
  const { args = [], env = {}, ...terms } = server
  return { ...terms, args: args.map(() => redacted), env: Record.map(env, () => redacted) }
}

const agentOf = ({ auth, endpoint, ...agent }: Agent) => ({
  ...agent,
  endpoint: withoutSecrets(endpoint),
  auth: { type: auth.type }
})

const catalogOf = ({ agents, servers }: Pick<PresetSettings, "agents" | "servers">) => ({
  agents: agents.map(agentOf),
  mcp_servers: servers.map(mcpServerOf)
})

const bucketOf = ({ endpoint, ...bucket }: FileS3) => ({
  ...bucket,
  ...(endpoint !== undefined && { endpoint: withoutSecrets(endpoint) })
})

const webhookOf = ({ headers, secret, url, ...webhook }: Webhook) => ({
  ...webhook,
  url: withoutSecrets(url),
  ...(secret !== undefined && { secret: redacted }),
  ...(headers !== undefined && { headers: Record.map(Redacted.value(headers), () => redacted) })
})

const issuerOf = ({ leeway, ...issuer }: FileIssuer) => ({
  ...issuer,
  ...(issuer.jwks_url !== undefined && { jwks_url: withoutSecrets(issuer.jwks_url) }),
  ...(leeway !== undefined && { leeway: Duration.format(leeway) })
})

const accountOf = (account: FileAccount) =>
  Object.fromEntries(
    Object.entries(account).map(([key, value]) => [
      key,
      typeof value === "string" && URL.canParse(value) ? withoutSecrets(value) : value
    ])
  )

const presetOf = (preset: PresetSettings) => {
  const { agents, description, instructions, permissions, preferences, servers, webhooks } = preset
  return {
    description,
    ...catalogOf({ agents, servers }),
    preferences,
    instructions,
    permissions,
    webhooks: webhooks.map(webhookOf)
  }
}

/** The configuration in effect, in the shape of the file, for people to read. It contains no secrets. */
export const describe = (
  values: Values,
  sources: Sources,
  providers: ReadonlyArray<ProviderSettings>,
  file: ConfigFile
) => {
  const sections = sectionsOf(values, sources)
  return {
    ...sections,
    tools: { ...sections["tools"], effects: file.effects },
    console: { ...sections["console"], oidc: file.oidc ?? null },
    files: { ...sections["files"], s3: file.s3 === undefined ? null : bucketOf(file.s3) },
    providers: providers.map((provider) =>
      providerOf(provider, file.providers.find(({ name }) => name === provider.name) ?? {})
    ),
    models: file.models,
    ...file.presets.filter(({ name }) => name === defaultPreset).map(catalogOf)[0],
    presets: Object.fromEntries(
      file.presets.flatMap((preset) =>
        preset.name === defaultPreset ? [] : [[preset.name, presetOf(preset)] as const]
      )
    ),
    peers: {
      hosts: Object.fromEntries(
        Array.from(file.peerTls, ([host, tls]) => [
          host,
          { tls: Object.fromEntries(Object.keys(tls).map((key) => [key, redacted])) }
        ])
      )
    },
    auth: { jwt: file.issuers.map(issuerOf) },
    accounts: Record.map(file.accounts, accountOf),
    accounts_discovered: file.accountsDiscovered,
    permissions: file.permissions ?? null,
    budgets: file.budgets ?? null,
    webhooks: file.webhooks.map(webhookOf)
  }
}
