import { assert, describe, it } from "@effect/vitest"
import { Redaction } from "../../src/http/Redaction.ts"

const secret = "QUJD/REVG"

const redactedBody = (text: string, secret: string) => new Redaction().addAuthorization(`Bearer ${secret}`).body(text)

describe("the body of an answer", () => {
  it.each([
    ["as it is", '{"error":{"message":"Bearer QUJD/REVG?"}}', '{"error":{"message":"Bearer [redacted]?"}}'],
    ["with its slash escaped", String.raw`["QUJD\/REVG"]`, '["[redacted]"]'],
    ["with a letter escaped", String.raw`{"a":["\u0051UJD/REVG"]}`, '{"a":["[redacted]"]}'],
    ["in a text that is no JSON", "<p>QUJD/REVG</p>", "<p>[redacted]</p>"],
    ["beside a number that nobody can write", '[1e999,"QUJD/REVG"]', '[1e999,"[redacted]"]'],
    ["as deep as nobody nests", `${"[".repeat(9_999)}"QUJD/REVG"`, `${"[".repeat(9_999)}"[redacted]"`]
  ])("takes the secret out %s", (_, text, expected) => {
    assert.strictEqual(redactedBody(text, secret), expected)
  })

  it("keeps the names of members, though one of them be the secret", () => {
    assert.strictEqual(
      redactedBody('{"kind":"text","text":"a text"}', "text"),
      '{"kind":"[redacted]","text":"a [redacted]"}'
    )
  })

  it("leaves what has nothing of it as it was, to the last blank", () => {
    const text = String.raw`{ "n": 12345678901234567890, "text": "two\nlines" }`
    assert.strictEqual(redactedBody(text, secret), text)
  })
})
