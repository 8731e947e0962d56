import { Metadata } from "@bowline/domain/plan/PlanRequest"
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { failures, itemQuery, Items } from "./OpenAiApi.ts"

const params = { id: Schema.String.annotate({ description: "The id of a conversation, or the name of a session" }) }
const itemParams = { ...params, item_id: Schema.String.annotate({ description: "The id of an item" }) }

/** A session as OpenAI's clients see it. `created_at` is in seconds. */
const Conversation = Schema.Struct({
  id: Schema.String,
  object: Schema.tag("conversation"),
  created_at: Schema.Int,
  metadata: Metadata
}).annotate({ identifier: "Conversation" })
export type Conversation = typeof Conversation.Type

const Item = Schema.Record(Schema.String, Schema.Json)

/** What a conversation takes: messages of `user` and `assistant`, `function_call`, `function_call_output` and `reasoning`. */
const GivenItems = Schema.Array(Item)

/** OpenAI's Conversations: sessions, in the words of its clients. */
export class ConversationsApi extends HttpApiGroup.make("conversations")
  .add(
    HttpApiEndpoint.post("create", "/v1/conversations", {
      payload: Schema.Struct({
        items: Schema.optionalKey(GivenItems),
        metadata: Schema.optionalKey(Metadata)
      }).annotate({
        identifier: "NewConversation"
      }),
      success: Conversation,
      error: failures
    }).annotate(OpenApi.Summary, "Begin a conversation"),
    HttpApiEndpoint.get("get", "/v1/conversations/:id", { params, success: Conversation, error: failures }).annotate(
      OpenApi.Summary,
      "A conversation"
    ),
    HttpApiEndpoint.post("describe", "/v1/conversations/:id", {
      params,
      payload: Schema.Struct({ metadata: Metadata }).annotate({ identifier: "ConversationMetadata" }),
      success: Conversation,
      error: failures
    }).annotate(OpenApi.Summary, "Give a conversation other metadata"),
    HttpApiEndpoint.delete("delete", "/v1/conversations/:id", {
      params,
      success: Schema.Struct({
        id: Schema.String,
        object: Schema.tag("conversation.deleted"),
        deleted: Schema.tag(true)
      }),
      error: failures
    }).annotate(OpenApi.Summary, "Delete a conversation, with its responses"),
    HttpApiEndpoint.get("items", "/v1/conversations/:id/items", {
      params,
      query: itemQuery,
      success: Items,
      error: failures
    }).annotate(OpenApi.Summary, "What was said in a conversation, the last item first"),
    HttpApiEndpoint.post("addItems", "/v1/conversations/:id/items", {
      params,
      payload: Schema.Struct({ items: GivenItems }).annotate({ identifier: "ConversationItems" }),
      success: Items,
      error: failures
    }).annotate(OpenApi.Summary, "Add messages to a conversation"),
    HttpApiEndpoint.get("item", "/v1/conversations/:id/items/:item_id", {
      params: itemParams,
      success: Item,
      error: failures
    }).annotate(OpenApi.Summary, "One item of a conversation"),
    HttpApiEndpoint.delete("deleteItem", "/v1/conversations/:id/items/:item_id", {
      params: itemParams,
      success: Conversation,
      error: failures
    }).annotate(OpenApi.Summary, "Delete the last message of a conversation")
  )
  .middleware(Authorization)
  .annotateEndpoints(HttpApi.QueryParseOptions, { errors: "all", onExcessProperty: "ignore" })
  .annotate(OpenApi.Title, "Conversations") {}
