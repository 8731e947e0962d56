import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanSummary } from "@bowline/domain/plan/Plan"
import { InvalidRequest, NotFound } from "@bowline/domain/plan/Refusal"
import { type IssuedKey, KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Instant } from "@bowline/protocol/unstable/api/PageQuery"
import { NewKey } from "@bowline/protocol/unstable/key/KeysApi"
import { type Page, type PageRequest, Plans } from "@bowline/runtime/plan/Plans"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { Clock, Duration, Effect, Option, Redacted, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { duration } from "../config/setting/SettingText.ts"
import { onlyAdmins } from "../http/BearerAuthorization.ts"
import { keptFor, KnownCallers, newKey, storedDigest } from "../http/KnownCallers.ts"
import { answer } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

const isKeyId = Schema.is(KeyId)
const readDuration = Schema.decodeUnknownOption(duration("1s"))
const readInstant = Schema.decodeUnknownOption(Instant)

const invalid = (field: string, message: string) => new InvalidRequest({ issues: [{ path: [field], message }] })

/** Until when a key is good, in milliseconds: none is good for longer than a date can say. */
const untilOf = Effect.fnUntraced(function* (expires: string, now: number) {
  const until = Option.match(readDuration(expires), {
    onNone: () => Option.map(readInstant(expires), Date.parse),
    onSome: (time) => Option.some(now + Duration.toMillis(time))
  })
  return yield* Effect.fromOption(Option.filter(until, (time) => time > now)).pipe(
    Effect.mapError(() => invalid("expires", "Expected a duration such as 90d or 12h, or an instant that is to come"))
  )
})

const openStates = ["queued", "running", "waiting"] as const

/** How many plans are looked up, and ended, at once. */
const endedAtOnce = 50

/** Lets admins make keys, look at them, and revoke them. */
export const layer = HttpApiBuilder.group(
  Api,
  "keys",
  Effect.fnUntraced(function* (handlers) {
    const { callerKeys, maxBody } = yield* GatewayConfig
    const store = yield* KeyStore
    const notices = yield* Notices
    const callers = yield* KnownCallers
    const plans = yield* Plans
    const uuid = yield* UuidGenerator
    const admitted = yield* onlyAdmins
    const readKey = readJson(NewKey, maxBody)
    const taken = new Set<string>([anonymous, ...callerKeys.map(({ name }) => name)])

    /** Ends the plans that were started with the key. */
    const endPlans = Effect.fnUntraced(function* ({ key_id, name }: IssuedKey) {
      for (let page: PageRequest | undefined = { limit: endedAtOnce }; page !== undefined;) {
        const { items, next }: Page<PlanSummary> = yield* plans.list(name, { key_id, states: openStates }, page)
        yield* Effect.forEach(items, ({ plan_id }) => plans.cancel(name, plan_id), {
          concurrency: "unbounded",
          discard: true
        })
        page = next === null ? undefined : { limit: endedAtOnce, cursor: next }
      }
    })

    return handlers
      .handleRaw("add", ({ request }) =>
        Effect.gen(function* () {
          yield* admitted
          const { admin = false, expires, name, note } = yield* readKey(request)
          if (taken.has(name)) {
            return yield* invalid("name", "Expected another name than that of a caller whose key is configured")
          }
          const now = yield* Clock.currentTimeMillis
          const until = expires === undefined ? undefined : yield* untilOf(expires, now)
          const key = newKey()
          const made = {
            key_id: KeyId.make(`key_${uuid()}`),
            name,
            admin,
            note: note ?? null,
            created_by: yield* Caller,
            created_at: fromMillis(now),
            expires_at: until === undefined ? null : fromMillis(until)
          }
          yield* store.add({ ...made, digest: storedDigest(key) })
          yield* Effect.annotateLogs(Effect.logInfo("key_added"), { key_id: made.key_id, key_name: name, admin })
          const shown = { ...made, last_used_at: null, key: Redacted.value(key) }
          return HttpServerResponse.jsonUnsafe(shown, { status: 201, headers: { "cache-control": "no-store" } })
        }).pipe(answer)
      )
      .handle("list", ({ query }) =>
        Effect.gen(function* () {
          yield* admitted
          const { items, next } = yield* store.list(query)
          return { keys: items, next_cursor: next }
        }).pipe(answer)
      )
      .handle("revoke", ({ params: { id }, query: { end_plans } }) =>
        Effect.gen(function* () {
          yield* admitted
          const found = isKeyId(id) ? yield* store.revoke(id) : Option.none()
          if (Option.isNone(found)) return yield* new NotFound({ what: "key" })
          const { key_id, name } = found.value
          yield* callers.forget
          // A notice that is lost delays others by what they keep keys for.
          yield* Effect.ignore(notices.publish([{ _tag: "KeysChanged" }]), { log: "Warn", message: "storage_failed" })
          yield* Effect.annotateLogs(Effect.logInfo("key_revoked"), { key_id, key_name: name })
          if (end_plans !== "true") return
          yield* endPlans(found.value)
          // Another replica may have let one more in.
          yield* Effect.sleep(keptFor)
          yield* endPlans(found.value)
        }).pipe(answer)
      )
  })
)
