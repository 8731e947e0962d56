import { assert, describe, it } from "@effect/vitest"
import { nextSentences } from "../../src/text/Sentences.ts"

/** What is said of a text that comes in pieces. */
const saidOf = (pieces: ReadonlyArray<string>): ReadonlyArray<string> => {
  let text = ""
  let spoken = 0
  const said = [...pieces, ""].map((piece, index) => {
    text += piece
    const next = nextSentences(text, spoken, index === pieces.length)
    spoken = next.upTo
    return next.say
  })
  return said.filter((words) => words !== "")
}

describe("nextSentences", () => {
  it("says whole sentences, each one once, and the rest at the end", () => {
    assert.deepStrictEqual(saidOf(["A bow", "line holds. It ne", "ver jams! And", " so on"]), [
      "A bowline holds.",
      "It never jams!",
      "And so on"
    ])
  })

  it("says nothing of a sentence that has only begun", () => {
    assert.deepStrictEqual(nextSentences("Pi is 3.14 and", 0, false), { upTo: 0, say: "" })
  })

  it("starts anew where a text was retracted", () => {
    assert.deepStrictEqual(nextSentences("New. ", 50, false), { upTo: 4, say: "New." })
  })
})
