import type { Dialect } from "@bowline/domain/peer/Agent"
import type { Schema } from "effect"

export type CardMembers = { readonly [key: string]: Schema.Json }

/** Where a peer of the dialect has its card. */
export const cardPath = {
  "a2a-1.0": "/.well-known/agent-card.json",
  "a2a-0.3": "/.well-known/agent-card.json",
  bindu: "/.well-known/agent.json"
} as const

/** A card of the dialect. `members` go over those that it has to have. */
export const cardOf = (dialect: Dialect, url: string, members: CardMembers): CardMembers => ({
  name: "scripted",
  description: "A scripted peer",
  url,
  version: "1.0.0",
  capabilities: { streaming: false },
  defaultInputModes: ["text/plain", "application/json"],
  defaultOutputModes: ["text/plain", "application/json"],
  skills: [{ id: "ask", name: "Ask", description: "Answers a question", tags: [] }],
  ...(dialect === "bindu"
    ? { kind: "agent", agentTrust: { identityProvider: "none", inheritedRoles: [] } }
    : { protocolVersion: "0.3.0", preferredTransport: "JSONRPC" }),
  ...members
})
