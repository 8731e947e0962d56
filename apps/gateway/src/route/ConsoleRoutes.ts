import { Api, version } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { IsAdmin } from "../http/KnownCallers.ts"
import { isWorthListing } from "./PresetRoutes.ts"

/** Tells the web console about the gateway, and about the person who looks at it. */
export const layer = HttpApiBuilder.group(
  Api,
  "console",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const { telemetry } = yield* GatewayConfig

    return handlers.handleAll({
      config: Effect.fnUntraced(function* () {
        const caller = yield* Caller
        const presets = yield* plans.presets(caller)
        return {
          version,
          caller,
          admin: yield* IsAdmin,
          trace_url: telemetry.traceUrl ?? null,
          presets: presets.some(isWorthListing),
          // Any request may ask for them, with `preferences.approval`.
          approvals: true
        }
      })
    })
  })
)
