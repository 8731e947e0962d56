import { assert, describe, it } from "@effect/vitest"
import { ToolSearch } from "../../src/tool/ToolSearch.ts"
import { tools } from "./catalog/Catalog.ts"

describe("the search of 1,000 tools", () => {
  it("finds forms and parts of words, in a source alone, and nothing for words that no tool has", () => {
    const search = new ToolSearch(tools)
    const first = (asked: string, source?: string) => search.find(asked, 1, source)[0]?.name
    assert.strictEqual(first("creating refunds"), "stripe_create_refund")
    assert.strictEqual(first("calibrating sensors"), "iot_calibrate_sensor")
    assert.strictEqual(first("list", "redis")?.startsWith("redis_"), true)
    assert.lengthOf(search.find("create", 10), 10)
    assert.deepStrictEqual(search.find("xylophone zzz", 10), [])
    assert.deepStrictEqual(search.find("of the and", 10), [])
  })
})
