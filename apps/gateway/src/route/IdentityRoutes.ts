import { documentOf } from "@bowline/a2a/identity/BinduIdentity"
import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
import { Api } from "@bowline/protocol/api/Api"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { answer, Refused } from "../http/Refusals.ts"

const none = new Refused({ code: "not_found", detail: "The gateway has no identity" })

/** Shows everybody the document of the gateway's DID. */
export const layer = HttpApiBuilder.group(
  Api,
  "identity",
  Effect.fnUntraced(function* (handlers) {
    const identity = yield* GatewayIdentity
    const document = Effect.fromOption(identity).pipe(
      Effect.mapBoth({ onFailure: () => none, onSuccess: documentOf }),
      answer
    )
    return handlers.handleAll({ didDocument: () => document })
  })
)
