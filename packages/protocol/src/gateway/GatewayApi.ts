import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Unavailable } from "../api/Problem.ts"

export class GatewayApi extends HttpApiGroup.make("gateway", { topLevel: true })
  .add(
    HttpApiEndpoint.get("health", "/health", {
      success: Schema.Struct({ status: Schema.tag("ok") })
    }).annotate(OpenApi.Summary, "Whether the process lives"),
    HttpApiEndpoint.get("ready", "/ready", {
      success: Schema.Struct({ status: Schema.tag("ready") }),
      error: Unavailable
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Whether it takes plans",
        description: "503 names the checks that `failed`: `database`, `draining`."
      })
    )
  )
  .annotate(OpenApi.Title, "Gateway") {}
