import { Dialect } from "@bowline/domain/peer/Agent"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Forbidden, Internal } from "../api/Problem.ts"

/** A peer that this process has called. Timestamps are ISO 8601 in UTC. */
export const Peer = Schema.Struct({
  endpoint: Schema.String,
  dialect: Schema.NullOr(Dialect),
  card: Schema.NullOr(Schema.Struct({ name: Schema.NullOr(Schema.String), fetched_at: Schema.String })),
  breaker: Schema.Struct({
    state: Schema.Literals(["closed", "open", "half-open"]),
    open_until: Schema.NullOr(Schema.String)
  })
}).annotate({ identifier: "Peer" })
export type Peer = typeof Peer.Type

/** An MCP server that this process has connected to: the revision of the protocol, and why the last attempt failed, if it did. */
const McpServer = Schema.Struct({
  url: Schema.String,
  revision: Schema.NullOr(Schema.String),
  error: Schema.NullOr(Schema.String)
}).annotate({ identifier: "McpServerStatus" })

export class PeersApi extends HttpApiGroup.make("peers")
  .add(
    HttpApiEndpoint.get("list", "/peers", {
      success: Schema.Struct({ peers: Schema.Array(Peer), mcp_servers: Schema.Array(McpServer) }),
      error: [Forbidden, Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary:
          "The peers and MCP servers that this process has spoken to: dialects, cards, circuit breakers, revisions",
        description: "For callers marked `admin`."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Peers") {}
