import { assert, describe, it } from "@effect/vitest"
import { dialectOf, locations, takesTextOnly } from "../../src/card/AgentCard.ts"

const [standard, older] = locations

describe("the dialect of a card", () => {
  it.each([
    ["in the standard place", {}, standard, "a2a-0.3"],
    ["with bindu's trust, anywhere", { agentTrust: {} }, standard, "bindu"],
    ["in bindu's place", {}, older, "bindu"],
    ["in bindu's place that names a transport of A2A", { preferredTransport: "JSONRPC" }, older, "a2a-0.3"]
  ] as const)("%s", (_, members, location, dialect) => {
    assert.strictEqual(dialectOf({ skills: [], ...members }, location), dialect)
  })
})

describe("a skill", () => {
  it.each([
    ["takes text only when its modes say so", ["text/plain", "text/markdown"], ["application/json"], true],
    ["takes what its modes say, whatever the defaults are", ["text/plain", "application/json"], ["text/plain"], false],
    ["takes what the defaults say when it says nothing", undefined, ["text"], true],
    ["may take anything when nobody says anything", undefined, undefined, false]
  ] as const)("%s", (_, inputModes, defaultInputModes, expected) => {
    const card = {
      ...(defaultInputModes !== undefined && { defaultInputModes }),
      skills: [{ id: "ask", ...(inputModes !== undefined && { inputModes }) }]
    }
    assert.strictEqual(takesTextOnly(card, "ask"), expected)
  })
})
