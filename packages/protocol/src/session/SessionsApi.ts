import { Compacted, Session } from "@bowline/domain/session/Session"
import { ListedSession } from "@bowline/domain/unstable/session/ListedSession"
import { Message, MessageId } from "@bowline/domain/session/Message"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { pageEnd, pageQuery, TimeCursor } from "../api/PageQuery.ts"
import {
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  SessionBusy,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"

/** The body of a revert: the last message that stays. */
export const RevertRequest = Schema.Struct({ to_message_id: MessageId })

const session = Session.annotate({ identifier: "Session" })
const listed = ListedSession.annotate({ identifier: "ListedSession" })
const orders = ["created", "active"] as const
const order = Schema.Literals(orders).annotate({
  description:
    "What comes first: the session that was `created` last, which is the default, or the one that was `active` last",
  message: `Expected ${orders.join(" or ")}`
})
const id = { id: Schema.String.annotate({ description: "The gateway's id of the session, or your own" }) }
const failures = [Unavailable, Internal] as const

export class SessionsApi extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.get("list", "/sessions", {
      query: { ...pageQuery, cursor: Schema.optionalKey(TimeCursor), order: Schema.optionalKey(order) },
      success: Schema.Struct({ sessions: Schema.Array(listed), next_cursor: Schema.NullOr(TimeCursor) }),
      error: [InvalidRequest, ...failures]
    }).annotate(OpenApi.Summary, "Your sessions, newest first, or by their last activity"),
    HttpApiEndpoint.get("get", "/sessions/:id", {
      params: id,
      success: session,
      error: [NotFound, ...failures]
    }).annotate(OpenApi.Summary, "One session"),
    HttpApiEndpoint.get("messages", "/sessions/:id/messages", {
      params: id,
      query: pageQuery,
      success: Schema.Struct({ messages: Schema.Array(Message.annotate({ identifier: "Message" })), ...pageEnd }),
      error: [InvalidRequest, NotFound, ...failures]
    }).annotate(OpenApi.Summary, "The history of a session in order: every message"),
    HttpApiEndpoint.post("revert", "/sessions/:id/revert", {
      params: id,
      payload: RevertRequest.annotate({ identifier: "RevertRequest" }),
      success: session,
      error: [InvalidRequest, NotFound, SessionBusy, PayloadTooLarge, UnsupportedMediaType, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Drop what came after a message",
        description:
          "The message itself stays. Plans of the session that are not over are aborted first (`cancelled`). A summary that " +
          "covers more than what is left is dropped."
      })
    ),
    HttpApiEndpoint.post("compact", "/sessions/:id/compact", {
      params: id,
      success: Schema.Struct({ compaction: Schema.NullOr(Compacted.annotate({ identifier: "Compacted" })) }),
      error: [InvalidRequest, NotFound, SessionBusy, PayloadTooLarge, UnsupportedMediaType, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Replace all but the newest turns by a summary",
        description: "Refused while the session has a plan that is not over. `null` if there is nothing to compact."
      })
    ),
    HttpApiEndpoint.delete("delete", "/sessions/:id", {
      params: id,
      success: HttpApiSchema.NoContent,
      error: [NotFound, SessionBusy, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Delete a session and all it owns",
        description: "Its plans that are not over are aborted first (`cancelled`)."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Sessions") {}
