import { assert, describe, it } from "@effect/vitest"
import { kept, outputReserve, threshold } from "../../src/compaction/ContextBudget.ts"

describe("ContextBudget", () => {
  it.each([
    ["of the answer's limit", { contextWindow: 200_000, outputLimit: 8_192 }, 8_192, 153_446],
    ["of a quarter of the window", { contextWindow: 32_000, outputLimit: 16_384 }, 8_000, 19_200],
    ["of 16,000", { contextWindow: 400_000, outputLimit: 128_000 }, 16_000, 307_200],
    ["of 16,000 where the answer's limit is not known", { contextWindow: 128_000 }, 16_000, 89_600]
  ])("leaves room for the answer, %s", (_, limits, reserve, most) => {
    assert.strictEqual(outputReserve(limits), reserve)
    assert.strictEqual(threshold(limits), most)
  })

  it("keeps 30 % of a size", () => {
    assert.strictEqual(kept(100_000), 30_000)
  })
})
