import { Context } from "effect"

/** What this gateway is called where plans come through several of them: one id for all replicas that share a store. */
export class GatewayId extends Context.Service<GatewayId, string>()("@bowline/runtime/config/GatewayId") {}
