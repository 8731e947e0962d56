import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { truncate } from "../tool/Envelope.ts"

export type Notice = Extract<PlanEvent, { readonly event: "notice" }>

/** A tool that an agent's card or an MCP server names and that the plan does not get. */
export interface MissingTool {
  readonly tool: string
  readonly reason: string
}

/** What the caller gets of what strangers write: so many tools, and characters of a name and of a reason, which quotes the schema. */
const most = { tools: 100, name: 256, reason: 500 }

const titles = { agent: "agent", server: "MCP server" }

/** Tells the caller which tools of an agent or a server the plan does not get, if there are any. */
export const noticesOf = (
  kind: "agent" | "server",
  name: string,
  missing: ReadonlyArray<MissingTool>
): ReadonlyArray<Notice> => {
  if (missing.length === 0) return []
  const tools = missing.slice(0, most.tools).map(({ reason, tool }) => ({
    tool: truncate(tool, most.name).text,
    reason: truncate(reason, most.reason).text
  }))
  const more = missing.length > tools.length ? ` and ${missing.length - tools.length} more` : ""
  const message = `Tools of the ${titles[kind]} ${name} are missing: ${tools.map(({ tool }) => tool).join(", ")}${more}`
  return [{ event: "notice", data: { code: "tool_missing", message, data: { [kind]: name, tools } } }]
}
