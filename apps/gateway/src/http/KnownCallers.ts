import { anonymous, type CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { AskerFacts, CallerToken } from "@bowline/runtime/unstable/config/AskerFacts"
import { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import type { Refused } from "./Refusals.ts"
import * as ArrivedTokens from "./ArrivedTokens.ts"
import { isToken, TokenVerifier } from "./TokenVerifier.ts"

/** Somebody whose key is good. */
export interface KnownCaller {
  readonly name: CallerName
  readonly isAdmin: boolean
  readonly asker: typeof AskerFacts.Service
  /** With which the caller has come. */
  readonly token?: CallerToken
  /** Of a login with an identity provider: its name. */
  readonly issuer?: string
  /** Of a key of the configuration: its SHA-256 digest. */
  readonly digest?: Buffer
}

/** The caller of a key of the configuration. */
export interface ConfiguredCaller extends KnownCaller {
  readonly digest: Buffer
}

/** Whether whoever makes the request is an admin. */
export const IsAdmin = Context.Reference<boolean>("@bowline/gateway/http/IsAdmin", { defaultValue: () => false })

const keyBytes = 32

/** Whether it looks like a key that an admin has made. */
export const isIssued = (key: Redacted.Redacted): boolean => /^bw_[A-Za-z0-9_-]{43}$/.test(Redacted.value(key))

/** A new key, as it is shown once. */
export const newKey = (): Redacted.Redacted => Redacted.make(`bw_${randomBytes(keyBytes).toString("base64url")}`)

const digestOf = (key: Redacted.Redacted): Buffer => createHash("sha256").update(Redacted.value(key)).digest()

/** How the store knows a key. A key of 256 random bits cannot be guessed by its digest, so it needs no salt. */
export const storedDigest = (key: Redacted.Redacted): string => digestOf(key).toString("base64url")

/**
 * How long a key counts as good without another look at the store. Replicas are told of a key that is revoked; whoever does not hear it looks
 * again within this time.
 */
export const keptFor = Duration.millis(500)

/** Above, the keys that nobody has looked at for the longest time are looked up again. */
const maxKept = 10_000

/** Who comes with which credential. */
export class KnownCallers extends Context.Service<
  KnownCallers,
  {
    /** Whether nobody needs a credential. */
    readonly isOpen: boolean
    readonly configured: ReadonlyArray<ConfiguredCaller>
    /** The caller of a key, or of a token of an identity provider. All keys of the configuration are compared, in constant time. */
    readonly find: (credential: Redacted.Redacted) => Effect.Effect<Option.Option<KnownCaller>, StorageError | Refused>
    /** The caller of a key that an admin has made, by its digest in the store. */
    readonly ofIssued: (digest: string) => Effect.Effect<Option.Option<KnownCaller>, StorageError>
    /** Looks all keys up again, on this replica: one was revoked. Its own notice may come later than the next request. */
    readonly forget: Effect.Effect<void>
  }
>()("@bowline/gateway/http/KnownCallers") {
  static readonly layer = Layer.effect(
    KnownCallers,
    Effect.gen(function* () {
      const { callerKeys, isAdmin, issuers } = yield* GatewayConfig
      const store = yield* KeyStore
      const notices = yield* Notices
      const configured = callerKeys.map(({ name, key }) => ({
        name,
        isAdmin: isAdmin(name),
        asker: {},
        digest: digestOf(key)
      }))
      const lookUp = Effect.fnUntraced(function* (digest: string) {
        const found = yield* store.find(digest, yield* Clock.currentTimeMillis)
        return Option.map(found, ({ admin, expires_at, key_id, name }) => ({
          name,
          isAdmin: admin || isAdmin(name),
          asker: { key_id },
          until: expires_at === null ? Infinity : Date.parse(expires_at)
        }))
      })
      // Wrong keys are not kept: whoever tries many would drive out the good ones.
      const cache = yield* Cache.makeWith(lookUp, {
        capacity: maxKept,
        timeToLive: (exit) => (Exit.isSuccess(exit) && Option.isSome(exit.value) ? keptFor : Duration.zero)
      })
      const context = yield* Effect.context()
      const forget = Cache.invalidateAll(cache)
      const forgetNow = () => Effect.runSyncWith(context)(forget)
      yield* notices.subscribe(({ _tag }) => (_tag === "KeysChanged" ? forgetNow() : undefined))

      const ofIssued = Effect.fnUntraced(function* (digest: string) {
        const found = yield* Cache.get(cache, digest)
        const now = yield* Clock.currentTimeMillis
        return Option.filter(found, ({ until }) => until > now)
      })
      const tokens = yield* TokenVerifier
      const arrived = yield* ArrivedTokens.make
      const find = Effect.fnUntraced(function* (
        key: Redacted.Redacted
      ): Effect.fn.Return<Option.Option<KnownCaller>, StorageError | Refused> {
        const digest = digestOf(key)
        const [caller] = configured.filter((one) => timingSafeEqual(one.digest, digest))
        if (caller !== undefined) return Option.some(caller)
        if (isIssued(key)) return yield* ofIssued(storedDigest(key))
        if (Option.isNone(tokens) || !isToken(Redacted.value(key))) return Option.none()
        const { groups, until, ...known } = yield* tokens.value.verify(key)
        const token = { caller: known.name, value: key, until }
        yield* arrived(token)
        return Option.some({ ...known, token, asker: groups.length === 0 ? {} : { groups } })
      })
      return { isOpen: configured.length === 0 && issuers.length === 0, configured, find, ofIssued, forget }
    })
  )
}

/** Everybody, where nobody needs a credential. */
export const everybody = Effect.map(GatewayConfig, ({ isAdmin }): KnownCaller => ({
  name: anonymous,
  isAdmin: isAdmin(anonymous),
  asker: {}
}))
