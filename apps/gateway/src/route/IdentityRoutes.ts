import { documentOf } from "@bowline/a2a/identity/BinduIdentity"
import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
import { Api } from "@bowline/protocol/api/Api"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import * as ProtectedResource from "../http/ProtectedResource.ts"
import { answer, Refused } from "../http/Refusals.ts"

const none = new Refused({ code: "not_found", detail: "The gateway has no identity" })

const noIssuer = new Refused({
  code: "not_found",
  detail: "The gateway takes no tokens: auth.jwt names no identity provider"
})

/** Shows everybody the document of the gateway's DID, and whose tokens it takes. */
export const layer = HttpApiBuilder.group(
  Api,
  "identity",
  Effect.fnUntraced(function* (handlers) {
    const identity = yield* GatewayIdentity
    const document = Effect.fromOption(identity).pipe(
      Effect.mapBoth({ onFailure: () => none, onSuccess: documentOf }),
      answer
    )
    const { issuers } = yield* GatewayConfig
    const { metadata } = yield* ProtectedResource.make
    const describe = (path: string) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
        issuers.length === 0 ? Effect.fail(noIssuer) : Effect.succeed(metadata(request, path))
      ).pipe(answer)
    return handlers.handleAll({
      didDocument: () => document,
      protectedResource: () => describe(""),
      protectedMcp: () => describe("/mcp")
    })
  })
)
