import { Api } from "@bowline/protocol/api/Api"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { onlyAdmins } from "../http/BearerAuthorization.ts"
import { answer } from "../http/Refusals.ts"

/** Shows admins the state of credentials, and resets it. */
export const layer = HttpApiBuilder.group(
  Api,
  "credentials",
  Effect.fnUntraced(function* (handlers) {
    const pool = yield* CredentialPool
    const admitted = yield* onlyAdmins

    return handlers.handleAll({
      list: () =>
        admitted.pipe(
          Effect.andThen(pool.list),
          Effect.map((credentials) => ({ credentials })),
          answer
        ),
      clear: ({ params }) => admitted.pipe(Effect.andThen(pool.clear(params.id)), answer)
    })
  })
)
