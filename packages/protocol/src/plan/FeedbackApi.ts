import { Feedback, GivenFeedback } from "@bowline/domain/unstable/plan/Feedback"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import {
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"

const feedback = Feedback.annotate({ identifier: "Feedback" })
const failures = [Unavailable, Internal] as const
const plan = { id: Schema.String.annotate({ description: "`plan_id` of the plan" }) }

export class FeedbackApi extends HttpApiGroup.make("feedback")
  .add(
    HttpApiEndpoint.post("give", "/plans/:id/feedback", {
      params: plan,
      payload: GivenFeedback.annotate({
        identifier: "GivenFeedback",
        examples: [{ score: -1, comment: "It asked the wrong agent", labels: ["wrong-tool"] }]
      }),
      success: feedback,
      error: [InvalidRequest, NotFound, PayloadTooLarge, UnsupportedMediaType, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Say how good a plan was",
        description:
          "For its caller, and for callers marked `admin`. It takes the place of what you have said of the plan before. " +
          "`GET /plans?feedback=` and `label=` find plans by what anybody has said last."
      })
    ),
    HttpApiEndpoint.get("list", "/plans/:id/feedback", {
      params: plan,
      success: Schema.Struct({ feedback: Schema.Array(feedback) }),
      error: [InvalidRequest, NotFound, ...failures]
    }).annotate(OpenApi.Summary, "What each caller has said of a plan, the latest first")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Feedback") {}
