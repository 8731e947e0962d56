import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { routeHeaders } from "../plan/RouteHeaders.ts"

/** An error of JSON-RPC 2.0. `id` is that of the request, or null where it has none or cannot be read. */
export const McpError = Schema.Struct({
  jsonrpc: Schema.tag("2.0"),
  id: Schema.NullOr(Schema.Union([Schema.String, Schema.Finite])),
  error: Schema.Struct({
    code: Schema.Int,
    message: Schema.String,
    data: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
  })
}).annotate({ identifier: "McpError", description: "Every error at `/mcp`" })
export type McpError = typeof McpError.Type

const failures = [400, 401, 403, 404, 405, 408, 413, 415, 429, 500, 503].map((status) =>
  McpError.pipe(HttpApiSchema.status(status))
)

const McpMessage = Schema.Struct({
  jsonrpc: Schema.tag("2.0"),
  id: Schema.optionalKey(Schema.Union([Schema.String, Schema.Finite])),
  method: Schema.String,
  params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
}).annotate({ identifier: "McpMessage", description: "A request or a notification of the Model Context Protocol" })

const McpAnswer = Schema.Record(Schema.String, Schema.Json).annotate({
  identifier: "McpAnswer",
  description: "A response of JSON-RPC, or the messages of a call as server-sent events"
})

/** The route that clients of the Model Context Protocol call. */
export class McpApi extends HttpApiGroup.make("mcp")
  .add(
    HttpApiEndpoint.post("message", "/mcp", {
      headers: routeHeaders,
      payload: McpMessage,
      success: McpAnswer,
      error: failures
    }).annotate(OpenApi.Summary, "Use the gateway as an MCP server")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "MCP") {}
