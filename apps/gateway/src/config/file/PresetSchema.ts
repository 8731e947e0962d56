import { McpCommand, McpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { Agent } from "@bowline/domain/peer/Agent"
import { GivenPreferences } from "@bowline/domain/plan/PlanRequest"
import { Webhooks } from "@bowline/domain/unstable/plan/Webhook"
import { Schema } from "effect"
import { PresetPermission } from "./CallerSchema.ts"

/** An MCP server by its URL or its command. `McpServerSettings` says which fields go together. */
const FileMcpServer = Schema.Struct({
  ...McpServer.fields,
  ...McpCommand.fields,
  url: Schema.optionalKey(McpServer.fields.url),
  command: Schema.optionalKey(McpCommand.fields.command)
})
export type FileMcpServer = typeof FileMcpServer.Type

/** The agents and the MCP servers of a preset. */
export const catalog = {
  agents: Schema.optionalKey(Schema.Array(Agent).check(Schema.isMaxLength(64))),
  mcp_servers: Schema.optionalKey(Schema.Array(FileMcpServer).check(Schema.isMaxLength(16)))
}

const Text = (maximum: number) =>
  Schema.String.check(
    Schema.makeFilter((text) => text.trim() !== "" || "Expected a text that is not blank"),
    Schema.isMaxLength(maximum)
  )

const FilePreset = Schema.Struct({
  ...catalog,
  description: Schema.optionalKey(Text(4_096)),
  model: Schema.optionalKey(Schema.String),
  preferences: Schema.optionalKey(GivenPreferences),
  instructions: Schema.optionalKey(Text(100_000)),
  permissions: Schema.optionalKey(PresetPermission),
  webhooks: Schema.optionalKey(Webhooks)
})
export type FilePreset = typeof FilePreset.Type

/** `PresetSettings` checks the names. */
export const Presets = Schema.Record(Schema.String, FilePreset)
