import { Unreachable } from "@bowline/domain/peer/PeerError"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { AccountGrants, type AskedAccount } from "@bowline/runtime/unstable/auth/AccountGrants"
import { CallerTokens } from "@bowline/runtime/unstable/auth/CallerTokens"
import { failure } from "@bowline/runtime/unstable/http/ExchangeError"
import { AccountStore, type StoredGrant } from "@bowline/runtime/unstable/store/AccountStore"
import { ofMark } from "@bowline/runtime/unstable/store/AccountWait"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { seal, sealForUrl, type SealingKey, unseal } from "@bowline/runtime/unstable/store/Sealing"
import { Clock, Context, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { createHash } from "node:crypto"
import type { GatewayConfig } from "../config/GatewayConfig.ts"
import { Accounts, type Arrival, Link } from "./ConnectedAccounts.ts"
import { AccountDiscovery, metadataOf, placesOf } from "./AccountDiscovery.ts"
import * as AccountServers from "./AccountServers.ts"
import { accountOf, foundAt, refuseUrl } from "./FoundServer.ts"
import { newSecret } from "./Logins.ts"
import type { OpenIdFailed } from "./OpenIdClient.ts"
import { Refused } from "./Refusals.ts"

/** How long a link is good, and how long somebody may take at the authorization server. */
const linkLasts = Duration.toMillis("10 minutes")

/** How long before its end a token is renewed. */
const early = Duration.toMillis("60 seconds")

/** A refresh takes a few seconds. A claim that is older is of a process that has died, and nobody knows whether it has used the token. */
const claimLasts = Duration.toMillis("30 seconds")

/** How often a replica looks whether another one has renewed the token that has ended. */
const lookEvery = Duration.millis(100)

const Tokens = Schema.fromJsonString(
  Schema.Struct({ access_token: Schema.String, refresh_token: Schema.optionalKey(Schema.String), ...foundAt })
)
const decodeTokens = Schema.decodeUnknownOption(Tokens)
const encodeTokens = Schema.encodeSync(Tokens)
const LinkText = Schema.fromJsonString(Link)
const decodeLink = Schema.decodeUnknownOption(LinkText)
const encodeLink = Schema.encodeSync(LinkText)

const belonging = (caller: CallerName, account: string): string => `account_grant ${account} ${caller}`

const away = (error: StorageError) =>
  failure(
    "unsent",
    new Unreachable({
      message: `The database, which has what callers have granted, does not answer: ${error.reason._tag}`
    })
  )

const notOurs = new Refused({
  code: "not_found",
  detail: "This is no link of this gateway. Open the one that the plan shows"
})

/** Browsers drop a cookie that is longer, with its name and what else belongs to it. */
const maxCookie = 3_900

const tooLong = new Refused({
  code: "unavailable",
  detail: "What the server says of the account is too long for a cookie. Name the account in the configuration"
})

/** Nothing comes of it while an authorization server does not answer. */
const isAway =
  (account: string) =>
  <A>(asked: Effect.Effect<A, OpenIdFailed>): Effect.Effect<A, Refused> =>
    asked.pipe(
      Effect.tapError((cause) =>
        Effect.annotateLogs(Effect.logWarning("authorization_server_failed"), {
          account,
          reason: AccountServers.saidOf(cause)
        })
      ),
      Effect.mapError(
        () =>
          new Refused({
            code: "unavailable",
            detail: `The authorization server of the account ${account} does not answer. Try again`
          })
      )
    )

const notBegun = new Refused({
  code: "unauthorized",
  detail: "This browser has not begun this, or it took more than 10 minutes: open the link of the plan again"
})

/** Links and cookies are sealed: so any replica can open what another one has made. */
const makeSeals = (key: SealingKey) => ({
  make: (link: Link, what: string): string => sealForUrl(encodeLink(link), what, key),
  open: (text: string, what: string): Option.Option<Link> => Option.flatMap(unseal(text, what, key), decodeLink)
})

const make = Effect.fnUntraced(function* (
  { accounts, a2a: { publicUrl }, port }: GatewayConfig["Service"],
  key: SealingKey
) {
  const store = yield* AccountStore
  const inboxes = yield* InboxStore
  const callers = yield* CallerTokens
  const servers = yield* AccountServers.make(accounts)
  const discovery = yield* AccountDiscovery
  const seals = makeSeals(key)
  const clock = yield* Clock.Clock
  const root = (publicUrl ?? `http://localhost:${port}`).replace(/\/+$/, "")

  const sealed = (
    caller: CallerName,
    { account, client, found }: AccountServers.AccountAt,
    granted: AccountServers.Granted,
    now: number
  ) => {
    const { lasts, scopes, access_token, refresh_token } = granted
    const tokens = encodeTokens({
      access_token,
      ...(refresh_token !== undefined && { refresh_token }),
      ...(found !== undefined && { found, client })
    })
    return {
      sealed: seal(tokens, belonging(caller, account), key),
      scopes,
      expires_at: lasts === null ? null : now + lasts * 1_000
    }
  }

  const revoke = (
    at: AccountServers.AccountAt,
    { access_token, refresh_token }: Pick<AccountServers.Granted, "access_token" | "refresh_token">
  ) => {
    const [token, hint] =
      refresh_token === undefined ? [access_token, "access_token"] : [refresh_token, "refresh_token"]
    return servers.revoke(at, Redacted.make(token), hint).pipe(
      Effect.catchTag("OpenIdFailed", (cause) =>
        Effect.annotateLogs(Effect.logWarning("account_not_revoked"), {
          account: at.account,
          reason: AccountServers.saidOf(cause)
        })
      )
    )
  }

  /**
   * Uses the refresh token of a grant, unless another one does: then it gives undefined. Nobody can interrupt it: a claim that stays is taken for one of a process that has died. The
   * `current` token is good still, if there is one.
   */
  const renew = Effect.fnUntraced(function* (
    caller: CallerName,
    { account, sealed: old }: StoredGrant,
    { client, found, refresh_token: refreshToken = "" }: typeof Tokens.Type,
    current: Option.Option<Redacted.Redacted>
  ) {
    const id = { owner: caller, account, sealed: old }
    const at = { account, client, found }
    if (!(yield* store.claim(id, yield* Clock.currentTimeMillis))) return undefined
    const refreshed = yield* servers.refresh(at, Redacted.make(refreshToken))
    if (refreshed._tag === "renewed") {
      const granted = { refresh_token: refreshToken, ...refreshed.granted }
      const isKept = yield* store.release(id, sealed(caller, at, granted, yield* Clock.currentTimeMillis))
      // The caller has taken the grant back meanwhile, or granted another one.
      if (!isKept) yield* revoke(at, granted)
      return isKept ? Option.some(Redacted.make(granted.access_token)) : Option.none<Redacted.Redacted>()
    }
    yield* Effect.annotateLogs(Effect.logWarning("account_not_renewed"), {
      account,
      caller,
      reason: AccountServers.saidOf(refreshed.cause)
    })
    if (refreshed._tag === "over") {
      yield* store.disconnect(id)
      return Option.none<Redacted.Redacted>()
    }
    yield* store.release(id)
    if (Option.isSome(current)) return current
    return yield* failure(
      "unsent",
      new Unreachable({
        message: `The authorization server of the account ${account} does not renew the caller's token now`
      })
    )
  }, Effect.uninterruptible)

  const find = Effect.fnUntraced(function* (caller: CallerName, account: string) {
    const [grant] = yield* store.grants(caller, account)
    const opened = grant && unseal(grant.sealed, belonging(caller, account), key)
    const tokens = opened && Option.getOrUndefined(Option.flatMap(opened, decodeTokens))
    if (grant === undefined) return undefined
    if (tokens !== undefined) return { grant, tokens }
    // It was sealed with another key. It must not stay: what waits for a grant goes on when there is one.
    yield* store.disconnect({ owner: caller, account, sealed: grant.sealed })
    return undefined
  })

  /** The token, unless it is the `refused` one: that is renewed now, whenever it ends. */
  const token = Effect.fnUntraced(function* (caller: CallerName, account: string, refused?: string) {
    for (;;) {
      const found = yield* find(caller, account)
      if (found === undefined) return Option.none<Redacted.Redacted>()
      const { grant, tokens } = found
      const { access_token, refresh_token } = tokens
      const now = yield* Clock.currentTimeMillis
      const id = { owner: caller, account, sealed: grant.sealed }
      const isRefused = access_token === refused
      const left = isRefused ? 0 : (grant.expires_at ?? Infinity) - now
      if (grant.claimed_at !== null && grant.claimed_at + claimLasts <= now) {
        yield* store.disconnect(id)
        return Option.none<Redacted.Redacted>()
      }
      const current = Option.some(Redacted.make(access_token))
      if (grant.claimed_at === null) {
        if (left > early) return current
        if (refresh_token === undefined) {
          if (left > 0) return current
          yield* store.disconnect(id)
          return Option.none<Redacted.Redacted>()
        }
        const renewed = yield* renew(caller, grant, tokens, left > 0 ? current : Option.none())
        if (renewed !== undefined) return renewed
      } else if (left > 0) {
        return current
      } else {
        yield* Effect.sleep(lookEvery)
      }
    }
  })

  const newLink = ({ account, caller, found, plan_id, tool }: AskedAccount): string => {
    const until = clock.currentTimeMillisUnsafe() + linkLasts
    const link = { account, caller, found, plan_id, tool, secret: newSecret(), until }
    return `${root}/accounts/connect?link=${seals.make(link, "account_link")}`
  }

  const isAwaited = Effect.fnUntraced(function* ({ account, caller, plan_id }: Link) {
    const waits = yield* inboxes.accountWaits(caller)
    return waits.some((wait) => wait.plan_id === plan_id && ofMark(wait.mark).account === account)
  })

  return Context.make(AccountGrants, {
    accountAt: (account, url) =>
      accounts.has(account) || discovery === undefined
        ? { account, isFound: false }
        : { account: accountOf(url), isFound: true },
    find: (url, challenge) =>
      discovery === undefined ? Effect.die(new Error("Accounts are not discovered")) : discovery.find(url, challenge),
    refuseAt: (account, url) => {
      const known = accounts.get(account)
      if (known === undefined && discovery !== undefined) return refuseUrl(url)
      if (known === undefined)
        return `Expected one of the accounts of the configuration: ${Array.from(accounts.keys()).join(", ")}`
      const { resource } = known
      if (resource !== undefined && new URL(resource).origin === new URL(url).origin) return undefined
      return `Expected a URL of the resource of the account ${account}: what callers have granted goes nowhere else that a request names`
    },
    token: (caller, account) =>
      Effect.catchTag(token(caller, account), "StorageError", (error) => Effect.fail(away(error))),
    refuse: (caller, account, refused) =>
      token(caller, account, Redacted.value(refused)).pipe(
        Effect.catchTag("StorageError", (error) => Effect.fail(away(error))),
        Effect.asVoid
      ),
    linkOf: (asked) => Effect.sync(() => newLink(asked))
  }).pipe(
    Context.add(Accounts, {
      open: Effect.fnUntraced(function* (text: string) {
        const link = seals.open(text, "account_link")
        if (Option.isNone(link)) return yield* notOurs
        const { account, found } = link.value
        if (found !== undefined && discovery !== undefined) {
          const host = yield* discovery.hostOf(found).pipe(isAway(account))
          return { ...link.value, host, scopes: found.scopes }
        }
        const known = found === undefined ? accounts.get(account) : undefined
        if (known === undefined) return yield* notOurs
        const { authorization_url, issuer, scopes } = known
        return { ...link.value, host: new URL(authorization_url ?? issuer ?? "").host, scopes }
      }),
      freshen: (url) =>
        Option.match(seals.open(new URL(url).searchParams.get("link") ?? "", "account_link"), {
          onNone: () => url,
          onSome: newLink
        }),
      isAwaited,
      use: Effect.fnUntraced(function* ({ secret, until }: Link) {
        const now = yield* Clock.currentTimeMillis
        const digest = createHash("sha256").update(secret).digest("base64url")
        return until > now && (yield* store.useOnce(digest, { now, until }))
      }),
      depart: Effect.fnUntraced(function* ({ account, caller, found, plan_id, tool }: Link, base: string) {
        const secret = newSecret()
        const until = (yield* Clock.currentTimeMillis) + linkLasts
        const { client, url } = yield* servers.authorizationUrl({ account, found }, base, secret).pipe(isAway(account))
        const way = { account, caller, client, found, plan_id, tool, secret, until }
        const kept = seals.make(way, "account_way")
        return kept.length > maxCookie ? yield* tooLong : { url, kept }
      }),
      openKept: (kept) =>
        Option.match(
          Option.flatMap(Option.fromNullishOr(kept), (text) => seals.open(text, "account_way")),
          {
            onNone: () => Effect.fail(notBegun),
            onSome: Effect.succeed
          }
        ),
      // A browser that leaves meanwhile must not cost the grant: its code is good once.
      arrive: Effect.fnUntraced(function* ({ account, caller, client, found, secret }: Link, arrival: Arrival) {
        const at = { account, client, found }
        const granted = yield* servers.redeem(at, arrival, secret).pipe(
          Effect.tapError((cause) =>
            Effect.annotateLogs(Effect.logInfo("account_refused"), { account, reason: AccountServers.saidOf(cause) })
          ),
          Effect.mapError(
            () =>
              new Refused({
                code: "unauthorized",
                detail: `The authorization server of the account ${account} has refused, or this is not the way that this browser has begun. Open the link of the plan again`
              })
          )
        )
        const now = yield* Clock.currentTimeMillis
        const grant = sealed(caller, at, granted, now)
        yield* store.connect({ owner: caller, account }, { ...grant, now })
        yield* Effect.annotateLogs(Effect.logInfo("account_connected"), { account, caller })
        // The grant is there. What is not woken now is woken within a minute.
        const told = callers.tell({ owner: caller, account, sealed: grant.sealed })
        yield* Effect.ignore(told, { log: "Warn", message: "storage_failed" })
      }, Effect.uninterruptible),
      describe: (base, place) => {
        const { callback, client } = placesOf(base, place)
        return { client_id: client, ...metadataOf(callback), token_endpoint_auth_method: "none" }
      },
      list: (caller) => store.grants(caller),
      disconnect: Effect.fnUntraced(function* (caller: CallerName, account: string) {
        const [grant] = yield* store.grants(caller, account)
        if (grant === undefined) return false
        const { sealed: text } = grant
        const isGone = yield* store.disconnect({ owner: caller, account, sealed: text })
        const tokens = Option.flatMap(unseal(text, belonging(caller, account), key), decodeTokens)
        if (isGone && Option.isSome(tokens)) {
          const { client, found } = tokens.value
          if (found !== undefined || accounts.has(account)) yield* revoke({ account, client, found }, tokens.value)
        }
        return isGone
      })
    })
  )
})

/** What callers have granted, in the store. The configuration has a key for that. */
export const layer = (config: GatewayConfig["Service"]) =>
  Layer.effectContext(
    Option.match(config.secretKey, {
      onNone: () => Effect.die(new Error("There are accounts, and no key that encrypts what callers grant")),
      onSome: (key) => make(config, key)
    })
  )
