import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Forbidden, Internal, InvalidRequest, NotFound, Unauthorized, Unavailable } from "../api/Problem.ts"

/** Where a caller has let the gateway act as them. */
const account = Schema.Struct({
  name: Schema.String,
  connected_at: Schema.String,
  scopes: Schema.Array(Schema.String),
  expires_at: Schema.NullOr(Schema.String).annotate({
    description: "When the token ends that the gateway has now, if the server says so. The gateway renews it"
  })
}).annotate({ identifier: "ConnectedAccount" })

const failures = [Unavailable, Internal] as const

export class AccountsApi extends HttpApiGroup.make("accounts")
  .add(
    HttpApiEndpoint.get("list", "/accounts", {
      success: Schema.Struct({ accounts: Schema.Array(account) }),
      error: [...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "The accounts at which you have let the gateway act as you",
        description: "By name. It never shows a token."
      })
    ),
    HttpApiEndpoint.delete("disconnect", "/accounts/:name", {
      params: {
        name: Schema.String.annotate({
          description:
            "The name of the account in the configuration; of one that a server has named itself, the URL of that server"
        })
      },
      success: HttpApiSchema.NoContent,
      error: [InvalidRequest, NotFound, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Take back what you have granted at an account",
        description:
          "The gateway forgets its tokens at once, on all replicas, and revokes them at the authorization server (RFC 7009). Plans that need the account wait for a new grant."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Accounts") {}

const link = { link: Schema.String.annotate({ description: "As the `url` of what waits has it" }) }
const page = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/html; charset=utf-8" }))
const server = {
  server: Schema.String.check(Schema.isPattern(/^[\w-]{22}$/)).annotate({
    description: "By what the gateway knows the authorization server"
  })
}
const client = Schema.Struct({
  client_id: Schema.String,
  client_name: Schema.String,
  redirect_uris: Schema.Array(Schema.String),
  grant_types: Schema.Array(Schema.String),
  response_types: Schema.Array(Schema.String),
  application_type: Schema.String,
  token_endpoint_auth_method: Schema.String
}).annotate({ identifier: "ClientMetadata" })
const refusals = [Unauthorized, Forbidden, NotFound, ...failures] as const

/** The way of a person to the authorization server of an account, and back. */
export class ConnectApi extends HttpApiGroup.make("connect")
  .add(
    HttpApiEndpoint.get("confirm", "/accounts/connect", {
      query: link,
      success: page,
      error: [InvalidRequest, ...refusals]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Ask a person to grant what a plan waits for",
        description: "A page that says who gets what. It changes nothing."
      })
    ),
    HttpApiEndpoint.post("depart", "/accounts/connect", {
      query: link,
      success: HttpApiSchema.Empty(303),
      error: [InvalidRequest, ...refusals]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Send the person to the authorization server",
        description: "A link is good once, for 10 minutes; for the caller's own login to the console it always is."
      })
    ),
    HttpApiEndpoint.get("arrive", "/accounts/callback", {
      query: Schema.Record(Schema.String, Schema.String),
      success: page,
      error: [...refusals]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Come back from the authorization server",
        description: "Only the browser that has left can come back, once, within 10 minutes. What has waited goes on."
      })
    ),
    HttpApiEndpoint.get("arriveFrom", "/accounts/callback/:server", {
      params: server,
      query: Schema.Record(Schema.String, Schema.String),
      success: page,
      error: [InvalidRequest, ...refusals]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Come back from an authorization server that was discovered",
        description: "Each has a place of its own: the answer of another one is refused."
      })
    ),
    HttpApiEndpoint.get("client", "/accounts/client", {
      success: client,
      error: [NotFound, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "What the gateway is as a client of authorization servers",
        description: "A client id metadata document: its URL is the `client_id`, and may be a `client_metadata_url`."
      })
    ),
    HttpApiEndpoint.get("clientOf", "/accounts/client/:server", {
      params: server,
      success: client,
      error: [InvalidRequest, NotFound, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "What the gateway is as a client of an authorization server that was discovered",
        description: "The same with the callback of this server."
      })
    )
  )
  .annotate(OpenApi.Title, "Accounts") {}
