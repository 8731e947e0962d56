import { Decision, GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import { Entry, NewEntry, Waiting, WaitKind } from "@bowline/domain/plan/Inbox"
import { EntryId } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { ownerQuery, pageEnd, pageQuery } from "../api/PageQuery.ts"
import {
  ApprovalConflict,
  EntryRefused,
  Forbidden,
  HopsExceeded,
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"
import { IdempotencyKey } from "../plan/RouteHeaders.ts"

const pending = PendingApproval.annotate({ identifier: "PendingApproval" })
const waiting = Waiting.annotate({ identifier: "Waiting" })
const entry = Entry.annotate({ identifier: "Entry" })
const decided = Schema.Struct({ plan_id: PlanId, task_id: TaskId, ...GivenDecision.fields }).annotate({
  identifier: "Approval"
})
const accepted = Schema.Struct({ entry_id: EntryId, plan_id: PlanId, moved: Schema.Boolean }).annotate({
  identifier: "AcceptedEntry",
  description: "The plan that has the entry: with `moved` the next one of the session, which asks it"
})
const failures = [Unavailable, Internal] as const
const plan = { id: Schema.String.annotate({ description: "`plan_id` of the plan" }) }
const unreadable = [PayloadTooLarge, UnsupportedMediaType] as const
const kind = WaitKind.annotate({
  description: "Only what waits for that",
  message: `Expected ${WaitKind.literals.join(" or ")}`
})

export class InboxApi extends HttpApiGroup.make("inbox")
  .add(
    HttpApiEndpoint.post("accept", "/plans/:id/inbox", {
      params: plan,
      headers: { "idempotency-key": Schema.optionalKey(IdempotencyKey) },
      payload: NewEntry.annotate({ identifier: "NewEntry" }),
      success: accepted.pipe(HttpApiSchema.status(202)),
      error: [InvalidRequest, NotFound, EntryRefused, HopsExceeded, ...unreadable, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Say something to a plan",
        description:
          "A text for its next step, the result of a tool of yours, an answer, or a decision. What is accepted is taken exactly " +
          "once, or the plan's last frame names it as untaken. A text for a plan that has completed is the next question of its " +
          "session, unless its `else` is `reject`. Callers marked `admin` may say something to anybody's plans."
      })
    ),
    HttpApiEndpoint.get("entries", "/plans/:id/inbox", {
      params: plan,
      query: pageQuery,
      success: Schema.Struct({ entries: Schema.Array(entry), ...pageEnd }),
      error: [InvalidRequest, NotFound, ...failures]
    }).annotate(OpenApi.Summary, "What was said to a plan, oldest first"),
    HttpApiEndpoint.delete("withdraw", "/plans/:id/inbox/:entry_id", {
      params: { ...plan, entry_id: Schema.String.annotate({ description: "`entry_id` of the entry" }) },
      success: HttpApiSchema.NoContent,
      error: [NotFound, EntryRefused, ...failures]
    }).annotate(OpenApi.Summary, "Take a text back that the plan has not taken"),
    HttpApiEndpoint.get("waiting", "/waiting", {
      query: { kind: Schema.optionalKey(kind), ...ownerQuery, ...pageQuery },
      success: Schema.Struct({ waiting: Schema.Array(waiting), ...pageEnd }),
      error: [InvalidRequest, Forbidden, ...failures]
    }).annotate(OpenApi.Summary, "What waits for somebody, oldest first"),
    HttpApiEndpoint.get("approvals", "/approvals", {
      query: { ...ownerQuery, ...pageQuery },
      success: Schema.Struct({ approvals: Schema.Array(pending), ...pageEnd }),
      error: [InvalidRequest, Forbidden, ...failures]
    }).annotate(OpenApi.Summary, "The calls that wait for a decision, newest first"),
    HttpApiEndpoint.post("decide", "/plans/:id/approvals/:task_id", {
      params: { ...plan, task_id: Schema.String.annotate({ description: "`task_id` of the call" }) },
      payload: Decision.annotate({ identifier: "Decision" }),
      success: decided,
      error: [InvalidRequest, NotFound, ApprovalConflict, ...unreadable, ...failures]
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
  .annotate(OpenApi.Title, "Inbox") {}
