import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import type { Peer } from "@bowline/protocol/unstable/peer/PeersApi"
import { ConfiguredServers } from "@bowline/runtime/unstable/remote/ConfiguredServers"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { PeerClient, type PeerStatus } from "@bowline/runtime/remote/PeerClient"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { onlyAdmins } from "../http/BearerAuthorization.ts"
import { answer } from "../http/Refusals.ts"

const toPeer = ({ endpoint, dialect, card, breaker }: PeerStatus): Peer => ({
  endpoint,
  dialect,
  card: card === null ? null : { name: card.name, fetched_at: fromMillis(card.fetchedAt) },
  breaker: {
    state: breaker.state,
    open_until: breaker.openUntil === null ? null : fromMillis(breaker.openUntil)
  }
})

/** Shows admins the peers and the MCP servers that this process has called. */
export const layer = HttpApiBuilder.group(
  Api,
  "peers",
  Effect.fnUntraced(function* (handlers) {
    const client = yield* PeerClient
    const mcp = yield* McpClient
    const configured = yield* ConfiguredServers
    const admitted = yield* onlyAdmins

    return handlers.handleAll({
      list: () =>
        admitted.pipe(
          Effect.andThen(Effect.all([client.peers, configured.statuses, mcp.servers])),
          Effect.map(([peers, own, others]) => ({ peers: peers.map(toPeer), mcp_servers: [...own, ...others] })),
          answer
        )
    })
  })
)
