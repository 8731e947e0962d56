import type { Dialect } from "@bowline/domain/peer/Agent"
import type { Schema } from "effect"

export type CardMembers = { readonly [key: string]: Schema.Json }

/** Where a peer of the dialect has its card. */
export const cardPath = {
  "a2a-1.0": "/.well-known/agent-card.json",
  "a2a-0.3": "/.well-known/agent-card.json",
  bindu: "/.well-known/agent.json"
} as const

interface Manner {
  readonly dialect: Dialect
  readonly streams: boolean
  readonly url: string
}

const own = ({ dialect, url }: Manner): CardMembers => {
  switch (dialect) {
    case "a2a-1.0":
      return { supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }] }
    case "a2a-0.3":
      return { url, protocolVersion: "0.3.0", preferredTransport: "JSONRPC" }
    case "bindu":
      return { url, kind: "agent", agentTrust: { identityProvider: "none", inheritedRoles: [] } }
  }
}

/** A card of the dialect. `members` go over those that it has to have. */
export const cardOf = (manner: Manner, members: CardMembers): CardMembers => ({
  name: "scripted",
  description: "A scripted peer",
  version: "1.0.0",
  capabilities: { streaming: manner.streams },
  defaultInputModes: ["text/plain", "application/json"],
  defaultOutputModes: ["text/plain", "application/json"],
  skills: [{ id: "ask", name: "Ask", description: "Answers a question", tags: [] }],
  ...own(manner),
  ...members
})
