import { Api } from "@bowline/protocol/api/Api"
import { Effect, Option } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { Accounts, type Link } from "../http/ConnectedAccounts.ts"
import * as Logins from "../http/Logins.ts"
import { baseOf } from "../http/ProtectedResource.ts"
import { answer, Refused } from "../http/Refusals.ts"
import * as AccountPages from "./AccountPages.ts"

const noAccounts = new Refused({ code: "not_found", detail: "The configuration has no accounts" })

const notAwaited = new Refused({
  code: "not_found",
  detail: "The plan does not wait for this account any more: there is nothing to grant"
})

const used = new Refused({
  code: "forbidden",
  detail:
    "This link was used, or is older than 10 minutes. Log in to the console as the caller of the plan, and open it again"
})

/** Leads people to the authorization servers of accounts, and back. */
export const layer = HttpApiBuilder.group(
  Api,
  "connect",
  Effect.fnUntraced(function* (handlers) {
    const { a2a } = yield* GatewayConfig
    const accounts = yield* Accounts
    const logins = yield* Logins.make
    const expectAccounts = accounts === undefined ? Effect.fail(noAccounts) : Effect.succeed(accounts)

    /** Whether the browser is logged in to the console as the caller. Somebody else is refused. */
    const isCaller = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, { caller }: Link) {
      const login = yield* logins.callerOf(request)
      if (Option.isSome(login) && login.value.name !== caller) {
        return yield* new Refused({
          code: "forbidden",
          detail: `The link is for the caller ${caller}, and you are logged in to the console as ${login.value.name}`
        })
      }
      return Option.isSome(login)
    })

    /** Takes what a browser has come back with, to the place of a server that was found or to that of the others. */
    const arrived = (request: HttpServerRequest.HttpServerRequest, place?: string) =>
      Effect.gen(function* () {
        const { arrive, openKept, use } = yield* expectAccounts
        const { drop, kept } = yield* logins.wayTo("account")
        const arriving = Effect.gen(function* () {
          const way = yield* openKept(kept)
          yield* isCaller(request, way)
          if (!(yield* use(way))) return yield* used
          const { search } = new URL(request.url, "http://localhost")
          yield* arrive(way, { base: baseOf(a2a.publicUrl, request), place, search })
          return AccountPages.connected(way)
        })
        return drop(yield* answer(arriving))
      }).pipe(answer)

    const described = (request: HttpServerRequest.HttpServerRequest, place?: string) =>
      Effect.map(expectAccounts, ({ describe }) =>
        HttpServerResponse.jsonUnsafe(describe(baseOf(a2a.publicUrl, request), place), {
          headers: { "cache-control": "max-age=300" }
        })
      ).pipe(answer)

    return handlers
      .handleRaw("confirm", ({ query: { link: text }, request }) =>
        Effect.gen(function* () {
          const { isAwaited, open } = yield* expectAccounts
          const link = yield* open(text)
          yield* isCaller(request, link)
          if (!(yield* isAwaited(link))) return yield* notAwaited
          return AccountPages.confirmation(link, text)
        }).pipe(answer)
      )
      .handleRaw("depart", ({ query: { link: text }, request }) =>
        Effect.gen(function* () {
          const { depart, isAwaited, open, use } = yield* expectAccounts
          const link = yield* open(text)
          const isTheirs = yield* isCaller(request, link)
          if (!(yield* isAwaited(link))) return yield* notAwaited
          if (!(yield* use(link)) && !isTheirs) return yield* used
          const { kept, url } = yield* depart(link, baseOf(a2a.publicUrl, request))
          const headers = { location: String(url), "cache-control": "no-store", "referrer-policy": "no-referrer" }
          return (yield* logins.wayTo("account")).keep(HttpServerResponse.empty({ status: 303, headers }), kept)
        }).pipe(answer)
      )
      .handleRaw("arrive", ({ request }) => arrived(request))
      .handleRaw("arriveFrom", ({ params: { server }, request }) => arrived(request, server))
      .handleRaw("client", ({ request }) => described(request))
      .handleRaw("clientOf", ({ params: { server }, request }) => described(request, server))
  })
)
