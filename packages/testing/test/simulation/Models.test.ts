import { assert, describe, it } from "@effect/vitest"
import type { Asked } from "../../src/provider/Script.ts"
import { resultsOf } from "../../src/simulation/replica/Models.ts"

const asked = (summary: string): Asked => ({
  model: "sim",
  system: "",
  tools: [],
  toolChoice: "auto",
  messages: [
    { role: "user", text: summary },
    { role: "user", text: "FACT-p1 and now?" },
    { role: "assistant", text: "", calls: [{ id: "2", name: "work", input: { key: "p1/1.0", ms: 1 } }] },
    { role: "tool", id: "2", content: "did p1/1.0" },
    { role: "user", text: "Continue." }
  ]
})

describe("a simulated model", () => {
  it("knows the results of its plan, those too that only a summary tells of, and asks for no call again", () => {
    assert.strictEqual(resultsOf("p1", asked("Facts: FACT-p0 FACT-p1 p0/0.0 p1/0.0 p1/0.1 p1/0.0")), 3)
    assert.strictEqual(resultsOf("p1", asked("Facts: FACT-p0 p0/0.0")), 1)
  })
})
