import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Effect, Layer, Option, Redacted } from "effect"
import type { CallerToken } from "../config/AskerFacts.ts"
import { AccountStore, type LentId } from "../store/AccountStore.ts"
import { ofMark } from "../store/AccountWait.ts"
import { InboxStore, keyedId } from "../store/InboxStore.ts"
import { Notices } from "../store/Notices.ts"
import { SecretKey } from "../store/SecretKey.ts"
import { seal, unseal } from "../store/Sealing.ts"

/** The caller as whom requests to agents and MCP servers are made, where they are made as somebody. Nobody, unless whoever runs something of a caller says so. */
export const OnBehalfOf = Context.Reference<CallerName | undefined>("@bowline/runtime/auth/OnBehalfOf", {
  defaultValue: () => undefined
})

/** Whether callers have names that an identity provider has vouched for: the others come with keys, and have no tokens. */
export const hasTokens = (caller: CallerName): boolean => caller.includes(":")

/** The tokens with which callers have come, for plans that act as them. None, unless the app keeps some. */
export const CallerTokens = Context.Reference<{
  /** Whether tokens are kept at all. */
  readonly areKept: boolean
  /** Keeps a token for the plans of its caller, if they want one, or if it `isWanted` now. Says whether one of the caller is kept. */
  readonly keep: (token: CallerToken, isWanted: boolean) => Effect.Effect<boolean, StorageError>
  /** The newest token of a caller that is valid. */
  readonly newest: (caller: CallerName) => Effect.Effect<Option.Option<Redacted.Redacted>, StorageError>
  /** Wakes what waits for this account of a caller, if it is there: null is a valid token. */
  readonly lookAgain: (caller: CallerName, account: string | null) => Effect.Effect<void, StorageError>
  /** Wakes for what was stored just now. */
  readonly tell: (lent: LentId) => Effect.Effect<void, StorageError>
  /** Does so for dead processes. */
  readonly tellLeft: Effect.Effect<void, StorageError>
}>("@bowline/runtime/auth/CallerTokens", {
  defaultValue: () => ({
    areKept: false,
    keep: () => Effect.succeed(false),
    newest: () => Effect.succeedNone,
    lookAgain: () => Effect.void,
    tell: () => Effect.void,
    tellLeft: Effect.void
  })
})

const belonging = (caller: CallerName): string => `caller_token ${caller}`

/** Accepts the entries that end the waits of a caller for this account. Whoever is not told of it looks a little later. */
export const makeWake = Effect.gen(function* () {
  const store = yield* InboxStore
  const notices = yield* Notices
  return Effect.fnUntraced(function* (owner: CallerName, account: string | null) {
    for (const { mark, plan_id, round, task_id } of yield* store.accountWaits(owner)) {
      const wait = ofMark(mark)
      if (wait.account !== account) continue
      const entry = { type: "account" as const, task_id, call: wait.task_id }
      const entry_id = keyedId(["account", plan_id, task_id, String(round)])
      const accepted = yield* store
        .accept({ plan_id, entry_id, by: owner, owner, entry })
        .pipe(Effect.catchTags({ ...over, IdempotencyConflict: () => Effect.undefined }))
      if (accepted?._tag !== "Accepted") continue
      const woken = accepted.parked === "woken" ? [{ _tag: "PlansLeft" as const }] : []
      yield* Effect.ignore(notices.publish([{ _tag: "InboxChanged", plan_id }, ...woken]))
    }
  })
})

/** The plan is over, or its wait is, by now. */
const over = { NotFound: () => Effect.undefined, EntryRefused: () => Effect.undefined }

/** Keeps the tokens of callers encrypted in the store: only where there is a key for that. */
export const layer = Layer.effect(
  CallerTokens,
  Effect.gen(function* () {
    const store = yield* AccountStore
    const key = yield* SecretKey
    if (Option.isNone(key)) return yield* CallerTokens
    const wake = yield* makeWake
    const newest = Effect.fnUntraced(function* (caller: CallerName) {
      const sealed = yield* store.token(caller, yield* Clock.currentTimeMillis)
      return Option.map(
        Option.flatMap(sealed, (text) => unseal(text, belonging(caller), key.value)),
        (token) => Redacted.make(token)
      )
    })
    const lookAgain = Effect.fnUntraced(function* (caller: CallerName, account: string | null) {
      const isThere =
        account === null ? Option.isSome(yield* newest(caller)) : (yield* store.grants(caller, account)).length > 0
      if (isThere) yield* wake(caller, account)
    })
    const tell = (lent: LentId) => Effect.andThen(lookAgain(lent.owner, lent.account), store.heard(lent))
    return {
      areKept: true,
      keep: Effect.fnUntraced(function* ({ caller, until, value }, isWanted) {
        const sealed = seal(Redacted.value(value), belonging(caller), key.value)
        const now = yield* Clock.currentTimeMillis
        const isKept = yield* store.keepToken(caller, { sealed, until, now }, isWanted)
        if (isKept) yield* tell({ owner: caller, account: null, sealed })
        return isKept
      }),
      newest,
      lookAgain,
      tell,
      tellLeft: Effect.flatMap(store.news, Effect.forEach(tell, { discard: true }))
    }
  })
)
