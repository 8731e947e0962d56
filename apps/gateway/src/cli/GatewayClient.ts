import type { Bowline, StreamEvent } from "@bowline/client"
import { createBowline } from "@bowline/client/files"
import { BowlineClient, BowlineError } from "@bowline/client/effect"
import { Effect, Queue, Redacted, Schedule } from "effect"
import { stat } from "node:fs/promises"
import * as ClientConfig from "./ClientConfig.ts"
import { Ended, failed, misconfigured, reasonOf } from "./Ended.ts"

/** As long as a plan that another process has taken over waits for a reader. */
const giveUpAfter = "1 minute"
const backoff = Schedule.spaced("500 millis")

export type GatewayClient = Effect.Success<typeof make>

/** The client of the gateway that the environment names. `streamEvents` has what happens to its streams. */
export const make = Effect.gen(function* () {
  const { url, apiKey } = yield* Effect.mapError(ClientConfig.fromProcess, ({ problems }) => misconfigured(problems))
  const streamEvents = yield* Queue.unbounded<StreamEvent>()
  const client = yield* BowlineClient.make({
    baseUrl: url,
    apiKey,
    giveUpAfter,
    // Who sits before a terminal asks again as well.
    maxRetries: 0,
    schedule: backoff,
    onEvent: (event) => void Queue.offerUnsafe(streamEvents, event)
  })
  const { files } = createBowline({ baseUrl: url, apiKey: apiKey && Redacted.value(apiKey) })
  return { url, client, files, streamEvents }
})

/** A refusal of the gateway, and not of something else at its address. */
const isRefusal = ({ data, status }: BowlineError): boolean =>
  status !== undefined && data !== undefined && "code" in data

const formatRefusal = ({ code, issues, message, retryable }: BowlineError): string => {
  const said = issues === undefined ? message : issues.map(({ path, message }) => `${path}: ${message}`).join("; ")
  if (code === "unauthorized") return `${code}: ${said}. Set BOWLINE_API_KEY to one of the gateway's keys`
  return retryable ? `${code}: ${said}. Try again later` : `${code}: ${said}`
}

export const neverBegun = failed(
  "The stream broke before its first event, each time. Try again later; bowline plans says whether the plan runs"
)

/** Why the gateway at this URL has not answered, and what to do about it. */
export const explain = (url: string, error: BowlineError | Ended): Ended => {
  if (error instanceof Ended) return error
  if (isRefusal(error)) return failed(formatRefusal(error))
  if (["network", "timeout", "unreachable"].includes(error.code)) {
    return failed(
      `Cannot reach ${url}: ${reasonOf(error)}. Start a gateway with \`bowline serve\`, or name another one with BOWLINE_URL`
    )
  }
  if (error.code === "incomplete") {
    if (error.planId === undefined) return neverBegun
    return failed(`The stream broke, and could not be resumed. Try again later: bowline tail ${error.planId}`)
  }
  return failed(`What answers at ${url} is not a gateway of this version. Name a gateway with BOWLINE_URL`)
}

/** Stores the file of this path. */
export const upload = ({ files, url }: GatewayClient, path: string) =>
  Effect.tryPromise({
    try: async (signal) => {
      // A folder can be opened, and fails when it is sent.
      if (!(await stat(path)).isFile()) throw new Error("it is not a file")
      return files.upload(path, { signal })
    },
    catch: (error) => {
      if (!(error instanceof BowlineError)) return failed(`Cannot read ${path}: ${reasonOf(error)}`)
      const { code, lines } = explain(url, error)
      return new Ended({ code, lines: isRefusal(error) ? lines.map((line) => `${path}: ${line}`) : lines })
    }
  })

/** Asks the gateway that the environment names. */
export const request = <A>(ask: (bowline: Bowline, options: { readonly signal: AbortSignal }) => Promise<A>) =>
  Effect.scoped(
    Effect.flatMap(make, ({ client, url }) =>
      client.use((bowline, signal) => ask(bowline, { signal })).pipe(Effect.mapError((error) => explain(url, error)))
    )
  )
