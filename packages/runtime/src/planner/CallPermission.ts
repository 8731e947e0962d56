import type { CallerName } from "@bowline/domain/caller/CallerName"
import { allowsTool, type Permissions } from "../config/Permissions.ts"
import { permissionOf, type PlanOfCaller } from "../config/Presets.ts"
import type { Prepared } from "./PreparedCalls.ts"

const messageOf = ({ _tag, part }: Prepared, caller: CallerName): string => {
  const why = `${caller} may not use ${part.tool} any more`
  return _tag === "Begun"
    ? `${why}. The call was begun before, and is not continued: whether it had an effect is unknown.`
    : `The call was not made: ${why}.`
}

/**
 * Refuses a call that the plan's caller may not make. The model was offered the tool, so it was allowed then: an operator has
 * changed the permissions since, or another process, with other permissions, has begun the plan.
 */
export const permitted = (permissions: typeof Permissions.Service, plan: PlanOfCaller, call: Prepared): Prepared => {
  if (call._tag === "Refused" || allowsTool(permissionOf(permissions, plan), call.tool)) return call
  const { input, part, tool } = call
  return { _tag: "Refused", part, tool, state: "rejected", input, message: messageOf(call, plan.caller) }
}
