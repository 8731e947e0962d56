import { Failure, Final } from "@bowline/domain/plan/Outcome"
import { Plan, PlanState, PlanId, PlanSummary } from "@bowline/domain/plan/Plan"
import { AskBody } from "@bowline/domain/plan/PlanRequest"
import { Usage } from "@bowline/domain/plan/Usage"
import { FeedbackSign } from "@bowline/domain/unstable/plan/Feedback"
import { GivenFork } from "@bowline/domain/unstable/plan/Fork"
import { SessionId } from "@bowline/domain/session/Session"
import { Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Instant, ownerQuery, pageEnd, pageQuery, Parameter } from "../api/PageQuery.ts"
import {
  Forbidden,
  EventsExpired,
  HopsExceeded,
  IdempotencyConflict,
  Internal,
  InvalidQuestion,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  QuotaExceeded,
  SessionBusy,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"
import { SseFrame } from "../stream/SseFrame.ts"
import { IdempotencyKey, routeHeaders } from "./RouteHeaders.ts"

/** A plan that ran, as one object, however it ended. */
export const PlanResult = Schema.Struct({
  plan_id: PlanId,
  session_id: SessionId,
  state: PlanState,
  final: Schema.optionalKey(Final),
  error: Schema.optionalKey(Failure),
  usage: Usage
}).annotate({ identifier: "PlanResult", description: "The plan, once it is over, or its events as they come" })
export type PlanResult = typeof PlanResult.Type

/** A stream of a plan's events. */
export const frames = HttpApiSchema.StreamSse({
  events: SseFrame.annotate({
    identifier: "Frame",
    description:
      "`id` counts 1, 2, 3 … per plan. Exactly one of `final` and `error` comes, then `done`. A comment goes out after " +
      "10 s of silence. A stream that ends without `done` is incomplete: read on with `Last-Event-ID`."
  })
})

const example = Schema.decodeSync(AskBody)({
  question: "What holds under any load and never jams?",
  session_id: "knots",
  agents: [
    { name: "rigger", endpoint: "https://rigger.example/", skills: [{ id: "ask", description: "Knows ropes" }] }
  ],
  preferences: { timeout_ms: 60_000 }
})

const plan = Plan.annotate({ identifier: "Plan" })
const summary = PlanSummary.annotate({ identifier: "PlanSummary" })
const id = { id: Schema.String.annotate({ description: "`plan_id` of the plan" }) }
const failures = [Unavailable, Internal] as const

/** The number of an event, as a caller writes it. */
const Seq = Parameter.check(Schema.isPattern(/^\d{1,15}$/u, { message: "Expected the number of an event, or 0" })).pipe(
  Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString)
)

const expectedStates = `Expected ${PlanState.literals.join(" or ")}`

/** A parameter that may be repeated. The issue names the parameter, and not which of them is wrong. */
const states = Schema.Array(PlanState)
  .annotate({ description: "Plans in this state; several times: in any of them" })
  .pipe(Schema.catchDecoding(() => Effect.fail(new SchemaIssue.InvalidValue({ message: expectedStates }))))

const entry = /^[^=]{1,512}=[^]{0,512}$/

/** Entries of metadata. The key ends with the first `=`. */
const entries = Schema.Array(
  Schema.String.check(Schema.isPattern(entry)).pipe(
    Schema.decodeTo(
      Schema.Tuple([Schema.String, Schema.String]),
      SchemaTransformation.transform({
        decode: (text): readonly [string, string] => [
          text.slice(0, text.indexOf("=")),
          text.slice(text.indexOf("=") + 1)
        ],
        encode: ([key, value]) => `${key}=${value}`
      })
    )
  )
).pipe(Schema.catchDecoding(() => Effect.fail(new SchemaIssue.InvalidValue({ message: "Expected key=value" }))))

const word = (maximum: number) => Parameter.check(Schema.isBetweenLength(1, maximum))

export class PlansApi extends HttpApiGroup.make("plans")
  .add(
    HttpApiEndpoint.post("start", "/plan", {
      headers: { ...routeHeaders, "idempotency-key": Schema.optionalKey(IdempotencyKey) },
      payload: AskBody.annotate({ identifier: "PlanRequest", examples: [example] }),
      success: [PlanResult, frames],
      error: [
        InvalidQuestion,
        SessionBusy,
        IdempotencyConflict,
        QuotaExceeded,
        EventsExpired,
        PayloadTooLarge,
        UnsupportedMediaType,
        HopsExceeded,
        ...failures
      ]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Ask a question",
        description:
          "Starts a plan and streams its events, or with `Accept: application/json` answers when it is over: 200 for a plan " +
          "that ran, however it ended. A caller that leaves ends the plan, unless `preferences.on_disconnect` is `continue`. " +
          "With an `Idempotency-Key` the same request can be sent again: it starts no second plan, and gets the stream of the first."
      })
    ),
    HttpApiEndpoint.post("check", "/plan/check", {
      headers: routeHeaders,
      payload: AskBody.annotate({ identifier: "PlanRequest", examples: [example] }),
      success: HttpApiSchema.NoContent,
      error: [InvalidQuestion, PayloadTooLarge, UnsupportedMediaType, HopsExceeded, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Check a question without asking it",
        description:
          "Refuses what `POST /plan` refuses before it looks at what is stored, and starts nothing: for a caller that drops " +
          "something before it asks. 204 if there is nothing wrong with the request."
      })
    ),
    HttpApiEndpoint.get("list", "/plans", {
      query: {
        session_id: Schema.optionalKey(
          Parameter.annotate({ description: "The gateway's id of a session, or your own" })
        ),
        state: Schema.optionalKey(states),
        model: Schema.optionalKey(word(256).annotate({ description: "The `model` of the plan, `provider/model`" })),
        error_code: Schema.optionalKey(word(64).annotate({ description: "The `code` of its `error`" })),
        since: Schema.optionalKey(Instant.annotate({ description: "Created then or later (RFC 3339)" })),
        until: Schema.optionalKey(Instant.annotate({ description: "Created before then (RFC 3339)" })),
        q: Schema.optionalKey(
          word(1_000).annotate({ description: "What its question contains, in upper or lower case" })
        ),
        reason: Schema.optionalKey(word(64).annotate({ description: "The `reason` of its abort" })),
        tool: Schema.optionalKey(word(64).annotate({ description: "It has called this tool" })),
        agent: Schema.optionalKey(word(64).annotate({ description: "It has called this agent or MCP server" })),
        metadata: Schema.optionalKey(
          entries.annotate({ description: "`key=value` of its `metadata`; several times: all of them" })
        ),
        feedback: Schema.optionalKey(
          FeedbackSign.annotate({
            message: `Expected ${FeedbackSign.literals.join(" or ")}`,
            description: "What anybody has said of it last; `none` where nobody has"
          })
        ),
        label: Schema.optionalKey(
          word(64).annotate({ description: "What anybody has said of it last has this label" })
        ),
        ...ownerQuery,
        ...pageQuery
      },
      success: Schema.Struct({ plans: Schema.Array(summary), ...pageEnd }),
      error: [InvalidRequest, Forbidden, NotFound, ...failures]
    }).annotate(OpenApi.Summary, "Your plans, newest first"),
    HttpApiEndpoint.get("get", "/plans/:id", {
      params: id,
      success: plan,
      error: [NotFound, ...failures]
    }).annotate(OpenApi.Summary, "One plan"),
    HttpApiEndpoint.get("events", "/plans/:id/events", {
      params: id,
      headers: { "last-event-id": Schema.optionalKey(Seq) },
      query: { after: Schema.optionalKey(Seq) },
      success: frames,
      error: [InvalidRequest, NotFound, EventsExpired, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "A plan's events",
        description:
          "From the start, or after `Last-Event-ID` (or `after`), live to the end. At the end of a plan that is over: an " +
          "empty 200; past the last event: 400. 410 if the plan is over for longer than `BOWLINE_EVENTS_TTL`."
      })
    ),
    HttpApiEndpoint.get("export", "/plans/:id/export", {
      params: id,
      success: Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "application/gzip" })),
      error: [NotFound, EventsExpired, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "All that is on record of a plan, as one file",
        description:
          "JSON lines behind gzip: the plan, its prompts as digests, its messages, events, attempts, calls and entries. It has no secrets."
      })
    ),
    HttpApiEndpoint.post("fork", "/plans/:id/fork", {
      params: id,
      headers: { ...routeHeaders, "idempotency-key": Schema.optionalKey(IdempotencyKey) },
      payload: GivenFork.annotate({
        identifier: "GivenFork",
        examples: [{ step: 3, model: "anthropic/claude-opus-4-5" }]
      }),
      success: [PlanResult, frames],
      error: [
        InvalidQuestion,
        NotFound,
        IdempotencyConflict,
        QuotaExceeded,
        EventsExpired,
        PayloadTooLarge,
        UnsupportedMediaType,
        HopsExceeded,
        SessionBusy,
        ...failures
      ]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Run a plan again from a step on",
        description:
          "Starts a plan in a session of its own, which begins with the history of the other plan up to before the step (the last one, if it is not given), and " +
          "answers as `POST /plan` does. Calls get what was recorded (`recorded`), are made (`live`), or wait for a decision each (`ask`)."
      })
    ),
    HttpApiEndpoint.post("cancel", "/plans/:id/cancel", {
      params: id,
      success: plan,
      error: [InvalidRequest, NotFound, PayloadTooLarge, UnsupportedMediaType, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Cancel a plan",
        description: "A plan that is over stays as it is, and gets a 200, too."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Plans") {}
