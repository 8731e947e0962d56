import { Schema, SchemaTransformation } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { routeHeaders } from "../plan/RouteHeaders.ts"
import { Parameter } from "../api/PageQuery.ts"
import { failures, itemQuery, Items, modelId } from "./OpenAiApi.ts"

const params = { id: Schema.String.annotate({ description: "`resp_` and a `plan_id`" }) }

const ResponseRequest = Schema.Struct({
  model: modelId,
  input: Schema.Union([Schema.String, Schema.Array(Schema.Record(Schema.String, Schema.Json))]),
  stream: Schema.optionalKey(Schema.Boolean),
  background: Schema.optionalKey(Schema.Boolean),
  previous_response_id: Schema.optionalKey(Schema.String)
}).annotate({
  identifier: "ResponseRequest",
  description: "The body of OpenAI's `POST /responses`, with these fields and others"
})

const Response = Schema.Record(Schema.String, Schema.Json).annotate({
  identifier: "Response",
  description: "OpenAI's `response`, or with `stream` its events as server-sent events"
})

/** The number of an event, as a caller writes it. */
const SequenceNumber = Parameter.check(Schema.isPattern(/^\d{1,15}$/u, { message: "Expected a sequence_number" })).pipe(
  Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString)
)

/** OpenAI's Responses. A response is a plan. */
export class ResponsesApi extends HttpApiGroup.make("responses")
  .add(
    HttpApiEndpoint.post("create", "/v1/responses", {
      headers: routeHeaders,
      payload: ResponseRequest,
      success: Response,
      error: failures
    }).annotate(OpenApi.Summary, "Ask a question as a client of OpenAI's Responses"),
    HttpApiEndpoint.post("inputTokens", "/v1/responses/input_tokens", {
      payload: ResponseRequest,
      success: Schema.Struct({ object: Schema.tag("response.input_tokens"), input_tokens: Schema.Int }).annotate({
        identifier: "InputTokens"
      }),
      error: failures
    }).annotate(OpenApi.Summary, "The tokens with which a response would begin, estimated"),
    HttpApiEndpoint.post("compact", "/v1/responses/compact", {
      payload: Schema.Struct({
        model: modelId,
        input: Schema.optionalKey(ResponseRequest.fields.input),
        previous_response_id: ResponseRequest.fields.previous_response_id
      }).annotate({
        identifier: "CompactionRequest"
      }),
      success: Response,
      error: failures
    }).annotate(OpenApi.Summary, "Compact the conversation up to a response, and what comes behind it"),
    HttpApiEndpoint.get("get", "/v1/responses/:id", {
      params,
      query: {
        stream: Schema.optionalKey(Schema.Literals(["true", "false"])),
        starting_after: Schema.optionalKey(
          SequenceNumber.annotate({ description: "With `stream=true`: only the events after this `sequence_number`" })
        )
      },
      success: Response,
      error: failures
    }).annotate(OpenApi.Summary, "A response, or with `stream=true` its events from the first one on"),
    HttpApiEndpoint.post("cancel", "/v1/responses/:id/cancel", {
      params,
      success: Response,
      error: failures
    }).annotate(OpenApi.Summary, "Cancel a response"),
    HttpApiEndpoint.delete("delete", "/v1/responses/:id", {
      params,
      success: Schema.Struct({ id: Schema.String, object: Schema.tag("response"), deleted: Schema.tag(true) }),
      error: failures
    }).annotate(OpenApi.Summary, "Cancel and forget a response"),
    HttpApiEndpoint.get("inputItems", "/v1/responses/:id/input_items", {
      params,
      query: itemQuery,
      success: Items,
      error: failures
    }).annotate(OpenApi.Summary, "What a response was asked, the last item first")
  )
  .middleware(Authorization)
  // Clients of OpenAI send parameters such as `include`, which change nothing here.
  .annotateEndpoints(HttpApi.QueryParseOptions, { errors: "all", onExcessProperty: "ignore" })
  .annotate(OpenApi.Title, "Responses") {}
