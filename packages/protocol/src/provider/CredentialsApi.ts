import { Credential } from "@bowline/domain/unstable/provider/Credential"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Forbidden, Internal, NotFound, Unavailable } from "../api/Problem.ts"

const credential = Credential.annotate({ identifier: "Credential" })
const failures = [Forbidden, Unavailable, Internal] as const

export class CredentialsApi extends HttpApiGroup.make("credentials")
  .add(
    HttpApiEndpoint.get("list", "/credentials", {
      success: Schema.Struct({ credentials: Schema.Array(credential) }),
      error: failures
    }).annotateMerge(
      OpenApi.annotations({
        summary: "The credentials of the providers, and what binds them",
        description: "For callers marked `admin`. Never shows a key."
      })
    ),
    HttpApiEndpoint.post("clear", "/credentials/:id/clear", {
      params: { id: Schema.String.annotate({ description: "Such as `openai-1`" }) },
      success: credential,
      error: [NotFound, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Reset a credential: all its windows end",
        description: "For callers marked `admin`."
      })
    )
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Credentials") {}
