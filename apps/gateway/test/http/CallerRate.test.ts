import { say } from "@bowline/testing/provider/Turn"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "../plan/Databases.ts"
import { post, send, start, startOn, stores } from "./RunningGateway.ts"

const by = (caller: string) => ({ authorization: `Bearer key-of-${caller}` })
const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,ann=other-key-of-ann,bob=key-of-bob" }

const quotaOf = ({ headers, status }: { readonly headers: Headers; readonly status: number }) =>
  [status, ...["limit", "remaining"].map((name) => headers.get(`ratelimit-${name}`))] as const

for (const [name, store] of Object.entries(stores)) {
  describe(`the requests of a caller (${name})`, () => {
    it.live("are bounded, whatever they ask for, and those of others are not touched", () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)(() => [say("x")], { ...keys, BOWLINE_RATE_LIMIT: "3/1h" })
        const plans = (key: string) => send(`${url}/plans`, { headers: by(key) })
        assert.deepStrictEqual(quotaOf(yield* plans("ann")), [200, "3", "2"])
        assert.deepStrictEqual(quotaOf(yield* send(`${url}/plans?limit=x`, { headers: by("ann") })), [400, "3", "1"])
        const plan = yield* post(`${url}/plan`, { question: "?" }, { ...by("ann"), accept: "text/event-stream" })
        assert.deepStrictEqual(quotaOf(plan), [200, "3", "0"])
        const asked = (yield* provider.requests.all).length
        const other = yield* send(`${url}/plans`, { headers: { authorization: "Bearer other-key-of-ann" } })
        for (const refused of [other, yield* plans("ann"), yield* post(`${url}/plan`, "not even JSON", by("ann"))]) {
          assert.deepStrictEqual(quotaOf(refused), [429, "3", "0"])
          assert.deepInclude(refused.body, { code: "rate_limited", retryable: true, status: 429 })
          const wait = Number(refused.headers.get("retry-after"))
          assert.isAtLeast(wait, 3_000)
          assert.isAtMost(wait, 3_600)
          assert.strictEqual(refused.headers.get("ratelimit-reset"), String(wait))
          assert.isNotNull(refused.headers.get("x-request-id"))
        }
        assert.lengthOf(yield* provider.requests.all, asked)
        assert.deepStrictEqual(quotaOf(yield* plans("bob")), [200, "3", "2"])
      })
    )

    it.live("are welcome again after `Retry-After`", () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)([], { BOWLINE_RATE_LIMIT: "2/1s" })
        const ask = send(`${url}/plans`)
        const refused = yield* Effect.repeat(ask, { until: ({ status }) => status === 429 })
        yield* Effect.sleep(`${Number(refused.headers.get("retry-after"))} seconds`)
        assert.strictEqual((yield* ask).status, 200)
      })
    )
  })
}

describe("the requests of a caller", () => {
  it.live("are counted by all replicas together", () =>
    Effect.gen(function* () {
      const database = yield* stores.postgres
      const settings = { ...database, ...keys, BOWLINE_RATE_LIMIT: "4/1h" }
      const replicas = [yield* start([], settings), yield* start([], settings)]
      const statuses = yield* Effect.forEach([0, 1, 0, 1, 0, 1], (index) =>
        Effect.map(send(`${replicas[index]?.url}/plans`, { headers: by("ann") }), ({ status }) => status)
      )
      assert.deepStrictEqual(statuses, [200, 200, 200, 200, 429, 429])
    })
  )

  it.live("are let in uncounted while the counts cannot be read", () =>
    Effect.gen(function* () {
      const { DATABASE_URL } = yield* databases.postgres.pipe(Effect.orDie)
      const { url } = yield* start([], { DATABASE_URL, BOWLINE_RATE_LIMIT: "1/1h" })
      const sql = yield* PgClient.makeClient({ url: Redacted.make(DATABASE_URL) }).pipe(
        Effect.provide(Reactivity.layer)
      )
      yield* sql`alter table rate_limits rename to away`
      for (const _ of [1, 2]) assert.deepStrictEqual(quotaOf(yield* send(`${url}/plans`)), [200, null, null])
      yield* sql`alter table away rename to rate_limits`
      assert.deepStrictEqual(quotaOf(yield* send(`${url}/plans`)), [200, "1", "0"])
      // A count that somebody else holds is not waited for.
      yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select 1 from rate_limits for update`
          assert.deepStrictEqual(quotaOf(yield* send(`${url}/plans`)), [200, null, null])
        })
      )
      assert.strictEqual((yield* send(`${url}/plans`)).status, 429)
    })
  )

  it.live("do not count where nobody has to be known, nor where the caller is unknown", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...keys, BOWLINE_RATE_LIMIT: "1/1h" })
      assert.strictEqual((yield* send(`${url}/plans`, { headers: by("ann") })).status, 200)
      for (const [path, status] of [
        ["/health", 200],
        ["/ready", 200],
        ["/openapi.json", 200],
        ["/plans", 401]
      ] as const) {
        for (const headers of [{}, by("nobody")]) {
          const answer = yield* send(url + path, { headers })
          assert.deepStrictEqual(quotaOf(answer), [status, null, null], path)
        }
      }
      assert.strictEqual((yield* send(`${url}/plans`, { headers: by("ann") })).status, 429)
    })
  )

  it.live("are 600 in a minute by default, and not counted without keys", () =>
    Effect.gen(function* () {
      const open = yield* start([])
      assert.deepStrictEqual(quotaOf(yield* send(`${open.url}/plans`)), [200, null, null])
      const { url } = yield* start([], keys)
      assert.deepStrictEqual(quotaOf(yield* send(`${url}/plans`, { headers: by("ann") })), [200, "600", "599"])
    })
  )
})
