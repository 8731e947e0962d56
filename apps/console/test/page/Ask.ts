import { createBowline, type PlanRequest } from "@bowline/client"

/** Starts a plan over the API, as any caller would, and leaves it running. */
export const ask = async (url: string, request: PlanRequest): Promise<string> => {
  const leaving = new AbortController()
  const asked = { ...request, preferences: { ...request.preferences, on_disconnect: "continue" as const } }
  try {
    return await createBowline({ baseUrl: url }).plan(asked, { signal: leaving.signal }).planId
  } finally {
    leaving.abort()
  }
}
