import { assert, it } from "@effect/vitest"
import { LruCache } from "../../src/cache/LruCache.ts"

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
