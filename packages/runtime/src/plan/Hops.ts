import { HopsExceeded } from "@bowline/domain/plan/Refusal"
import { Context, References } from "effect"
import type { Route } from "../remote/PeerClient.ts"
import * as TraceContext from "../telemetry/TraceContext.ts"

/** Why a plan with this route is refused: it has come through too many gateways, or through this one before. Undefined if it is not. */
export const refusal = (came: Route, gateway: string, maxHops: number): HopsExceeded | undefined => {
  if (came.via.includes(gateway)) return new HopsExceeded({ message: "The plan has come back to this gateway" })
  if (came.hops <= maxHops) return undefined
  return new HopsExceeded({ message: `The plan has come too far: hops ${came.hops}, max_hops ${maxHops}` })
}

/** Where a plan comes from that a fiber with this context starts: every process that runs it says so in its log and its traces. */
export const originOf = (context: Context.Context<never>): Pick<Route, "trace" | "request_id"> => {
  const trace = TraceContext.of(context)
  const { request_id } = Context.get(context, References.CurrentLogAnnotations)
  return { ...(trace !== undefined && { trace }), ...(typeof request_id === "string" && { request_id }) }
}

/** The route of the requests that this gateway sends for the plan. */
export const onward = (came: Route, gateway: string, origin: ReturnType<typeof originOf> = {}): Route => ({
  hops: came.hops + 1,
  via: [...came.via, gateway],
  ...origin
})
