import { CallerName } from "@bowline/domain/caller/CallerName"
import { AccountStore, wantedFor } from "@bowline/runtime/unstable/store/AccountStore"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Duration, Effect, Option } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"

const newCaller = Effect.map(UuidGenerator, (uuid) => CallerName.make(`corp:${uuid()}`))

/** Long ago, so that other cases on the same store forget none of it by their own time. */
const now = 1_000_000_000_000
const minute = 60_000

export const accountCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps a caller's token until its end, and of two the one that ends later, in whatever order they come",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const [ann, bob] = [yield* newCaller, yield* newCaller]
      assert.equal(yield* accounts.keepToken(ann, { sealed: "second", until: now + 2 * minute, now }, true), true)
      assert.equal(yield* accounts.keepToken(ann, { sealed: "first", until: now + minute, now }, true), true)
      yield* accounts.keepToken(bob, { sealed: "bob's", until: now + minute, now }, true)
      assert.deepEqual(yield* accounts.token(ann, now), Option.some("second"))
      assert.deepEqual(yield* accounts.token(ann, now + 2 * minute - 1), Option.some("second"))
      assert.deepEqual(yield* accounts.token(ann, now + 2 * minute), Option.none())
      assert.equal(yield* accounts.keepToken(ann, { sealed: "third", until: now + 3 * minute, now }, false), true)
      assert.deepEqual(yield* accounts.token(ann, now + 2 * minute), Option.some("third"))
      assert.deepEqual(yield* accounts.token(bob, now), Option.some("bob's"))
    })
  },
  {
    title: "keeps no token that nobody wants, of a caller of whom none was wanted",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const caller = yield* newCaller
      assert.equal(yield* accounts.keepToken(caller, { sealed: "x", until: now + minute, now }, false), false)
      assert.deepEqual(yield* accounts.token(caller, now), Option.none())
    })
  },
  {
    title: "forgets a caller whose last token has ended longer ago than any plan waits",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const [gone, other] = [yield* newCaller, yield* newCaller]
      const later = now + Duration.toMillis(wantedFor)
      const isKnown = accounts.keepToken(gone, { sealed: "y", until: now - 1, now }, false)
      yield* accounts.keepToken(gone, { sealed: "x", until: now, now: now - minute }, true)
      yield* accounts.keepToken(other, { sealed: "x", until: later, now: later - 1 }, true)
      assert.equal(yield* isKnown, true)
      yield* accounts.keepToken(other, { sealed: "x", until: later, now: later }, true)
      assert.equal(yield* isKnown, false)
    })
  },
  {
    title: "keeps one grant for each caller and account, and changes none that was replaced",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const [ann, bob] = [yield* newCaller, yield* newCaller]
      const first = { sealed: "first", scopes: ["read"], expires_at: now + minute }
      const id = { owner: ann, account: "mail" }
      yield* accounts.connect(id, { ...first, now })
      yield* accounts.connect({ owner: bob, account: "mail" }, { ...first, now })
      yield* accounts.connect({ owner: ann, account: "Desk" }, { sealed: "d", scopes: [], expires_at: null, now })
      assert.deepEqual(
        (yield* accounts.grants(ann)).map(({ account }) => account),
        ["Desk", "mail"]
      )
      const second = { sealed: "second", scopes: ["read", "send"], expires_at: null }
      yield* accounts.connect(id, { ...second, now: now + 1 })
      const old = { ...id, sealed: "first" }
      assert.deepEqual(
        [yield* accounts.claim(old, now), yield* accounts.release(old, first), yield* accounts.disconnect(old)],
        [false, false, false]
      )
      const kept = { ...second, account: "mail", connected_at: now + 1, claimed_at: null }
      assert.deepEqual(yield* accounts.grants(ann, "mail"), [kept])
      assert.equal(yield* accounts.disconnect({ ...id, sealed: "second" }), true)
      assert.deepEqual(yield* accounts.grants(ann, "mail"), [])
      assert.deepEqual(yield* accounts.grants(bob, "mail"), [
        { ...first, account: "mail", connected_at: now, claimed_at: null }
      ])
    })
  },
  {
    title: "keeps what is new as news until it is heard, and says nothing of what was replaced meanwhile",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const owner = yield* newCaller
      const isOurs = (lent: { readonly owner: CallerName }) => lent.owner === owner
      const news = Effect.map(accounts.news, (all) =>
        all.filter(isOurs).sort((one, other) => (one.sealed < other.sealed ? -1 : 1))
      )
      const connect = (sealed: string) =>
        accounts.connect({ owner, account: "mail" }, { sealed, scopes: [], expires_at: null, now })
      yield* connect("grant")
      yield* accounts.keepToken(owner, { sealed: "token", until: now + minute, now }, true)
      const [grant, token] = [
        { owner, account: "mail", sealed: "grant" },
        { owner, account: null, sealed: "token" }
      ]
      assert.deepEqual(yield* news, [grant, token])
      yield* accounts.heard({ ...token, sealed: "grant" })
      yield* accounts.heard(grant)
      assert.deepEqual(yield* news, [token])
      yield* accounts.heard(token)
      yield* accounts.keepToken(owner, { sealed: "earlier", until: now, now }, true)
      assert.deepEqual(yield* news, [])
      yield* accounts.keepToken(owner, { sealed: "later", until: now + 2 * minute, now }, false)
      yield* connect("again")
      yield* accounts.heard(token)
      yield* accounts.heard(grant)
      assert.deepEqual(yield* news, [
        { ...grant, sealed: "again" },
        { ...token, sealed: "later" }
      ])
      yield* accounts.disconnect({ owner, account: "mail", sealed: "again" })
      assert.deepEqual(yield* news, [{ ...token, sealed: "later" }])
    })
  },
  {
    title: "lets one of many use the refresh token of a grant, until it has ended with that",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const id = { owner: yield* newCaller, account: "mail" }
      const grant = { sealed: "old", scopes: [], expires_at: now }
      yield* accounts.connect(id, { ...grant, now })
      const old = { ...id, sealed: "old" }
      const claims = yield* Effect.all(
        Array.from({ length: 5 }, () => accounts.claim(old, now + 5)),
        { concurrency: "unbounded" }
      )
      assert.equal(claims.filter(Boolean).length, 1)
      assert.equal((yield* accounts.grants(id.owner, "mail"))[0]?.claimed_at, now + 5)
      assert.equal(yield* accounts.release(old), true)
      assert.equal(yield* accounts.claim(old, now), true)
      const renewed = { sealed: "new", scopes: ["read"], expires_at: now + minute }
      assert.equal(yield* accounts.release(old, renewed), true)
      const kept = { ...renewed, account: "mail", connected_at: now, claimed_at: null }
      assert.deepEqual(yield* accounts.grants(id.owner), [kept])
      // A new grant takes the place of one that somebody is about to renew.
      assert.equal(yield* accounts.claim({ ...id, sealed: "new" }, now), true)
      yield* accounts.connect(id, { ...grant, now })
      assert.equal(yield* accounts.release({ ...id, sealed: "new" }, renewed), false)
      assert.equal((yield* accounts.grants(id.owner))[0]?.claimed_at, null)
    })
  },
  {
    title: "uses a secret up once",
    test: Effect.gen(function* () {
      const accounts = yield* AccountStore
      const digest = String(yield* newCaller)
      const uses = yield* Effect.all(
        Array.from({ length: 5 }, () => accounts.useOnce(digest, { now, until: now + minute })),
        { concurrency: "unbounded" }
      )
      assert.equal(uses.filter(Boolean).length, 1)
      assert.equal(yield* accounts.useOnce(digest, { now: now + minute - 1, until: now + minute }), false)
    })
  }
]
