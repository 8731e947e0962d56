import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Options } from "@bowline/testing/simulation/Simulation"
import type { Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { aftermath } from "@bowline/testing/unstable/simulation/Fitness"
import { Duration, Effect } from "effect"
import { isExplained } from "./BrokenOff.ts"
import type { Wire } from "./MemoryServer.ts"

type Rule = NonNullable<Options["rules"]>[string]

/** So many requests in this time. */
export type Rate = readonly [requests: number, window: Duration.Duration]

/** What the head of an answer says about the caller's rate; undefined where it says nothing. */
interface Counted {
  readonly limit: number
  readonly remaining: number
  readonly resetS: number
}

/** A request with the key of a caller, and the head of its answer. Times are milliseconds of virtual time. */
export interface KeyedRequest {
  readonly caller: CallerName
  readonly replica: string
  readonly rate: Rate
  readonly at: number
  answer:
    | {
        readonly at: number
        readonly status: number
        /** It is refused for its rate. The answer to a plan that its provider refused for one names the plan. */
        readonly isLimited: boolean
        readonly counted: Counted | undefined
        readonly retryAfterS: number | undefined
      }
    | undefined
}

/** The wire with the key of a caller, on which every request is noted. */
export const onWire = (
  { process, world }: Site,
  wire: Wire["Service"],
  all: Array<KeyedRequest>,
  { key, name, rate }: { readonly name: CallerName; readonly key: string; readonly rate: Rate }
): Wire["Service"] => ({
  ask: Effect.fnUntraced(function* (options, body) {
    const request: KeyedRequest = { caller: name, replica: process.name, rate, at: world.now, answer: undefined }
    all.push(request)
    const headers = { ...options.headers, authorization: `Bearer ${key}` }
    const answer = yield* wire.ask({ ...options, headers }, body)
    const numberOf = (header: string) => Number(answer.headers[header])
    request.answer = {
      at: world.now,
      status: answer.statusCode ?? 0,
      isLimited: answer.statusCode === 429 && answer.headers["x-bowline-plan-id"] === undefined,
      counted:
        answer.headers["ratelimit-limit"] === undefined
          ? undefined
          : {
              limit: numberOf("ratelimit-limit"),
              remaining: numberOf("ratelimit-remaining"),
              resetS: numberOf("ratelimit-reset")
            },
      retryAfterS: answer.headers["retry-after"] === undefined ? undefined : numberOf("retry-after")
    }
    return answer
  })
})

/** How soon a request is counted, or let pass without, in milliseconds. */
const countedWithin = 1_000

const isWhole = (seconds: number | undefined, atMost: number): boolean =>
  seconds !== undefined && Number.isInteger(seconds) && seconds >= 1 && seconds <= Math.ceil(atMost)

/** What is wrong with one answer by itself, and with the requests that had come before it. */
const wrongIn = (
  observed: Parameters<Rule>[0],
  all: ReadonlyArray<KeyedRequest>,
  { answer, at, caller, rate: [limit, window], replica }: KeyedRequest
): string | undefined => {
  if (answer === undefined) return undefined
  const { counted, isLimited, retryAfterS, status } = answer
  if (status === 401) return "is not known"
  // While the store does not answer, nobody is refused.
  if (counted === undefined) {
    // A replica that shuts down answers 503 to all, and counts nobody any more.
    const isDrained = status === 503 && isExplained(observed, { code: "draining", replica, at: answer.at })
    // It is counted as it comes; the head of an answer that is no stream comes with its end.
    const isAway = [at + countedWithin, answer.at].some((at) => isExplained(observed, { code: "", replica, at }))
    return isDrained || isAway ? undefined : "is not told its rate"
  }
  const seconds = Duration.toSeconds(window)
  if (counted.limit !== limit || counted.remaining < 0 || counted.remaining >= limit) return "is told another rate"
  if (!isWhole(counted.resetS, seconds)) return `may come again in ${counted.resetS} s`
  if (!isLimited) return undefined
  if (counted.remaining !== 0 || !isWhole(retryAfterS, seconds)) return `is refused for ${retryAfterS} s`
  // A request may have waited for a replica or the store.
  const from = at - Duration.toMillis(window) - aftermath(observed)
  const before = all.filter((one) => one.caller === caller && one.at >= from && one.at <= answer.at)
  return before.length > limit ? undefined : `is refused, and has asked ${before.length} times`
}

/** A caller has one count over all replicas, of its own requests: it only falls until it begins anew, at the time that the caller was told. */
export const rule =
  (requests: Array<KeyedRequest>): Rule =>
  (observed) => {
    // The next run begins with none.
    const all = requests.splice(0)
    const wrong = all.flatMap((request) => {
      const what = wrongIn(observed, all, request)
      return what === undefined ? [] : [`${request.caller} ${what} by ${request.replica} at ${request.at} ms`]
    })
    const admitted = all.flatMap(({ answer, ...request }) =>
      answer?.counted === undefined || answer.isLimited ? [] : [{ ...request, ...answer.counted, end: answer.at }]
    )
    const doubled = admitted.flatMap((one) => {
      // As seconds were rounded up.
      const renewed = one.at + (one.resetS - 1) * 1_000
      const again = admitted.find(
        ({ at, caller, end, remaining }) =>
          caller === one.caller && at > one.end && end < renewed && remaining >= one.remaining
      )
      return again === undefined
        ? []
        : [
            `${one.caller} has ${one.remaining} requests left at ${one.replica}, and ${again.remaining} at ${again.replica} behind it`
          ]
    })
    return [...wrong, ...doubled]
  }
