import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { routeHeaders } from "../plan/RouteHeaders.ts"

const AgentCard = Schema.Record(Schema.String, Schema.Json).annotate({
  identifier: "AgentCard",
  description: "An agent card of A2A 1.0, with the members of 0.3"
})

/** The cards of the gateway as an agent. Whoever looks for agents needs no key. */
export class AgentCardsApi extends HttpApiGroup.make("agentCards")
  .add(
    HttpApiEndpoint.get("card", "/.well-known/agent-card.json", { success: AgentCard }).annotate(
      OpenApi.Summary,
      "The gateway's agent card"
    ),
    HttpApiEndpoint.get("presetCard", "/a2a/agents/:preset/.well-known/agent-card.json", {
      params: { preset: Schema.String },
      success: AgentCard
    }).annotate(OpenApi.Summary, "The agent card of a preset")
  )
  .annotate(OpenApi.Title, "Agent cards") {}

const Answer = Schema.Record(Schema.String, Schema.Json)

/** Everything below `/a2a`: the paths of A2A have colons, which are names of parameters here. Its cards and its specification describe it. */
export class A2aApi extends HttpApiGroup.make("a2a")
  .add(
    HttpApiEndpoint.get("read", "/a2a/*", { success: Answer }),
    HttpApiEndpoint.post("call", "/a2a/*", { headers: routeHeaders, success: Answer }),
    HttpApiEndpoint.delete("remove", "/a2a/*", { success: Answer })
  )
  .middleware(Authorization)
  .annotate(OpenApi.Exclude, true) {}
