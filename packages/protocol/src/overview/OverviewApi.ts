import { Overview } from "@bowline/domain/unstable/plan/Overview"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Instant, Parameter } from "../api/PageQuery.ts"
import { Forbidden, Internal, InvalidRequest, Unavailable } from "../api/Problem.ts"

export class OverviewApi extends HttpApiGroup.make("overview")
  .add(
    HttpApiEndpoint.get("read", "/overview", {
      query: {
        since: Schema.optionalKey(
          Instant.annotate({ description: "Plans created then or later (RFC 3339); 24 h before `until`, if not given" })
        ),
        until: Schema.optionalKey(
          Instant.annotate({
            description: "Plans created before then; now, if not given. 7 days behind `since` at most"
          })
        ),
        caller: Schema.optionalKey(
          Parameter.annotate({
            description:
              "Whose plans: for callers marked `admin`, who see those of everybody, if not given. Others see theirs"
          })
        )
      },
      success: Overview.annotate({ identifier: "Overview" }),
      error: [InvalidRequest, Forbidden, Unavailable, Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "What has become of the plans of a stretch of time",
        description:
          "Counts by outcome over time, how long plans and their first text took, why plans did not complete, cost by model and by " +
          "caller, the slowest tools and those that fail most often; and what waits and runs now. Numbers of plans are those that " +
          "`GET /plans` lists with the same filter."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Overview") {}
