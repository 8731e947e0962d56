import type { PeerError } from "@bowline/domain/peer/PeerError"
import { Effect } from "effect"
import type { TaskCall } from "./Tool.ts"

/**
 * Makes an attempt of a call, and another one each time that there is what it needs to act as the caller. Nothing was sent before, or the attempt goes on from the mark.
 * `expired`: nobody has come in time.
 */
export const withAccount = <A>(
  { awaitAccount, continues }: Pick<TaskCall, "awaitAccount" | "continues">,
  attempt: (mark: string | undefined) => Effect.Effect<A, PeerError>
): Effect.Effect<A | "expired", PeerError> => {
  const go = (mark: string | undefined): Effect.Effect<A | "expired", PeerError> =>
    Effect.catchTag(attempt(mark), "PeerError", (error) => {
      const { isTaken = false, reason } = error
      if (reason._tag !== "account_required" || (isTaken && reason.mark === undefined)) return Effect.fail(error)
      return Effect.flatMap(awaitAccount(reason), (isThere) =>
        isThere ? go(reason.mark) : Effect.succeed("expired" as const)
      )
    })
  return go(continues)
}
