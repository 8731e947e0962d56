import type { PlanRequest } from "@bowline/client"
import { bowline } from "../gateway/Gateway.ts"
import { go } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"

/** Starts a plan and goes to its page, which reads it from there on. */
export const start = async (request: PlanRequest): Promise<void> => {
  const leaving = new AbortController()
  try {
    const id = await bowline.plan(request, { signal: leaving.signal }).planId
    go(planHref(id))
  } finally {
    leaving.abort()
  }
}
