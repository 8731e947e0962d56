import { Api } from "@bowline/protocol/api/Api"
import { LoginRequest } from "@bowline/protocol/unstable/console/LoginApi"
import { Effect, Option } from "effect"
import { HttpBody, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { KnownCallers } from "../http/KnownCallers.ts"
import * as CallerRate from "../http/CallerRate.ts"
import * as Logins from "../http/Logins.ts"
import { OidcLogin } from "../http/OidcLogin.ts"
import { baseOf } from "../http/ProtectedResource.ts"
import { answer, Refused } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

const noProvider = new Refused({
  code: "not_found",
  detail: "The configuration has no console.oidc: log in with a key"
})

const notBegun = new Refused({
  code: "unauthorized",
  detail: "This browser has not begun a login, or it took more than 10 minutes: log in again"
})

const seeOther = (location: string) =>
  HttpServerResponse.empty({ status: 303, headers: { location, "cache-control": "no-store" } })

/** Logs people in to the console, and out again. */
export const layer = HttpApiBuilder.group(
  Api,
  "login",
  Effect.fnUntraced(function* (handlers) {
    const {
      a2a: { publicUrl },
      consoleEnabled,
      maxBody
    } = yield* GatewayConfig
    const callers = yield* KnownCallers
    const logins = yield* Logins.make
    const withinRate = yield* CallerRate.make
    const provider = yield* OidcLogin
    const readLogin = readJson(LoginRequest, maxBody)
    const expectConsole = consoleEnabled
      ? Effect.void
      : Effect.fail(new Refused({ code: "not_found", detail: "The console is off: console.enabled is false" }))

    const expectProvider = Effect.andThen(
      expectConsole,
      Effect.fromOption(provider).pipe(Effect.mapError(() => noProvider))
    )

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
          Effect.flatMap(({ caller, key }) => withinRate(caller.name, logins.begin(caller, { key }))),
          answer
        )
      )
      .handleRaw("depart", ({ request }) =>
        Effect.gen(function* () {
          const { begin } = yield* expectProvider
          const { keep } = yield* logins.wayTo("login")
          const secret = Logins.newSecret()
          return keep(seeOther(String(yield* begin(baseOf(publicUrl, request), secret))), secret)
        }).pipe(answer)
      )
      .handleRaw("arrive", ({ request }) =>
        Effect.gen(function* () {
          const { finish } = yield* expectProvider
          const { drop, kept: secret } = yield* logins.wayTo("login")
          const arrived = Effect.gen(function* () {
            if (secret === undefined) return yield* notBegun
            const at = new URL(`${baseOf(publicUrl, request)}${request.url}`)
            const { groups, issuer, ...known } = yield* finish(at, secret)
            const caller = { ...known, asker: {}, issuer }
            const begun = yield* withinRate(known.name, logins.begin(caller, { oidc: { ...known, groups, issuer } }))
            return begun.status >= 400
              ? begun
              : HttpServerResponse.setHeader(HttpServerResponse.setStatus(begun, 303), "location", "/")
          })
          return drop(yield* answer(arrived))
        }).pipe(answer)
      )
      .handleRaw("end", ({ request }) =>
        Effect.gen(function* () {
          yield* expectConsole
          const caller = yield* logins.callerOf(request)
          const ended = yield* logins.end
          if (Option.isNone(provider) || Option.isNone(caller) || caller.value.issuer === undefined) return ended
          const url = yield* provider.value.endUrl(baseOf(publicUrl, request))
          if (Option.isNone(url)) return ended
          const body = HttpBody.jsonUnsafe({ end_session_url: String(url.value) })
          return HttpServerResponse.setBody(HttpServerResponse.setStatus(ended, 200), body)
        }).pipe(answer)
      )
  })
)
