import { Caller } from "@bowline/protocol/api/Authorization"
import { Effect } from "effect"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { Refused } from "./Refusals.ts"

/** Refuses every caller that the configuration does not name as an admin. */
export const only = Effect.map(GatewayConfig, ({ isAdmin }) =>
  Effect.flatMap(Caller, (caller) =>
    isAdmin(caller)
      ? Effect.void
      : Effect.fail(new Refused({ code: "forbidden", detail: `${caller} is not one of BOWLINE_ADMIN_CALLERS` }))
  )
)
