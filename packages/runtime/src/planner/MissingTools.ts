import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { truncate } from "../tool/Envelope.ts"

export type Notice = Extract<PlanEvent, { readonly event: "notice" }>

/** A tool that an agent's card, an MCP server or the request names and that the plan does not get. */
export interface MissingTool {
  readonly tool: string
  readonly reason: string
}

/** Who has brought the tools. */
type Origin = { readonly agent: string } | { readonly server: string } | { readonly request: null }

const titleOf = (origin: Origin): string => {
  if ("request" in origin) return "the request"
  return "agent" in origin ? `the agent ${origin.agent}` : `the MCP server ${origin.server}`
}

/** How many tools are named. */
const maxNamed = 128

/** How many characters the caller gets of a name and of a reason: both may be a stranger's, and reasons quote schemas. */
const maxName = 256
const maxReason = 500

const shown = ({ reason, tool }: MissingTool) => ({
  tool: truncate(tool, maxName).text,
  reason: truncate(reason, maxReason).text
})

/** Tells the caller which of these tools the plan does not get, if there are any. */
export const noticesOf = (origin: Origin, missing: ReadonlyArray<MissingTool>): ReadonlyArray<Notice> => {
  if (missing.length === 0) return []
  const tools = missing.slice(0, maxNamed).map(shown)
  const others = missing.length - tools.length
  const names = [...tools.map(({ tool }) => tool), ...(others === 0 ? [] : [`and ${others} others`])]
  const message = `Tools of ${titleOf(origin)} are missing: ${names.join(", ")}`
  const data = "request" in origin ? { tools } : { ...origin, tools }
  return [{ event: "notice", data: { code: "tool_missing", message, data } }]
}
