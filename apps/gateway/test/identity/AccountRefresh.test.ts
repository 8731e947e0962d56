import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { AccountGrants } from "@bowline/runtime/unstable/auth/AccountGrants"
import { seal } from "@bowline/runtime/unstable/store/Sealing"
import { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import { json, type Host } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { Accounts } from "../../src/http/ConnectedAccounts.ts"
import * as GrantedAccounts from "../../src/http/GrantedAccounts.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"

const key = Buffer.alloc(32, 7)
const ann = CallerName.make("ann")
const minute = 60_000
const id = { owner: ann, account: "books" }

/** An authorization server whose refresh tokens are good once, and two replicas on one store. It answers as `answers` says, or as it should. */
const given = Effect.gen(function* () {
  const used: Array<string> = []
  const server = { given: 0, answer: undefined as { readonly status: number; readonly body: object } | undefined }
  const host: Host = ({ body }) =>
    Effect.sync(() => {
      const token = new URLSearchParams(body).get("refresh_token") ?? ""
      if (server.answer !== undefined) return json(server.answer.status, server.answer.body)
      if (token !== `refresh-${server.given}`) used.push(`again: ${token}`)
      used.push(token)
      server.given++
      const next = { access_token: `access-${server.given}`, refresh_token: `refresh-${server.given}` }
      return json(200, { ...next, token_type: "Bearer", expires_in: 300 })
    })
  const { url } = yield* (yield* Network).serve(host)
  const account = { authorization_url: `${url}/authorize`, token_url: `${url}/token`, client_id: "x", scopes: ["pay"] }
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ accounts: { books: account } }) })
  const config = yield* fromEnvironment(
    {
      BOWLINE_CONFIG: join(folder, "gateway.json"),
      BOWLINE_SECRET_KEY: key.toString("base64"),
      OPENAI_API_KEY: "key"
    },
    false
  )
  const store = yield* AccountStore
  // Somebody else may come between what a replica has read and what it writes.
  const slow = {
    ...store,
    grants: (...asked: Parameters<typeof store.grants>) => Effect.tap(store.grants(...asked), () => Effect.yieldNow)
  }
  const replica = Effect.map(Layer.build(Layer.fresh(GrantedAccounts.layer(config))), (built) => ({
    ...Context.get(built, AccountGrants),
    accounts: Context.get(built, Accounts)
  })).pipe(Effect.provideService(AccountStore, slow))
  const connect = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const text = JSON.stringify({ access_token: "access-0", refresh_token: "refresh-0" })
    const sealed = seal(text, "account_grant books ann", Redacted.make(key))
    yield* store.connect(id, { sealed, scopes: ["pay"], expires_at: now + 5 * minute, now })
    return sealed
  })
  const replicas = [yield* replica, yield* replica] as const
  return { used, server, store, connect, replicas }
})

const stores = Layer.merge(MemoryStore.layer, MemoryNetwork.layer)
const tokenOf = Option.map<Redacted.Redacted, string>(Redacted.value)

describe("the refresh of an account", () => {
  it.effect("is made 60 s before the end, by one replica, for an hour in which both want it", () =>
    Effect.gen(function* () {
      const { connect, replicas, used } = yield* given
      yield* connect
      const [one, other] = replicas
      const all = Effect.all(
        [one, other, one, other].map(({ token }) => token(ann, "books")),
        { concurrency: "unbounded" }
      )
      yield* TestClock.adjust(4 * minute - 1)
      assert.deepStrictEqual(
        (yield* all).map(tokenOf),
        Array.from({ length: 4 }, () => Option.some("access-0"))
      )
      assert.deepStrictEqual(used, [])
      yield* TestClock.adjust(1)
      for (let at = 0; at < 60; at++) {
        for (const token of yield* all) assert.isTrue(Option.isSome(token))
        yield* TestClock.adjust(minute)
      }
      assert.lengthOf(used, 15)
      assert.deepStrictEqual(
        used,
        Array.from({ length: 15 }, (_, at) => `refresh-${at}`)
      )
    }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect(
    "is not made where a process may have used the token before it died, or the key is another one: the grant is dropped",
    () =>
      Effect.gen(function* () {
        const { connect, replicas, store, used } = yield* given
        const sealed = yield* connect
        const [{ token }] = replicas
        yield* TestClock.adjust(4 * minute)
        assert.isTrue(yield* store.claim({ ...id, sealed }, yield* Clock.currentTimeMillis))
        assert.deepStrictEqual(tokenOf(yield* token(ann, "books")), Option.some("access-0"))
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual(yield* token(ann, "books"), Option.none())
        assert.deepStrictEqual([yield* store.grants(ann), used], [[], []])
        yield* store.connect(id, { sealed: "of another key", scopes: [], expires_at: null, now: 0 })
        assert.deepStrictEqual(yield* token(ann, "books"), Option.none())
        assert.deepStrictEqual(yield* store.grants(ann), [])
      }).pipe(Effect.scoped, Effect.provide(stores))
  )

  it.effect(
    "drops a grant that the server refuses, keeps one that it cannot look at now, and renews a token that a peer refuses",
    () =>
      Effect.gen(function* () {
        const { connect, replicas, server, store, used } = yield* given
        yield* connect
        const [{ refuse, token }] = replicas
        yield* TestClock.adjust(5 * minute)
        server.answer = { status: 503, body: {} }
        assert.isTrue(Exit.isFailure(yield* Effect.exit(token(ann, "books"))))
        server.answer = { status: 400, body: { error: "invalid_request" } }
        assert.isTrue(Exit.isFailure(yield* Effect.exit(token(ann, "books"))))
        server.answer = undefined
        assert.deepStrictEqual(tokenOf(yield* token(ann, "books")), Option.some("access-1"))
        yield* refuse(ann, "books", Redacted.make("access-0"))
        assert.deepStrictEqual(used, ["refresh-0"])
        yield* refuse(ann, "books", Redacted.make("access-1"))
        assert.deepStrictEqual(tokenOf(yield* token(ann, "books")), Option.some("access-2"))
        for (const answer of [
          { status: 400, body: { error: "invalid_grant" } },
          { status: 500, body: {} }
        ]) {
          yield* connect
          yield* TestClock.adjust(5 * minute)
          server.answer = answer
          assert.deepStrictEqual(yield* token(ann, "books"), Option.none())
          assert.deepStrictEqual(yield* store.grants(ann), [])
        }
      }).pipe(Effect.scoped, Effect.provide(stores))
  )
})

describe("a grant that a caller takes back", () => {
  it.effect("is of no use from then on, on either replica", () =>
    Effect.gen(function* () {
      const { connect, replicas } = yield* given
      yield* connect
      const tokens = Effect.forEach(replicas, ({ token }) => Effect.map(token(ann, "books"), tokenOf))
      assert.deepStrictEqual(yield* tokens, [Option.some("access-0"), Option.some("access-0")])
      assert.strictEqual(yield* replicas[0].accounts?.disconnect(ann, "books") ?? Effect.succeed(false), true)
      assert.deepStrictEqual(yield* tokens, [Option.none(), Option.none()])
    }).pipe(Effect.provide(stores))
  )
})

describe("a link to an account", () => {
  it.effect("is good for 10 minutes, and so is the way of a browser that has followed it", () =>
    Effect.gen(function* () {
      const { replicas } = yield* given
      const [{ accounts, linkOf }] = replicas
      assert(accounts)
      const { depart, freshen, open, openKept, use } = accounts
      const asked = { account: "books", caller: ann, plan_id: PlanId.make(`plan_${"0".repeat(36)}`), tool: "bank" }
      const url = (yield* linkOf(asked)) ?? ""
      const opened = (text: string) => open(new URL(text).searchParams.get("link") ?? "")
      const link = yield* opened(url)
      const kept = Effect.flatMap(depart(link, "http://gateway.test"), ({ kept }) => openKept(kept))
      const [way, late] = [yield* kept, yield* kept]
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual([yield* use(link), yield* use(way)], [false, false])

      const next = yield* opened(freshen(url))
      const again = yield* kept
      yield* TestClock.adjust("599999 millis")
      assert.deepStrictEqual([yield* use(next), yield* use(again), yield* use(late)], [true, true, false])
      assert.deepStrictEqual([yield* use(next), yield* use(again)], [false, false])
    }).pipe(Effect.provide(stores))
  )
})
