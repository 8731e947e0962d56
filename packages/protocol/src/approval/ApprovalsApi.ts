import { Decision, GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { ownerQuery, pageEnd, pageQuery } from "../api/PageQuery.ts"
import {
  ApprovalConflict,
  Forbidden,
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"

const pending = PendingApproval.annotate({ identifier: "PendingApproval" })
const decided = Schema.Struct({ plan_id: PlanId, task_id: TaskId, ...GivenDecision.fields }).annotate({
  identifier: "Approval"
})
const failures = [Unavailable, Internal] as const

export class ApprovalsApi extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/approvals", {
      query: { ...ownerQuery, ...pageQuery },
      success: Schema.Struct({ approvals: Schema.Array(pending), ...pageEnd }),
      error: [InvalidRequest, Forbidden, ...failures]
    }).annotate(OpenApi.Summary, "The calls that wait for a decision, newest first"),
    HttpApiEndpoint.post("decide", "/plans/:id/approvals/:task_id", {
      params: {
        id: Schema.String.annotate({ description: "`plan_id` of the plan" }),
        task_id: Schema.String.annotate({ description: "`task_id` of the call" })
      },
      payload: Decision.annotate({ identifier: "Decision" }),
      success: decided,
      error: [InvalidRequest, NotFound, ApprovalConflict, PayloadTooLarge, UnsupportedMediaType, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Approve or reject a call",
        description:
          "The first decision stands, and the same one again gets a 200. A different one, or one for a plan that is over, is a " +
          "409. Callers marked `admin` may decide about the calls of anybody's plans."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Approvals") {}
