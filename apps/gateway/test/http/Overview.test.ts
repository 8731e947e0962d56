import { say } from "@bowline/testing/provider/Turn"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, startOn, stores } from "./RunningGateway.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_ADMIN_CALLERS: "bob" }
const ann = { authorization: "Bearer key-of-ann" }
const bob = { authorization: "Bearer key-of-bob" }

const script: Script = () => [say("It "), say("holds.")]

const completed = ({ body }: { readonly body: Readonly<Record<string, unknown>> }) => [
  body["caller"],
  (body["plans"] as Readonly<Record<string, number>>)["completed"]
]

describe("GET /overview", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`counts the plans of the last day: the caller's, and everybody's for an admin (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)(script, keys)
        for (const who of [ann, ann, bob]) yield* post(`${url}/plan`, { question: "Does it hold?" }, who)
        const read = (who: typeof ann, query = "") => send(`${url}/overview${query}`, { headers: who })
        const own = yield* read(ann)
        assert.deepStrictEqual(completed(own), ["ann", 2])
        assert.isNull(own.body["replicas"])
        assert.strictEqual(own.body["step_ms"], 900_000)
        const all = yield* read(bob)
        assert.deepStrictEqual(completed(all), [null, 3])
        assert.lengthOf(all.body["replicas"] as ReadonlyArray<unknown>, 1)
        for (const name of ["first_token_ms", "duration_ms"]) assert.hasAllKeys(all.body[name], ["p50", "p95"])
        assert.deepStrictEqual(completed(yield* read(bob, "?caller=ann")), ["ann", 2])
        assert.deepStrictEqual(completed(yield* read(bob, "?caller=nobody")), ["nobody", 0])
        assert.deepStrictEqual(completed(yield* read(bob, "?until=2026-01-01T00:00:00Z")), [null, 0])
        assert.deepInclude((yield* read(ann, "?caller=bob")).body, { status: 403, code: "forbidden" })
      }).pipe(Effect.scoped)
    )
  }

  it.live("refuses a time that ends before it begins, or that is longer than 7 days", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(stores.memory)(script)
      const issues = (query: string) => Effect.map(send(`${url}/overview?${query}`), ({ body }) => body["issues"])
      const until = "until=2026-01-10T00:00:00Z"
      assert.deepStrictEqual(yield* issues(`since=2026-01-10T00:00:00Z&${until}`), [
        { path: "since", message: "Expected an instant before until" }
      ])
      assert.deepStrictEqual(yield* issues(`since=2026-01-02T23:59:59Z&${until}`), [
        { path: "since", message: "Expected an instant 7 days before until at most" }
      ])
      assert.isUndefined(yield* issues(`since=2026-01-03T00:00:00Z&${until}`))
      assert.deepStrictEqual(yield* issues("since=yesterday"), [
        { path: "since", message: "Expected an instant such as 2026-01-02T03:04:05Z" }
      ])
    }).pipe(Effect.scoped)
  )
})
