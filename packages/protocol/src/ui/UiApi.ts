import { ClientTool, PlanBody } from "@bowline/domain/plan/PlanRequest"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import {
  ApprovalConflict,
  HopsExceeded,
  Internal,
  InvalidRequest,
  NotFound,
  PayloadTooLarge,
  SessionBusy,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"
import { routeHeaders } from "../plan/RouteHeaders.ts"

const { agents, mcp_servers, preferences, preset } = PlanBody.fields

/** What a client of another protocol says in Bowline's own words, as in `POST /plan`. */
export const UiOptions = Schema.Struct({ preset, agents, mcp_servers, preferences }).annotate({
  identifier: "UiOptions",
  description: "As in `POST /plan`. `on_disconnect` is `cancel`, with 10 s of grace, unless `preferences` say otherwise"
})

const options = Schema.optionalKey(UiOptions)
const Fields = Schema.Record(Schema.String, Schema.Json)

const UiChatRequest = Schema.Struct({
  id: Schema.String.annotate({ description: "The chat: it is the session" }),
  messages: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      role: Schema.Literals(["system", "user", "assistant"]),
      parts: Schema.Array(Fields)
    })
  ),
  trigger: Schema.optionalKey(Schema.Literals(["submit-message", "regenerate-message"])),
  messageId: Schema.optionalKey(Schema.String),
  tools: Schema.optionalKey(Schema.Array(ClientTool)).annotate({
    description: "The tools that the client runs, as in `POST /plan`"
  }),
  bowline: options
}).annotate({
  identifier: "UiChatRequest",
  description: "What the AI SDK's `useChat` sends, with `bowline` in its extra body"
})

const AgUiRequest = Schema.Struct({
  threadId: Schema.String.annotate({ description: "It is the session" }),
  runId: Schema.String,
  messages: Schema.Array(Fields),
  tools: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        name: ClientTool.fields.name,
        description: Schema.optionalKey(Schema.String),
        parameters: Schema.optionalKey(Fields)
      })
    )
  ).annotate({ description: "The tools that the client runs" }),
  resume: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        interruptId: Schema.String.annotate({ description: "`task_id` of the call" }),
        status: Schema.Literals(["resolved", "cancelled"]),
        payload: Schema.optionalKey(Fields)
      })
    )
  ),
  forwardedProps: Schema.optionalKey(Schema.Struct({ bowline: options }))
}).annotate({ identifier: "AgUiRequest", description: "`RunAgentInput` of AG-UI 1.0" })

const events = (identifier: string, description: string) => Fields.annotate({ identifier, description })
const chunks = events("UiChunks", "The AI SDK's UI message stream, as server-sent events")
const asked = [
  InvalidRequest,
  NotFound,
  SessionBusy,
  ApprovalConflict,
  HopsExceeded,
  PayloadTooLarge,
  UnsupportedMediaType,
  Unavailable,
  Internal
] as const
const params = { id: Schema.String.annotate({ description: "The chat" }) }

/** What the UI libraries of others call, without a change to them: the AI SDK, and AG-UI. */
export class UiApi extends HttpApiGroup.make("ui")
  .add(
    HttpApiEndpoint.post("chat", "/ui/chat", {
      headers: routeHeaders,
      payload: UiChatRequest,
      success: chunks,
      error: asked
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Ask a question as the AI SDK's useChat",
        description:
          "The last message asks, or its approvals decide. `regenerate-message` drops the answer and asks again: 409 while it runs."
      })
    ),
    HttpApiEndpoint.get("resume", "/ui/chat/:id/stream", {
      params,
      success: [chunks, HttpApiSchema.NoContent],
      error: [Unavailable, Internal]
    }).annotate(OpenApi.Summary, "What runs in a chat, from its start; 204 if nothing does"),
    HttpApiEndpoint.delete("stop", "/ui/chat/:id/stream", {
      params,
      success: HttpApiSchema.NoContent,
      error: [Unavailable, Internal]
    }).annotate(OpenApi.Summary, "Cancel what runs in a chat"),
    HttpApiEndpoint.post("run", "/agui", {
      headers: routeHeaders,
      payload: AgUiRequest,
      success: events("AgUiEvents", "Events of AG-UI 1.0, as server-sent events"),
      error: asked
    }).annotate(OpenApi.Summary, "Run the planner as an agent of AG-UI"),
    HttpApiEndpoint.get("capabilities", "/agui", {
      success: events("AgUiCapabilities", "`AgentCapabilities` of AG-UI 1.0"),
      error: [Unavailable, Internal]
    }).annotate(OpenApi.Summary, "What the planner can do as an agent of AG-UI, and which agents it calls for you")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "UI libraries") {}
