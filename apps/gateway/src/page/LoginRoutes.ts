import { Api } from "@bowline/protocol/api/Api"
import { LoginRequest } from "@bowline/protocol/unstable/console/LoginApi"
import { Effect, Option } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { KnownCallers } from "../http/KnownCallers.ts"
import * as CallerRate from "../http/CallerRate.ts"
import * as Logins from "../http/Logins.ts"
import { answer, Refused } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

/** Logs people in to the console, and out again. */
export const layer = HttpApiBuilder.group(
  Api,
  "login",
  Effect.fnUntraced(function* (handlers) {
    const { consoleEnabled, maxBody } = yield* GatewayConfig
    const callers = yield* KnownCallers
    const logins = yield* Logins.make
    const withinRate = yield* CallerRate.make
    const readLogin = readJson(LoginRequest, maxBody)
    const expectConsole = consoleEnabled
      ? Effect.void
      : Effect.fail(new Refused({ code: "not_found", detail: "The console is off: console.enabled is false" }))

    const admit = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const { key } = yield* readLogin(request)
      if (callers.isOpen) {
        return yield* new Refused({ code: "not_found", detail: "The gateway has no keys: nobody needs to log in" })
      }
      const caller = yield* callers.find(key)
      if (Option.isSome(caller)) return { caller: caller.value, key }
      return yield* new Refused({ code: "unauthorized", detail: "The gateway does not know this key" })
    })

    return handlers
      .handleRaw("begin", ({ request }) =>
        expectConsole.pipe(
          Effect.andThen(admit(request)),
          Effect.flatMap(({ caller, key }) => withinRate(caller.name, logins.begin(caller, key))),
          answer
        )
      )
      .handleRaw("end", () => expectConsole.pipe(Effect.andThen(logins.end), answer))
  })
)
