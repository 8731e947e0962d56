import { assert, describe, it } from "@effect/vitest"
import { type Field, ToolSearch } from "../../src/tool/ToolSearch.ts"
import { tools } from "./catalog/Catalog.ts"
import { questions } from "./catalog/Questions.ts"

const recall = (fields: ReadonlyArray<Field>): number => {
  const search = new ToolSearch(tools, fields)
  const found = questions.filter(([asked, tool]) => search.find(asked, 10).some(({ name }) => name === tool))
  return found.length / questions.length
}

describe("the search of 1,000 tools", () => {
  it("has the right tool among the first 10, in 9 of 10 questions or more", () => {
    assert.isAtLeast(recall(["name", "description", "arguments"]), 0.9)
  })

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
