import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { assert, describe, it } from "@effect/vitest"
import * as Crossings from "./Crossings.ts"

const plan = PlanId.make("plan_00000000-0000-4000-8000-000000000000")
const byTool = Crossings.requestsOf(plan).find(({ what }) => what.includes("plan_result"))

/** What a tool of MCP answers: an error of the gateway as a text, which is JSON in a frame of JSON. */
const answered = (code: string) => {
  const text = JSON.stringify({ error: { code, message: "", retryable: true } })
  const result = { content: [{ type: "text", text }], isError: true }
  return `event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: 1, result })}\n\n`
}

const wrongIn = (text: string): number => {
  const request = byTool ?? assert.fail("There is no tool to ask by")
  const crossing = {
    who: "other",
    caller: CallerName.make("bob"),
    request,
    status: 200,
    challenge: undefined,
    text
  } as const
  return Crossings.wrongIn(crossing, []).length
}

describe("the rule about the plans of others", () => {
  it("lets a tool of MCP refuse in passing, and say that there is no such plan", () => {
    assert.deepStrictEqual(["unavailable", "draining", "not_found"].map(answered).map(wrongIn), [0, 0, 0])
  })

  it("finds a tool of MCP that answers anything else", () => {
    assert.deepStrictEqual([answered("invalid"), answered("")].map(wrongIn), [1, 1])
  })
})
