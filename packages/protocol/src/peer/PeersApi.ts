import { Dialect } from "@bowline/domain/peer/Agent"
import { PeerCalls } from "@bowline/domain/unstable/plan/Overview"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Parameter } from "../api/PageQuery.ts"
import { Forbidden, Internal, InvalidRequest, NotFound, Unavailable } from "../api/Problem.ts"

const known = {
  /** Where presets name it, and as what. */
  configured: Schema.Array(Schema.Struct({ preset: Schema.String, name: Schema.String })),
  /** Its calls of the last 24 h, on all replicas. */
  calls: PeerCalls
}

/** A peer that is configured, or was called. Timestamps are ISO 8601 in UTC. */
export const Peer = Schema.Struct({
  endpoint: Schema.String,
  dialect: Schema.NullOr(Dialect),
  card: Schema.NullOr(Schema.Struct({ name: Schema.NullOr(Schema.String), fetched_at: Schema.String })),
  breaker: Schema.Struct({
    state: Schema.Literals(["closed", "open", "half-open"]),
    open_until: Schema.NullOr(Schema.String)
  }),
  ...known
}).annotate({ identifier: "Peer" })
export type Peer = typeof Peer.Type

/** An MCP server that is configured, or that this process has connected to: the revision of the protocol, and why and when the last attempt failed, if it did. */
export const McpServer = Schema.Struct({
  url: Schema.String,
  revision: Schema.NullOr(Schema.String),
  error: Schema.NullOr(Schema.String),
  error_at: Schema.NullOr(Schema.String),
  ...known
}).annotate({ identifier: "McpServerStatus" })
export type McpServer = typeof McpServer.Type

/** What can be called, one by one, of a peer or an MCP server: the `skill` is what `call` of `POST /plan` names. */
const OwnTool = Schema.Struct({
  tool: Schema.String,
  skill: Schema.String,
  description: Schema.String,
  input_schema: Schema.Record(Schema.String, Schema.Json)
}).annotate({ identifier: "OwnTool" })

export class PeersApi extends HttpApiGroup.make("peers")
  .add(
    HttpApiEndpoint.get("list", "/peers", {
      success: Schema.Struct({ peers: Schema.Array(Peer), mcp_servers: Schema.Array(McpServer) }),
      error: [Forbidden, Unavailable, Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary:
          "The peers and MCP servers that are configured or were called: dialects, cards, circuit breakers, revisions, calls",
        description:
          "For callers marked `admin`. Dialects, cards, breakers and revisions are what this process knows; calls are those of all replicas."
      })
    ),
    HttpApiEndpoint.get("tools", "/peers/tools", {
      query: {
        preset: Schema.optionalKey(
          Parameter.annotate({ description: "The preset that names it; `default`, if not given" })
        ),
        name: Parameter.annotate({ description: "The name that the preset has for the agent or MCP server" })
      },
      success: Schema.Struct({
        tools: Schema.Array(OwnTool),
        error: Schema.NullOr(Schema.String).annotate({ description: "Why it has not told its tools" })
      }),
      error: [InvalidRequest, Forbidden, NotFound, Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "What can be called of a configured agent or MCP server",
        description:
          "For callers marked `admin`. Its card is read, or it is connected to, unless the configuration names its skills."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Peers") {}
