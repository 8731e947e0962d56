import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { NotFound } from "../api/Problem.ts"

/** The DID document of the gateway, in the shape of Bindu's. */
const DidDocument = Schema.Struct({
  "@context": Schema.Array(Schema.String),
  id: Schema.String,
  authentication: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      type: Schema.Literal("Ed25519VerificationKey2020"),
      controller: Schema.String,
      publicKeyBase58: Schema.String
    })
  )
})
  .annotate({ identifier: "DidDocument" })
  .pipe(HttpApiSchema.asJson({ contentType: "application/did+json" }))

/** What OAuth clients have to know of the gateway (RFC 9728). */
const ProtectedResource = Schema.Struct({
  resource: Schema.String,
  authorization_servers: Schema.Array(Schema.String),
  bearer_methods_supported: Schema.Array(Schema.String),
  resource_name: Schema.String
}).annotate({ identifier: "ProtectedResource" })

export class IdentityApi extends HttpApiGroup.make("identity")
  .add(
    HttpApiEndpoint.get("didDocument", "/.well-known/did.json", {
      success: DidDocument,
      error: NotFound
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Who the gateway is to its peers",
        description: "The key that signs its requests to peers. 404 without an identity."
      })
    ),
    HttpApiEndpoint.get("protectedResource", "/.well-known/oauth-protected-resource", {
      success: ProtectedResource,
      error: NotFound
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Whose tokens the gateway takes",
        description: "As RFC 9728 has it. 404 where the configuration names no identity provider."
      })
    ),
    HttpApiEndpoint.get("protectedMcp", "/.well-known/oauth-protected-resource/mcp", {
      success: ProtectedResource,
      error: NotFound
    }).annotate(OpenApi.Summary, "The same of the MCP server")
  )
  .annotate(OpenApi.Title, "Identity") {}
