import { Api } from "@bowline/protocol/api/Api"
import { CredentialPool } from "@bowline/runtime/provider/CredentialPool"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { onlyAdmins } from "./Admins.ts"
import { answer } from "./Refusals.ts"

/** The state of credentials, for callers that are admins. */
export const layer = HttpApiBuilder.group(
  Api,
  "credentials",
  Effect.fnUntraced(function* (handlers) {
    const pool = yield* CredentialPool
    const isAdmin = yield* onlyAdmins

    return handlers.handleAll({
      list: () =>
        isAdmin.pipe(
          Effect.andThen(pool.list),
          Effect.map((credentials) => ({ credentials })),
          answer
        ),
      clear: ({ params }) => isAdmin.pipe(Effect.andThen(pool.clear(params.id)), answer)
    })
  })
)
