import { NotFound } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Accounts } from "../http/ConnectedAccounts.ts"
import { answer } from "../http/Refusals.ts"

/** Shows callers where they have let the gateway act as them, and takes that back. */
export const layer = HttpApiBuilder.group(
  Api,
  "accounts",
  Effect.fnUntraced(function* (handlers) {
    const granted = yield* Accounts
    return handlers
      .handle("list", () =>
        Effect.gen(function* () {
          const grants = granted === undefined ? [] : yield* granted.list(yield* Caller)
          return {
            accounts: grants.map(({ account, connected_at, expires_at, scopes }) => ({
              name: account,
              connected_at: fromMillis(connected_at),
              scopes,
              expires_at: expires_at === null ? null : fromMillis(expires_at)
            }))
          }
        }).pipe(answer)
      )
      .handle("disconnect", ({ params: { name } }) =>
        Effect.gen(function* () {
          const isGone = granted !== undefined && (yield* granted.disconnect(yield* Caller, name))
          if (!isGone) return yield* new NotFound({ what: "account" })
        }).pipe(answer)
      )
  })
)
