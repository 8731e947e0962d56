import type { PeerEvent } from "@bowline/runtime/remote/PeerClient"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import { Disclosure } from "../../src/peer/Disclosure.ts"

const many = 50_000

/** What a peer says in this order, how much of it is told, and how often a text of it is read. */
const disclose = Effect.fnUntraced(function* (secret: string, texts: Iterable<string>, content: string) {
  const told: Array<PeerEvent> = []
  let reads = 0
  const redaction = new Redaction().addAuthorization(`Bearer ${secret}`)
  const disclosure = new Disclosure(redaction, (event) => Effect.sync(() => told.push(event)))
  for (const text of texts) {
    const event = {
      _tag: "Progress",
      state: "working",
      get message() {
        reads++
        return text
      }
    } as const
    yield* disclosure.tell([event])
  }
  const result = yield* disclosure.finish(content)
  const messages = told.flatMap((event) => (event._tag === "Progress" ? [event.message ?? ""] : []))
  return { messages, reads, result, told }
})

const repeat = (text: string, count: number) => Array.from({ length: count }, () => text)

describe("messages behind the beginning of a secret", () => {
  it.effect.each(["", "\n"])("are told as one, and each is read a few times, when they are %j without end", (nothing) =>
    Effect.gen(function* () {
      const { messages, reads, result } = yield* disclose("s3cret", ["s3cr", ...repeat(nothing, many)], "et!")
      assert.deepStrictEqual(messages, [""])
      assert.isAtMost(reads, 10 * many)
      assert.strictEqual(result, "[redacted]!")
    })
  )

  it.effect("are read a few times each when every one of them may go on with it", () =>
    Effect.gen(function* () {
      const secret = `${"a".repeat(5_000)}b`
      const { messages, reads } = yield* disclose(secret, [...repeat("a", many), "b"], "Done")
      assert.isAtMost(reads, 10 * many)
      assert.strictEqual(messages.join(""), `${"a".repeat(many - 5_000)}[redacted]`)
    })
  )

  it.effect("are searched across more newlines than any text has", () =>
    Effect.gen(function* () {
      const { messages, result } = yield* disclose("s3cret", ["s3c", "\n".repeat(1_000), "ret"], "Done")
      assert.notInclude(messages.join(""), "ret")
      assert.strictEqual(result, "Done")
    })
  )
})

describe("what a peer says of a call", () => {
  it.effect("names an artifact without the secret of the call", () =>
    Effect.gen(function* () {
      const told: Array<PeerEvent> = []
      const redaction = new Redaction().addAuthorization("Bearer planted")
      const disclosure = new Disclosure(redaction, (event) => Effect.sync(() => void told.push(event)))
      const name = "report of planted"
      yield* disclosure.tell([{ _tag: "Artifact", content: {}, mediaType: "application/json", verified: "yes", name }])
      yield* disclosure.tell([{ _tag: "Artifact", content: "Knots", mediaType: "text/plain", verified: "yes", name }])
      yield* disclosure.finish("")
      assert.deepStrictEqual(
        told.map((event) => event._tag === "Artifact" && event.name),
        ["report of [redacted]", "report of [redacted]"]
      )
    })
  )

  it.effect("is too large when its events are without end, however small each is", () =>
    Effect.gen(function* () {
      const disclosure = new Disclosure(new Redaction(), () => Effect.void)
      for (const event of [
        { _tag: "Progress", state: "working" },
        { _tag: "Progress", state: "working", message: "" },
        { _tag: "Artifact", content: {}, mediaType: "application/json", verified: "unknown" }
      ] as const) {
        const { reason } = yield* Effect.flip(disclosure.tell(repeat("", 200_000).map(() => event)))
        assert.strictEqual(reason._tag, "response_too_large")
      }
    })
  )
})
