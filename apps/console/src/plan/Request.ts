import type { PlanRequest } from "@bowline/client"

/** A request whose plan runs on when the tab is closed: whoever opens it again sees how it went. */
export const surviving = (request: PlanRequest): PlanRequest => ({
  ...request,
  preferences: { ...request.preferences, on_disconnect: "continue" }
})

/** A word that a POSIX shell takes as it is. */
const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

/** A command that asks the same again. The key is a variable: a page does not know it. */
export const curl = (origin: string, request: unknown, needsKey: boolean): string =>
  [
    `curl -N ${quoted(`${origin}/plan`)}`,
    ...(needsKey ? [`-H "Authorization: Bearer $BOWLINE_API_KEY"`] : []),
    `-H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify(request))}`
  ].join(" \\\n  ")
