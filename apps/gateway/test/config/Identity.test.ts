import { assert, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { inspect } from "node:util"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"

const seed = Buffer.alloc(32, 0xfb)
const names = { BOWLINE_DID_AUTHOR: "ops@example.com", BOWLINE_DID_NAME: "gateway" }
const whole = { ...names, BOWLINE_DID_SEED: seed.toString("base64") }

const didOf = (environment: Readonly<Record<string, string>>) =>
  Effect.map(fromEnvironment(environment, false), ({ identity }) => Option.map(identity, ({ did }) => did))

const problemsOf = (environment: Readonly<Record<string, string>>) =>
  Effect.map(Effect.flip(fromEnvironment(environment, false)), ({ problems }) => problems.map(formatProblem))

it.effect("the gateway has an identity if all of it is set, the seed in base64 or in hex", () =>
  Effect.gen(function* () {
    const did = yield* didOf(whole)
    assert.match(
      Option.getOrThrow(did),
      /^did:bindu:ops_at_example_com:gateway:[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/
    )
    assert.deepStrictEqual(yield* didOf({ ...names, BOWLINE_DID_SEED: seed.toString("hex") }), did)
    assert.deepStrictEqual(yield* didOf({}), Option.none())
  })
)

const identity = ["BOWLINE_DID_SEED", "BOWLINE_DID_AUTHOR", "BOWLINE_DID_NAME"] as const

it.effect.each(identity)("half an identity is refused, and %s is named where it is missing", (missing) =>
  Effect.gen(function* () {
    const { [missing]: _, ...rest } = whole
    const others = identity.filter((name) => name !== missing)
    const expected = `${missing}: Expected with ${others.join(", ")}, or none of them`
    assert.deepStrictEqual(yield* problemsOf(rest), [expected])
    assert.deepStrictEqual(yield* problemsOf({ ...whole, [missing]: "" }), [expected])
  })
)

it.effect.each([
  ["BOWLINE_DID_SEED", "c2hvcnQ="],
  ["BOWLINE_DID_SEED", "not base64, nor hex"],
  ["BOWLINE_DID_SEED", "ab".repeat(31)],
  ["BOWLINE_DID_AUTHOR", "did:web:ops"],
  ["BOWLINE_DID_NAME", "my gateway"]
] as const)("%s does not take %s, and is not shown", ([name, value]) =>
  Effect.gen(function* () {
    const [problem, ...others] = yield* problemsOf({ ...whole, [name]: value })
    assert.match(problem ?? "", new RegExp(`^${name}: Expected `))
    assert.notInclude(problem, value)
    assert.deepStrictEqual(others, [])
  })
)

it.effect("the seed is not in what the configuration shows of itself", () =>
  Effect.gen(function* () {
    const config = yield* fromEnvironment(whole, false)
    assert.notMatch(inspect(config, { depth: 9, showHidden: true }), /fb ?fb|251, ?251|\+\/v7/i)
  })
)
