import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Internal } from "../api/Problem.ts"

const Names = Schema.Array(Schema.String)

/** A named way to ask: the names of its agents and MCP servers, and the model that its plans ask first. */
const Preset = Schema.Struct({
  name: Schema.String,
  description: Schema.NullOr(Schema.String),
  agents: Names,
  mcp_servers: Names,
  model: Schema.String
}).annotate({ identifier: "Preset" })

export class PresetsApi extends HttpApiGroup.make("presets")
  .add(
    HttpApiEndpoint.get("list", "/presets", {
      success: Schema.Struct({ presets: Schema.Array(Preset) }),
      error: [Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "The presets that you may use",
        description: "`default` is what a plan gets that names no preset. It is listed if it has agents or MCP servers."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Presets") {}
