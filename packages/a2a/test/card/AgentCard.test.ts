import { assert, describe, it } from "@effect/vitest"
import { didOf, takesTextOnly } from "../../src/card/AgentCard.ts"

describe("the DID of a card", () => {
  const did = "did:bindu:author_at_example_com:echo:438b4815-7ebe-d853-b95d-48b32b68fa3a"
  it.each([
    ["is its id", { id: did }, did],
    [
      "is the URI of an extension where the id is none",
      { id: "438b4815", capabilities: { extensions: [{ uri: "https://example.com/traces" }, { uri: did }] } },
      did
    ],
    ["is none where nothing is one", { id: 7, capabilities: { extensions: [{ uri: null }, {}] } }, null],
    ["is none on a bare card", { capabilities: null }, null]
  ] as const)("%s", (_, members, expected) => {
    assert.strictEqual(didOf({ skills: [], ...members }), expected)
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
