import { Metadata, PlanBody, Sampling } from "@bowline/domain/plan/PlanRequest"
import { Schema, SchemaTransformation } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Parameter } from "../api/PageQuery.ts"
import { routeHeaders } from "../plan/RouteHeaders.ts"

/** `param` names the field that is wrong, if one is. */
export const OpenAiError = Schema.Struct({
  error: Schema.Struct({
    message: Schema.String,
    type: Schema.Literals([
      "invalid_request_error",
      "authentication_error",
      "permission_error",
      "rate_limit_error",
      "server_error"
    ]),
    code: Schema.String,
    param: Schema.NullOr(Schema.String)
  })
}).annotate({ identifier: "OpenAiError", description: "Every error under `/v1`" })
export type OpenAiError = typeof OpenAiError.Type

/** The refusals under `/v1`. */
export const failures = [400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 502, 503, 504, 508].map((status) =>
  OpenAiError.pipe(HttpApiSchema.status(status))
)

/** What a caller may ask: the configured agents as `bowline`, and every preset as `bowline/<name>`. `created` is in seconds. */
const Model = Schema.Struct({
  id: Schema.String,
  object: Schema.tag("model"),
  created: Schema.Int,
  owned_by: Schema.tag("bowline")
}).annotate({ identifier: "OpenAiModel" })

export const modelId = Schema.String.annotate({ description: "`bowline`, or `bowline/<preset>`" })

/** How many entries a page of a list has. */
export const Limit = Parameter.check(
  Schema.isPattern(/^(?:[1-9]\d?|100)$/u, { message: "Expected an integer between 1 and 100" })
).pipe(Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString))

/** The query of a list of items. */
export const itemQuery = {
  limit: Schema.optionalKey(Limit.annotate({ description: "1 to 100, 20 if not given" })),
  order: Schema.optionalKey(Schema.Literals(["asc", "desc"])),
  after: Schema.optionalKey(Parameter.annotate({ description: "The id of the last item of the page before" }))
}

/** A page of items. */
export const Items = Schema.Struct({
  object: Schema.tag("list"),
  data: Schema.Array(Schema.Record(Schema.String, Schema.Json)),
  first_id: Schema.NullOr(Schema.String),
  last_id: Schema.NullOr(Schema.String),
  has_more: Schema.Boolean
}).annotate({ identifier: "ResponseItems" })

const { agents, mcp_servers, metadata, preferences } = PlanBody.fields

const Message = Schema.Struct({
  role: Schema.Literals(["system", "developer", "user", "assistant"]),
  content: Schema.Union([Schema.String, Schema.Array(Schema.Struct({ type: Schema.tag("text"), text: Schema.String }))])
})

const ResponseFormat = Schema.Struct({
  type: Schema.Literals(["text", "json_object", "json_schema"]),
  json_schema: Schema.optionalKey(Schema.Struct({ schema: Schema.Record(Schema.String, Schema.Json) }))
})

/** What a stream does when the plan takes back text that was shown. */
export const OnRetract = Schema.Literals(["error", "append", "hold"])

const ChatCompletionRequest = Schema.Struct({
  model: modelId,
  messages: Schema.Array(Message),
  stream: Schema.optionalKey(Schema.Boolean),
  stream_options: Schema.optionalKey(Schema.Struct({ include_usage: Schema.optionalKey(Schema.Boolean) })),
  response_format: Schema.optionalKey(ResponseFormat),
  ...Sampling.fields,
  max_completion_tokens: Sampling.fields.max_tokens,
  metadata,
  user: Schema.optionalKey(Schema.String),
  store: Schema.optionalKey(Schema.Boolean),
  bowline: Schema.optionalKey(
    Schema.Struct({ agents, mcp_servers, preferences, on_retract: Schema.optionalKey(OnRetract) })
  )
}).annotate({
  identifier: "ChatCompletionRequest",
  description: "The body of OpenAI's `POST /chat/completions`, with these fields and others"
})

const ChatCompletion = Schema.Record(Schema.String, Schema.Json).annotate({
  identifier: "ChatCompletion",
  description: "OpenAI's `chat.completion`, or with `stream: true` its chunks as server-sent events"
})

const StoredChats = Schema.Struct({
  object: Schema.tag("list"),
  data: Schema.Array(ChatCompletion),
  first_id: Schema.NullOr(Schema.String),
  last_id: Schema.NullOr(Schema.String),
  has_more: Schema.Boolean
}).annotate({ identifier: "ChatCompletions" })

const chatId = { id: Schema.String.annotate({ description: "`chatcmpl-` and a `plan_id`" }) }

/** The routes that clients of OpenAI's API call. */
export class OpenAiApi extends HttpApiGroup.make("openai")
  .add(
    HttpApiEndpoint.get("models", "/v1/models", {
      success: Schema.Struct({ object: Schema.tag("list"), data: Schema.Array(Model) }),
      error: failures
    }).annotate(OpenApi.Summary, "The models that you may ask"),
    HttpApiEndpoint.get("model", "/v1/models/:id", {
      params: { id: modelId },
      success: Model,
      error: failures
    }).annotate(OpenApi.Summary, "One model, its id encoded"),
    HttpApiEndpoint.get("presetModel", "/v1/models/:family/:preset", {
      params: { family: Schema.String, preset: Schema.String },
      success: Model,
      error: failures
    }).annotate(OpenApi.Summary, "One model, its id as it is"),
    HttpApiEndpoint.post("chat", "/v1/chat/completions", {
      headers: routeHeaders,
      payload: ChatCompletionRequest,
      success: ChatCompletion,
      error: failures
    }).annotate(OpenApi.Summary, "Ask a question as a client of OpenAI's Chat Completions"),
    HttpApiEndpoint.get("storedChats", "/v1/chat/completions", {
      query: {
        ...itemQuery,
        model: Schema.optionalKey(Parameter.annotate({ description: "The `model` of the completion" }))
      },
      success: StoredChats,
      error: failures
    })
      // A parameter has the name of its entry: `metadata[<key>]`. The gateway refuses any other that is not known.
      .annotate(HttpApi.QueryParseOptions, { errors: "all", onExcessProperty: "ignore" })
      .annotateMerge(
        OpenApi.annotations({
          summary: "The completions that were asked with `store: true`, the oldest one first",
          description: "`metadata[<key>]=<value>` is an entry of its `metadata`; several of them: all"
        })
      ),
    HttpApiEndpoint.get("storedChat", "/v1/chat/completions/:id", {
      params: chatId,
      success: ChatCompletion,
      error: failures
    }).annotate(OpenApi.Summary, "A completion that was asked with `store: true`"),
    HttpApiEndpoint.post("describeChat", "/v1/chat/completions/:id", {
      params: chatId,
      payload: Schema.Struct({ metadata: Schema.NullOr(Metadata) }),
      success: ChatCompletion,
      error: failures
    }).annotate(OpenApi.Summary, "Give a completion that is stored other metadata"),
    HttpApiEndpoint.get("chatMessages", "/v1/chat/completions/:id/messages", {
      params: chatId,
      query: itemQuery,
      success: Items,
      error: failures
    }).annotate(OpenApi.Summary, "What a completion that is stored was asked, the first message first"),
    HttpApiEndpoint.delete("forgetChat", "/v1/chat/completions/:id", {
      params: chatId,
      success: Schema.Struct({
        id: Schema.String,
        object: Schema.tag("chat.completion.deleted"),
        deleted: Schema.tag(true)
      }),
      error: failures
    }).annotate(OpenApi.Summary, "Forget a completion that was asked with `store: true`")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "OpenAI") {}
