import { HopsExceeded } from "@bowline/domain/plan/Refusal"
import type { Route } from "../peer/PeerClient.ts"

/** Why a plan with this route is refused: it has come through too many gateways, or through this one before. Undefined if it is not. */
export const refusal = (came: Route, gateway: string, maxHops: number): HopsExceeded | undefined => {
  if (came.via.includes(gateway)) return new HopsExceeded({ message: "The plan has come back to this gateway" })
  if (came.hops <= maxHops) return undefined
  return new HopsExceeded({ message: `The plan has come too far: hops ${came.hops}, max_hops ${maxHops}` })
}

/** The route of the requests that this gateway sends for the plan. */
export const onward = (came: Route, gateway: string, trace?: Route["trace"]): Route => ({
  hops: came.hops + 1,
  via: [...came.via, gateway],
  ...(trace !== undefined && { trace })
})
