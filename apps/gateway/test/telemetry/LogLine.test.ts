import { assert, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { json } from "../../src/telemetry/LogLine.ts"

it.effect("a line of JSON has a text as its message, whatever was logged", () =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const logged = Logger.map(json, (line) => void lines.push(line))
    yield* Effect.andThen(
      Effect.all([
        Effect.logInfo("one"),
        Effect.logInfo("two", { a: [1] }),
        Effect.logInfo({ a: 1 }),
        Effect.logInfo("three", "four", 5),
        Effect.logInfo()
      ]),
      Effect.void
    ).pipe(Effect.provide(Logger.layer([logged])))
    const messages = lines.map((line) => (JSON.parse(line) as { readonly message: unknown }).message)
    assert.deepStrictEqual(messages, ["one", 'two {"a":[1]}', '{"a":1}', "three four 5", ""])
  })
)
