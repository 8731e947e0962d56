import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { Clock, Duration, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { ownersOf } from "../http/BearerAuthorization.ts"
import { IsAdmin } from "../http/KnownCallers.ts"
import { answer } from "../http/Refusals.ts"

const longest = Duration.toMillis(Duration.days(7))
const usual = Duration.toMillis(Duration.days(1))

/** How long a stretch may be: whatever is asked for has 100 of them at most, and one more where it begins within one. */
const steps = ["15 seconds", "1 minute", "5 minutes", "15 minutes", "1 hour", "2 hours"] as const

/** The stretch of time that is asked for, in milliseconds. */
const windowOf = Effect.fnUntraced(function* (given: { readonly since?: string; readonly until?: string }) {
  const until = given.until === undefined ? yield* Clock.currentTimeMillis : Date.parse(given.until)
  const since = given.since === undefined ? until - usual : Date.parse(given.since)
  const length = until - since
  if (length <= 0 || length > longest) {
    const message = length <= 0 ? "Expected an instant before until" : "Expected an instant 7 days before until at most"
    return yield* new InvalidRequest({ issues: [{ path: ["since"], message }] })
  }
  const stepMs = steps.map((step) => Duration.toMillis(step)).find((step) => length <= 100 * step) ?? longest
  return { since: fromMillis(since), until: fromMillis(until), stepMs }
})

const usualDays = 30

/** The days that are asked for. */
const daysOf = Effect.fnUntraced(function* (given: { readonly from?: string; readonly to?: string }) {
  const to = given.to ?? fromMillis(yield* Clock.currentTimeMillis).slice(0, 10)
  const first = Date.parse(to) - Duration.toMillis(Duration.days(usualDays - 1))
  const from = given.from ?? fromMillis(Math.max(first, 0)).slice(0, 10)
  if (from <= to) return { from, to }
  return yield* new InvalidRequest({
    issues: [{ path: ["from"], message: `Expected a day that is not behind to, ${to}` }]
  })
})

/** Shows callers what has become of their plans and what those have used, and admins what has become of everybody's. */
export const layer = HttpApiBuilder.group(
  Api,
  "overview",
  Effect.fnUntraced(function* (handlers) {
    const store = yield* OverviewStore
    const findOwners = yield* ownersOf

    const ownerOf = Effect.fnUntraced(function* (named: string | undefined) {
      const isOfAll = named === undefined && (yield* IsAdmin)
      const owner = isOfAll ? undefined : yield* findOwners(named)
      return owner === undefined ? {} : { owner }
    })

    return handlers.handleAll({
      read: ({ query: { caller, ...given } }) =>
        Effect.gen(function* () {
          const query = yield* windowOf(given)
          return yield* store.read({ ...query, ...(yield* ownerOf(caller)) })
        }).pipe(answer),
      usage: ({ query: { by = "day", caller, ...given } }) =>
        Effect.gen(function* () {
          const days = yield* daysOf(given)
          return { rows: yield* store.spendings({ ...days, by, ...(yield* ownerOf(caller)) }) }
        }).pipe(answer)
    })
  })
)
