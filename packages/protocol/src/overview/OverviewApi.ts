import { Overview } from "@bowline/domain/unstable/plan/Overview"
import { SpendingBy, SpendingRow } from "@bowline/domain/unstable/plan/SpendingRow"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Day, Instant, Parameter } from "../api/PageQuery.ts"
import { Forbidden, Internal, InvalidRequest, Unavailable } from "../api/Problem.ts"

const expectedBy = "Expected day, caller, model or preset"

const caller = Schema.optionalKey(
  Parameter.annotate({
    description: "Whose plans: for callers marked `admin`, who see those of everybody, if not given. Others see theirs"
  })
)

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
        caller
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
    ),
    HttpApiEndpoint.get("usage", "/usage", {
      query: {
        from: Schema.optionalKey(
          Day.annotate({ description: "The first UTC day; 29 days before `to`, if not given. The last 400 are kept" })
        ),
        to: Schema.optionalKey(Day.annotate({ description: "The last UTC day, included; today, if not given" })),
        by: Schema.optionalKey(
          SpendingBy.annotate({ description: "What the rows add up: `day`, if not given", message: expectedBy })
        ),
        caller
      },
      success: Schema.Struct({ rows: Schema.Array(SpendingRow.annotate({ identifier: "Spending" })) }),
      error: [InvalidRequest, Forbidden, Unavailable, Internal]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "What plans have used, by day, caller, model or preset",
        description:
          "Charged with the events that tell it, to the UTC day and the model that it was used on, and kept when plans are deleted. A plan counts on " +
          "the day on which it starts. `cost_usd` is null where one of its prices is not known. Days come in their order, everything else by cost."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Overview") {}
