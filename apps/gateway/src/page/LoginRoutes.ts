import { Api } from "@bowline/protocol/api/Api"
import { LoginRequest } from "@bowline/protocol/unstable/console/LoginApi"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import { Clock, Duration, Effect, Option } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import * as CallerRate from "../http/CallerRate.ts"
import * as KnownCallers from "../http/KnownCallers.ts"
import * as Logins from "../http/Logins.ts"
import { answer, Refused } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

/** How many wrong keys an address may send in a minute. Then the right key does not count either: whoever guesses learns nothing. */
const maxWrong = 5
const window = Duration.toMillis("1 minute")

/** Of how many addresses the wrong keys are counted. */
const maxAddresses = 10_000

/** The wrong keys of an address, and when they are forgotten. This process counts its own: replicas do not share them. */
const makeGuesses = () => {
  const guesses = new LruCache<string, { readonly wrong: number; readonly until: number }>(maxAddresses)
  const current = (address: string, now: number) => {
    const found = guesses.get(address)
    return found !== undefined && found.until > now ? found : { wrong: 0, until: now + window }
  }
  return {
    /** Milliseconds until the address may try again: 0 if it may now. */
    wait: (address: string, now: number): number => {
      const { until, wrong } = current(address, now)
      return wrong < maxWrong ? 0 : until - now
    },
    count: (address: string, now: number): void => {
      const { until, wrong } = current(address, now)
      guesses.set(address, { wrong: wrong + 1, until })
    }
  }
}

/** Logs people in to the console, and out again. */
export const layer = HttpApiBuilder.group(
  Api,
  "login",
  Effect.fnUntraced(function* (handlers) {
    const { consoleEnabled, maxBody } = yield* GatewayConfig
    const known = yield* KnownCallers.all
    const logins = yield* Logins.make
    const withinRate = yield* CallerRate.make
    const readLogin = readJson(LoginRequest, maxBody)
    const guesses = makeGuesses()
    const expectConsole = consoleEnabled
      ? Effect.void
      : Effect.fail(new Refused({ code: "not_found", detail: "The console is off: console.enabled is false" }))

    const admit = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const { key } = yield* readLogin(request)
      if (known.length === 0) {
        return yield* new Refused({ code: "not_found", detail: "The gateway has no keys: nobody needs to log in" })
      }
      const now = yield* Clock.currentTimeMillis
      const address = Option.getOrElse(request.remoteAddress, () => "")
      const wait = guesses.wait(address, now)
      if (wait > 0) {
        return yield* new Refused({
          code: "rate_limited",
          detail: `${maxWrong} wrong keys came from your address within a minute`,
          headers: { "retry-after": String(Math.ceil(wait / 1_000)) }
        })
      }
      const caller = KnownCallers.find(known, key)
      if (caller !== undefined) return caller
      guesses.count(address, now)
      return yield* new Refused({ code: "unauthorized", detail: "The gateway does not know this key" })
    })

    return handlers
      .handleRaw("begin", ({ request }) =>
        expectConsole.pipe(
          Effect.andThen(admit(request)),
          Effect.flatMap((caller) => withinRate(caller.name, logins.begin(caller))),
          answer
        )
      )
      .handleRaw("end", () => expectConsole.pipe(Effect.andThen(logins.end), answer))
  })
)
