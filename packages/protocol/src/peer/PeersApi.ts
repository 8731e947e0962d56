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

export class PeersApi extends HttpApiGroup.make("peers")
  .add(
    HttpApiEndpoint.get("list", "/peers", {
      success: Schema.Struct({ peers: Schema.Array(Peer) }),
      error: [Forbidden, Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "The peers that this process has spoken to: dialects, cards, circuit breakers",
        description: "For callers marked `admin`."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Peers") {}
