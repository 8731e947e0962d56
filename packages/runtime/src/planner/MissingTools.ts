import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"

export type Notice = Extract<PlanEvent, { readonly event: "notice" }>

/** A tool that an agent's card or an MCP server names and that the plan does not get. */
export interface MissingTool {
  readonly tool: string
  readonly reason: string
}

const titles = { agent: "agent", server: "MCP server" }

/** Tells the caller which tools of an agent or a server the plan does not get, if there are any. */
export const noticesOf = (
  kind: "agent" | "server",
  name: string,
  missing: ReadonlyArray<MissingTool>
): ReadonlyArray<Notice> => {
  if (missing.length === 0) return []
  const message = `Tools of the ${titles[kind]} ${name} are missing: ${missing.map(({ tool }) => tool).join(", ")}`
  const tools = missing.map((tool) => ({ ...tool }))
  return [{ event: "notice", data: { code: "tool_missing", message, data: { [kind]: name, tools } } }]
}
