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
    )
  )
  .annotate(OpenApi.Title, "Identity") {}
