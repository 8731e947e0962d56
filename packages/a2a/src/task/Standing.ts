import type { PeerResult } from "@bowline/runtime/remote/PeerClient"

/**
 * What a state of a remote task means for the call that waits.
 *
 * - `ended`: the peer is done with it.
 * - `handed-back`: the peer waits for the caller. The remote task stays open for the next plan of the session.
 * - `authorizing`: somebody has to authorize the peer somewhere else. The call waits for that, but not for long.
 * - `working`: every other state, known or not.
 */
export type Standing =
  | { readonly _tag: "ended" | "handed-back" | "authorizing"; readonly state: PeerResult["state"] }
  | { readonly _tag: "working" }

const working: Standing = { _tag: "working" }

export const standingOf = (state: string): Standing => {
  switch (state) {
    case "completed":
    case "failed":
    case "canceled":
    case "rejected":
      return { _tag: "ended", state }
    case "input-required":
    case "payment-required":
    case "trust-verification-required":
      return { _tag: "handed-back", state }
    case "auth-required":
      return { _tag: "authorizing", state }
    default:
      return working
  }
}
