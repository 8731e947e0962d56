import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Unavailable } from "../api/Problem.ts"

const PrometheusText = Schema.String.pipe(
  HttpApiSchema.asText({ contentType: "text/plain; version=0.0.4; charset=utf-8" })
)

/** What a gateway that is ready has passed. */
export const readinessChecks = ["database", "database_writable", "leases", "draining"] as const
export type ReadinessCheck = (typeof readinessChecks)[number]

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
        description: `503 names the checks that \`failed\`: ${readinessChecks.map((check) => `\`${check}\``).join(", ")}.`
      })
    ),
    HttpApiEndpoint.get("metrics", "/metrics", { success: PrometheusText })
      .middleware(Authorization)
      .annotateMerge(
        OpenApi.annotations({
          summary: "What this process measures, as text for Prometheus",
          description: "For every caller, or for everybody with `metrics.public`."
        })
      )
  )
  .annotate(OpenApi.Title, "Gateway") {}
