import { Effect } from "effect"
import { HttpClient } from "effect/http"
import { type Check, run } from "../../../src/cli/doctor/Finding.ts"
import { fromEnvironment, type GatewayConfig } from "../../../src/config/GatewayConfig.ts"
import * as Outbound from "../../../src/egress/Outbound.ts"

/** What the checks find in this process, as `state check: detail`, with the first advice. */
export const findings = Effect.fnUntraced(function* (
  environment: Readonly<Record<string, string>>,
  checks: (config: GatewayConfig["Service"], http: HttpClient.HttpClient) => ReadonlyArray<Check>
) {
  const config = yield* fromEnvironment({ BOWLINE_PORT: "0", ...environment }, false)
  const found = (yield* Effect.forEach(checks(config, yield* HttpClient.HttpClient), run)).flat()
  return {
    of: (name: string) => found.filter(({ check }) => check === name).map(({ detail, state }) => `${state} ${detail}`),
    advice: found.find(({ state }) => state !== "ok")?.advice ?? ""
  }
}, Effect.provide(Outbound.layer))
