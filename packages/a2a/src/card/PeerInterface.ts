import type { Dialect } from "@bowline/domain/peer/Agent"
import type { AgentCard, Location } from "./AgentCard.ts"

/** A dialect that a peer speaks, and the URL for it. */
export interface PeerInterface {
  readonly dialect: Dialect
  readonly url: string
  /** Every request names it, where one URL serves many peers. */
  readonly tenant: string | undefined
}

interface Offer {
  readonly dialect: Dialect
  readonly url: string | null | undefined
  readonly tenant?: string | null | undefined
}

const isJsonRpc = (transport: string | null | undefined): boolean => transport?.toUpperCase() === "JSONRPC"

const ofVersion = (version: string | null | undefined): Dialect | undefined => {
  if (version == null) return undefined
  if (/^1(\.|$)/.test(version)) return "a2a-1.0"
  return /^0\.3(\.|$)/.test(version) ? "a2a-0.3" : undefined
}

/** A2A 1.0 lists its interfaces; A2A 0.3 has a preferred one, and others. */
const declared = ({ additionalInterfaces, preferredTransport, supportedInterfaces, url }: AgentCard): Array<Offer> => {
  if (supportedInterfaces != null && supportedInterfaces.length > 0) {
    return supportedInterfaces.flatMap(({ protocolBinding, protocolVersion, tenant, url }): Array<Offer> => {
      const dialect = ofVersion(protocolVersion)
      return isJsonRpc(protocolBinding) && dialect !== undefined ? [{ dialect, url, tenant }] : []
    })
  }
  if (preferredTransport == null || isJsonRpc(preferredTransport)) return [{ dialect: "a2a-0.3", url }]
  const other = additionalInterfaces?.find(({ transport }) => isJsonRpc(transport))
  return [{ dialect: "a2a-0.3", url: other?.url }]
}

/** Only bindu has `agentTrust`. A card in the older place is bindu's too, unless it has members that only A2A has. */
const offersOf = (card: AgentCard, location: Location): Array<Offer> => {
  const isA2a = card.preferredTransport != null || (card.supportedInterfaces ?? []).length > 0
  const isBindu = card.agentTrust != null || (location === "/.well-known/agent.json" && !isA2a)
  return isBindu ? [{ dialect: "bindu", url: card.url }] : declared(card)
}

/**
 * Where requests go: the URL of the card, if it has the origin of the configured endpoint and the endpoint has no path or
 * query of its own; else the configured endpoint.
 */
const within = (endpoint: string, url: string | null | undefined): string => {
  if (url == null || !URL.canParse(url)) return endpoint
  const configured = new URL(endpoint)
  const offered = new URL(url)
  const isBare = configured.pathname === "/" && configured.search === ""
  return isBare && offered.origin === configured.origin ? offered.href : endpoint
}

/** The interface of a peer by its card: the first one over JSON-RPC, or the first one of the wanted dialect. */
export const interfaceOf = (
  card: AgentCard,
  location: Location,
  endpoint: string,
  wanted: Dialect | "auto"
): PeerInterface => {
  const offers = offersOf(card, location)
  const offer = wanted === "auto" ? offers[0] : offers.find(({ dialect }) => dialect === wanted)
  // A card of A2A 1.0 that names no JSON-RPC of a known version.
  const fallback = wanted === "auto" ? "a2a-1.0" : wanted
  const dialect = offer?.dialect ?? fallback
  // A2A 0.3 has no parameter for it.
  const tenant = dialect === "a2a-1.0" ? offer?.tenant || undefined : undefined
  return { dialect, url: within(endpoint, offer?.url), tenant }
}
