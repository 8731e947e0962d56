import { type Options, simulate } from "@bowline/testing/simulation/Simulation"
import { tellFailure } from "@bowline/testing/simulation/Story"
import { assert, describe, it } from "@effect/vitest"
import { Config, Effect } from "effect"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { bugs, talking } from "./EdgeBugs.ts"
import * as HttpReplicaClient from "./HttpReplicaClient.ts"
import * as Keys from "./Keys.ts"

const configOf = (variables: Readonly<Record<string, string>>) =>
  Effect.map(
    // Without a key it would draw one.
    fromEnvironment({ BOWLINE_SECRET_KEY: Buffer.alloc(32).toString("base64"), ...variables }, false),
    (config) => ({ ...config, consoleEnabled: false })
  )

const configs = Effect.all({
  open: configOf({}),
  keyed: configOf({ BOWLINE_API_KEYS: Keys.asVariable, OPENAI_API_KEY: "key-of-openai" })
})

/** The options of a run through the routes. */
const through = Effect.fnUntraced(function* (options: Options, planted?: HttpReplicaClient.Planted) {
  const heard = HttpReplicaClient.makeHeard()
  return {
    ...options,
    client: HttpReplicaClient.make(yield* configs, heard, planted),
    rules: HttpReplicaClient.rulesOf(heard)
  }
})

const run = (...given: Parameters<typeof through>) =>
  Effect.flatMap(through(...given), (options) => Effect.promise(() => simulate(options)))

/** The first of the fixed seeds, and how many there are. */
const seeds = Config.all({
  first: Config.Int("BOWLINE_SEED").pipe(Config.withDefault(1)),
  count: Config.Int("BOWLINE_SEEDS").pipe(Config.withDefault(20))
})

describe("the whole gateway behind its HTTP routes, under the faults of seeds", () => {
  it.live(
    "keeps every rule, and its callers see on the wire what is stored",
    () =>
      Effect.gen(function* () {
        const { count, first } = yield* seeds
        for (let seed = first; seed < first + count; seed++) {
          const options = yield* through({ seed })
          const ended = yield* Effect.promise(() => simulate(options))
          if (ended.violations.length === 0) continue
          const story = yield* Effect.promise(() => tellFailure(ended, options))
          assert.fail([`To repeat it: BOWLINE_SEED=${seed} BOWLINE_SEEDS=1`, ...story].join("\n"))
        }
      }),
    3_600_000
  )

  it.live("is the same for the same seed", () =>
    Effect.gen(function* () {
      let seed = 1
      let first = yield* run({ seed })
      while (first.trace.every(({ what }) => what !== "is killed")) first = yield* run({ seed: ++seed })
      assert.deepStrictEqual((yield* run({ seed })).trace, first.trace)
    })
  )

  it.live("ends the plan of a call whose caller leaves, though the answer of the store about it is lost", () =>
    Effect.gen(function* () {
      const fault = { _tag: "AnswerLost", at: 2_400, replica: 0, isApplied: true } as const
      const scenario = { ...talking(5, 1_000, "cancel", { _tag: "Leave", at: 2_500 }), faults: [fault] }
      assert.deepStrictEqual((yield* run({ seed: 1, scenario }, { way: "call" })).violations, [])
    })
  )

  for (const [name, { hasKeys, plant, rule, scenario, way }] of Object.entries(bugs)) {
    it.live(`finds ${name}, and nothing where it is not`, () =>
      Effect.gen(function* () {
        const { seed } = scenario
        const planted = yield* run({ seed, scenario }, { hasKeys, plant, way })
        assert.include(
          planted.violations.map((violation) => violation.rule),
          rule
        )
        assert.deepStrictEqual((yield* run({ seed, scenario }, { way })).violations, [])
      })
    )
  }
})
