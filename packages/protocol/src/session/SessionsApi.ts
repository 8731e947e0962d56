import { Message } from "@bowline/domain/session/Message"
import { Session } from "@bowline/domain/session/Session"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { pageEnd, pageQuery } from "../api/Page.ts"
import { Internal, InvalidRequest, NotFound, Unavailable } from "../api/Problem.ts"

const session = Session.annotate({ identifier: "Session" })
const id = { id: Schema.String.annotate({ description: "The gateway's id of the session, or your own" }) }
const failures = [Unavailable, Internal] as const

export class SessionsApi extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.get("list", "/sessions", {
      query: pageQuery,
      success: Schema.Struct({ sessions: Schema.Array(session), ...pageEnd }),
      error: [InvalidRequest, ...failures]
    }).annotate(OpenApi.Summary, "Your sessions, newest first"),
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
    }).annotate(OpenApi.Summary, "The history of a session in order: every message")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Sessions") {}
