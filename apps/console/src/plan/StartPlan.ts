import { createBowline, type PlanRequest } from "@bowline/client"
import { useEffect, useMemo } from "preact/hooks"
import { fetchOwn, inWords } from "../gateway/Gateway.ts"
import { go } from "../route/Location.ts"
import { planHref } from "../route/Route.ts"

/**
 * Starts a plan and goes to its page, which reads it from there on. A gateway that does not answer is asked again, and `onCut` is told
 * why. Whoever leaves the page that asks is not taken away from where they are.
 */
export const useStart = (onCut: (why: string) => void): ((request: PlanRequest) => Promise<void>) => {
  const left = useMemo(() => new AbortController(), [])
  useEffect(() => () => left.abort(), [left])
  return async (request) => {
    const named = new AbortController()
    const bowline = createBowline({
      baseUrl: location.origin,
      fetch: fetchOwn,
      onEvent: (event) => {
        if (event.type === "cut") onCut(`${inWords(event.error)} It is asked again until it answers.`)
      }
    })
    try {
      const id = await bowline.plan(request, { signal: AbortSignal.any([left.signal, named.signal]) }).planId
      if (!left.signal.aborted) go(planHref(id))
    } finally {
      named.abort()
    }
  }
}
