import { CallerName } from "@bowline/domain/caller/CallerName"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import { InputValidator } from "../../src/tool/InputValidator.ts"
import type { JsonSchema, Tool } from "../../src/tool/Tool.ts"
import { endless, inlined, selfReferences, slowPattern } from "./HostileSchemas.ts"

const ann = CallerName.make("ann")
const ben = CallerName.make("ben")

const toolOf = (inputSchema: JsonSchema): Tool => ({
  name: "bob_ask",
  kind: "peer",
  agent: "bob",
  endpoint: "http://bob.test/",
  skill: "ask",
  description: "",
  inputSchema,
  timeoutMs: undefined,
  isIdempotent: false,
  isPolling: false,
  approval: undefined,
  identify: Effect.succeed(null),
  call: () => Effect.never
})

/** What is wrong with the arguments, if anything. */
const messageOf = Effect.fnUntraced(function* (schema: JsonSchema, text: string, caller: CallerName = ann) {
  const result = yield* (yield* InputValidator).parse(caller, toolOf(schema), text)
  return Result.isFailure(result) ? result.failure.message : ""
})

const weather = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: { city: { type: "string" }, days: { type: "array", prefixItems: [{ type: "integer" }], items: false } },
  required: ["city"],
  unevaluatedProperties: false
}

describe("InputValidator", () => {
  it.layer(InputValidator.layer)((it) => {
    it.effect("holds arguments to all of JSON Schema 2020-12, and says what is wrong and where", () =>
      Effect.gen(function* () {
        assert.strictEqual(yield* messageOf(weather, '{"city": "Rome", "days": [1]}'), "")
        assert.match(yield* messageOf(weather, '{"city": 7}'), /\/city: must be string/)
        assert.match(yield* messageOf(weather, '{"city": "Rome", "days": [1, 2]}'), /\/days/)
        assert.match(yield* messageOf(weather, '{"city": "Rome", "other": 1}'), /unevaluated/)
        assert.match(yield* messageOf(weather, ""), /required property 'city'/)
        assert.match(yield* messageOf(weather, "[1]"), /not a JSON object/)
        assert.match(yield* messageOf(weather, '{"city": '), /not valid JSON/)
      })
    )

    it.effect("holds arguments to the draft that the schema names", () =>
      Effect.gen(function* () {
        const days = (items: object) => ({ properties: { days: { type: "array", ...items } } })
        for (const $schema of [
          "http://json-schema.org/draft-07/schema#",
          "https://json-schema.org/draft/2019-09/schema"
        ]) {
          const schema = { $schema, ...days({ items: [{ type: "integer" }], additionalItems: false }) }
          assert.strictEqual(yield* messageOf(schema, '{"days": [1]}'), "")
          assert.match(yield* messageOf(schema, '{"days": [1, 2]}'), /\/days/)
        }
      })
    )

    it.effect("takes arguments up to a size and a depth", () =>
      Effect.gen(function* () {
        assert.match(yield* messageOf({}, `{"a":"${"x".repeat(1_048_576)}"}`), /more than 1048576 characters/)
        assert.match(yield* messageOf({}, `{"a":${"[".repeat(64)}${"]".repeat(64)}}`), /at most 64 levels/)
        assert.match(yield* messageOf({}, `{"a":[${"1,".repeat(50_000)}1]}`), /at most 50000 values/)
        assert.match(yield* messageOf({}, '{"a":1e999}'), /finite/)
      })
    )

    it.effect("keeps the schemas of two callers apart, though they have one id", () =>
      Effect.gen(function* () {
        const $id = "https://schemas.test/tool"
        const text = { $id, type: "object", properties: { a: { type: "string" } } }
        const number = { $id, type: "object", properties: { a: { type: "number" } } }
        assert.strictEqual(yield* messageOf(text, '{"a": "1"}'), "")
        assert.match(yield* messageOf(number, '{"a": "1"}', ben), /must be number/)
      })
    )

    it.effect("matches recursive schemas", () =>
      Effect.gen(function* () {
        const tree = { properties: { children: { type: "array", items: { $ref: "#" } } }, required: ["name"] }
        assert.strictEqual(yield* messageOf(tree, '{"name": 1, "children": [{"name": 2}]}'), "")
        assert.match(yield* messageOf(tree, '{"name": 1, "children": [{}]}'), /\/children\/0: must have/)
        const dynamic = {
          $id: "https://schemas.test/strict-tree",
          $dynamicAnchor: "node",
          $ref: "tree",
          unevaluatedProperties: false,
          $defs: {
            tree: {
              $id: "tree",
              $dynamicAnchor: "node",
              properties: { data: true, children: { type: "array", items: { $dynamicRef: "#node" } } }
            }
          }
        }
        assert.strictEqual(yield* messageOf(dynamic, '{"children": [{"data": 1}]}'), "")
        assert.match(yield* messageOf(dynamic, '{"children": [{"daat": 1}]}'), /unevaluated/)
      })
    )

    it.effect("answers for a schema that never ends, or that is too much, that it cannot be used", () =>
      Effect.gen(function* () {
        for (const schema of selfReferences) {
          assert.match(yield* messageOf(schema, "{}"), /cannot be used\. It refers to itself without an end/)
        }
        assert.match(yield* messageOf({ $async: true }, "{}"), /cannot be used/)
        assert.match(yield* messageOf({ nullable: true }, "{}"), /cannot be used/)
        assert.match(yield* messageOf(inlined, "{}"), /cannot be used|^$/)
        assert.match(yield* messageOf(endless, '{"a": [1, 2]}'), /cannot be used\. It takes more than/)
        assert.match(yield* messageOf(slowPattern.schema, slowPattern.input), /cannot be used\. It takes more than/)
      })
    )
  })

  it.effect("keeps a schema aside that took too much, for its caller, for a minute", () =>
    Effect.gen(function* () {
      const { input, schema } = slowPattern
      assert.match(yield* messageOf(schema, input), /more than 250 ms/)
      assert.match(yield* messageOf(schema, '{"a": ""}'), /more than 250 ms/)
      assert.strictEqual(yield* messageOf(schema, '{"a": ""}', ben), "")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* messageOf(schema, '{"a": ""}'), "")
    }).pipe(Effect.provide(InputValidator.layer))
  )

  it.effect(
    "answers those who wait while another caller's checks are ended, and those who come after an interruption",
    () =>
      Effect.gen(function* () {
        const slow = (n: number) => messageOf({ ...slowPattern.schema, $comment: `${n}` }, slowPattern.input)
        const attacks = yield* Effect.forkChild(
          Effect.all([1, 2, 3, 4, 5, 6].map(slow), { concurrency: "unbounded" }),
          {
            startImmediately: true
          }
        )
        // They take turns: this one waits for one or two of the attacks, not for all.
        assert.match(yield* messageOf(weather, '{"city": 7}', ben), /must be string/)
        assert.isUndefined(attacks.pollUnsafe())
        yield* Fiber.interrupt(attacks)
        assert.strictEqual(yield* messageOf(weather, '{"city": "Rome"}'), "")
      }).pipe(Effect.provide(InputValidator.layer))
  )
})
