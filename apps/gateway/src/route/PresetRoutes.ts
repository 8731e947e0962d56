import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { defaultPreset, type Preset } from "@bowline/runtime/unstable/config/Presets"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"

/** Whether callers are told of the preset: there is always a default one. */
export const isWorthListing = ({ agents, name, servers }: Preset) =>
  name !== defaultPreset || agents.length > 0 || servers.length > 0

/** Shows callers the presets that they may use. */
export const layer = HttpApiBuilder.group(
  Api,
  "presets",
  Effect.fnUntraced(function* (handlers) {
    const plans = yield* Plans
    const { model } = (yield* GatewayConfig).plans

    return handlers.handleAll({
      list: () =>
        Effect.map(Effect.flatMap(Caller, plans.presets), (presets) => ({
          presets: presets.filter(isWorthListing).map(({ agents, description, name, preferences, servers }) => ({
            name,
            description,
            agents: agents.map(({ name }) => name),
            mcp_servers: servers.map(({ terms }) => terms.name),
            model: preferences.model ?? model
          }))
        }))
    })
  })
)
