import { assert, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { readJson } from "../../src/http/RequestBody.ts"

it.effect("others have turns between the decoding of a large body and what is done with it", () =>
  Effect.gen(function* () {
    let others = 0
    let decodedAt = 0
    const noteTurn = () => {
      decodedAt = others
      return true
    }
    const read = readJson(Schema.Struct({ text: Schema.String.check(Schema.makeFilter(noteTurn)) }), 8_388_608)
    const turnsBehind = Effect.fnUntraced(function* (length: number) {
      const body = JSON.stringify({ text: "x".repeat(length) })
      const headers = { "content-type": "application/json" }
      yield* read(HttpServerRequest.fromWeb(new Request("http://gateway.test/plan", { method: "POST", headers, body })))
      return others - decodedAt
    })
    const count = Effect.andThen(
      Effect.yieldNow,
      Effect.sync(() => others++)
    )
    yield* Effect.forkChild(Effect.forever(count))
    assert.strictEqual(yield* turnsBehind(1_000), 0)
    assert.isAtLeast(yield* turnsBehind(7_000_000), 1)
  })
)
