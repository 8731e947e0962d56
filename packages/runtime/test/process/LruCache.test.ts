import { assert, it } from "@effect/vitest"
import { LruCache } from "../../src/process/LruCache.ts"

it("drops the key that nobody has used for the longest time", () => {
  const cache = new LruCache<string, number>(2)
  cache.set("a", 1)
  cache.set("b", 2)
  assert.strictEqual(cache.get("a"), 1)
  assert.strictEqual(cache.peek("b"), 2)
  cache.set("c", 3)
  assert.deepStrictEqual(cache.keys, ["a", "c"])
  cache.set("a", 4)
  cache.delete("c")
  assert.deepStrictEqual([cache.keys, cache.get("a"), cache.get("b")], [["a"], 4, undefined])
})

it("keeps values up to a weight, and none that weighs more by itself", () => {
  const cache = new LruCache<string, number>(10, (value, key) => value + key.length)
  cache.set("a", 4)
  cache.set("b", 4)
  assert.deepStrictEqual(cache.keys, ["a", "b"])
  cache.set("a", 1)
  cache.set("c", 2)
  assert.deepStrictEqual(cache.keys, ["b", "a", "c"])
  cache.set("d", 5)
  assert.deepStrictEqual(cache.keys, ["c", "d"])
  cache.delete("c")
  cache.set("e", 3)
  assert.deepStrictEqual(cache.keys, ["d", "e"])
  cache.set("f", 10)
  assert.deepStrictEqual(cache.keys, [])
})
