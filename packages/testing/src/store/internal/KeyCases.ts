import { KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { KeyStore, type NewKey } from "@bowline/runtime/unstable/store/KeyStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect, Option } from "effect"
import assert from "node:assert/strict"
import * as Given from "../Given.ts"
import type { StoreCase } from "../StoreCase.ts"

const now = Date.parse("2026-03-04T05:06:07.890Z")

const newKey = Effect.fnUntraced(function* (given: Partial<NewKey> = {}) {
  const uuid = yield* UuidGenerator
  const owner = yield* Given.newOwner
  const key: NewKey = {
    key_id: KeyId.make(`key_${uuid()}`),
    digest: uuid(),
    name: owner,
    admin: false,
    note: null,
    created_by: owner,
    created_at: fromMillis(now),
    expires_at: null,
    ...given
  }
  yield* (yield* KeyStore).add(key)
  const { digest, ...issued } = key
  return { digest, issued: { ...issued, last_used_at: null } }
})

/** The keys of this case, in a store that has those of others. */
const listed = Effect.fnUntraced(function* (ids: ReadonlyArray<KeyId>, limit: number) {
  const store = yield* KeyStore
  const found: Array<KeyId> = []
  for (let cursor: number | undefined; ;) {
    const { items, next } = yield* store.list({ limit, ...(cursor !== undefined && { cursor }) })
    assert.ok(items.length <= limit)
    found.push(...items.flatMap(({ key_id }) => (ids.includes(key_id) ? [key_id] : [])))
    if (next === null) return found
    cursor = next
  }
})

export const keyCases: ReadonlyArray<StoreCase> = [
  {
    title: "finds a key by its digest, notes to the minute when it was used last, and never an earlier minute",
    test: Effect.gen(function* () {
      const store = yield* KeyStore
      const { digest, issued } = yield* newKey({ note: "for \u0001 laptop", admin: true })
      const usedAt = (at: number) =>
        Effect.map(store.find(digest, at), (found) => Option.map(found, (key) => key.last_used_at))
      assert.deepEqual(
        yield* store.find(digest, now),
        Option.some({ ...issued, last_used_at: "2026-03-04T05:06:00.000Z" })
      )
      assert.deepEqual(yield* usedAt(now + 60_000), Option.some("2026-03-04T05:07:00.000Z"))
      assert.deepEqual(yield* store.find(`${digest}x`, now), Option.none())
    })
  },
  {
    title: "finds a key until its time is over, and lists it longer",
    test: Effect.gen(function* () {
      const store = yield* KeyStore
      const { digest, issued } = yield* newKey({ expires_at: fromMillis(now + 1_000) })
      assert.equal(Option.isSome(yield* store.find(digest, now + 999)), true)
      assert.deepEqual(yield* store.find(digest, now + 1_000), Option.none())
      assert.deepEqual(yield* listed([issued.key_id], 200), [issued.key_id])
    })
  },
  {
    title: "lists keys in pages, the newest first, until they are revoked, which is done once",
    test: Effect.gen(function* () {
      const store = yield* KeyStore
      const [one, two, three] = [yield* newKey(), yield* newKey(), yield* newKey()]
      const ids = [one, two, three].map(({ issued }) => issued.key_id)
      assert.deepEqual(yield* listed(ids, 1), ids.toReversed())
      assert.deepEqual(yield* store.revoke(two.issued.key_id), Option.some(two.issued))
      assert.deepEqual(yield* store.revoke(two.issued.key_id), Option.none())
      assert.deepEqual(yield* store.find(two.digest, now), Option.none())
      assert.equal(Option.isSome(yield* store.find(one.digest, now)), true)
      assert.deepEqual(
        yield* listed(ids, 200),
        ids.toReversed().filter((id) => id !== two.issued.key_id)
      )
    })
  },
  {
    title: "lists the plans whose caller came with a key",
    test: Effect.gen(function* () {
      const plans = yield* PlanStore
      const { issued } = yield* newKey()
      const { name: owner, key_id } = issued
      yield* Given.create({ owner })
      const { plan } = yield* Given.create({ owner, asker: { key_id } })
      const { items } = yield* plans.list(owner, { key_id }, { limit: 10 })
      assert.deepEqual(
        items.map(({ plan_id }) => plan_id),
        [plan.plan_id]
      )
    })
  }
]
