import { Api } from "@bowline/protocol/api/Api"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Admins from "../http/Admins.ts"
import { answer } from "../http/Refusals.ts"

/** The state of credentials, for callers that are admins. */
export const layer = HttpApiBuilder.group(
  Api,
  "credentials",
  Effect.fnUntraced(function* (handlers) {
    const pool = yield* CredentialPool
    const onlyAdmins = yield* Admins.only

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
