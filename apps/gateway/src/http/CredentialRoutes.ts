import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/api/Authorization"
import { CredentialPool } from "@bowline/runtime/provider/CredentialPool"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { answer, Refused } from "./Refusals.ts"

/** The state of credentials, for callers that are admins. */
export const layer = HttpApiBuilder.group(
  Api,
  "credentials",
  Effect.fnUntraced(function* (handlers) {
    const pool = yield* CredentialPool
    const { isAdmin } = yield* GatewayConfig

    const onlyAdmins = Effect.flatMap(Caller, (caller) =>
      isAdmin(caller)
        ? Effect.void
        : Effect.fail(new Refused({ code: "forbidden", detail: `${caller} is not one of BOWLINE_ADMIN_CALLERS` }))
    )

    return handlers.handleAll({
      list: () =>
        onlyAdmins.pipe(
          Effect.andThen(pool.list),
          Effect.map((credentials) => ({ credentials })),
          answer
        ),
      clear: ({ params }) => onlyAdmins.pipe(Effect.andThen(pool.clear(params.id)), answer)
    })
  })
)
