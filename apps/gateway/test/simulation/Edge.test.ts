import { type Options, simulate } from "@bowline/testing/simulation/Simulation"
import { tellFailure } from "@bowline/testing/unstable/simulation/Story"
import { assert, describe, it } from "@effect/vitest"
import { Config, Effect } from "effect"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import * as HttpDoor from "./HttpDoor.ts"

const config = Effect.map(
  // Without a key it would draw one.
  fromEnvironment({ BOWLINE_SECRET_KEY: Buffer.alloc(32).toString("base64") }, false),
  (config) => ({ ...config, consoleEnabled: false })
)

const through = Effect.fnUntraced(function* (options: Options) {
  const door = HttpDoor.make(yield* config)
  return yield* Effect.promise(() => simulate({ ...options, door }))
})

/** The first of the fixed seeds, and how many there are. */
const seeds = Config.all({
  first: Config.Int("BOWLINE_SEED").pipe(Config.withDefault(1)),
  count: Config.Int("BOWLINE_SEEDS").pipe(Config.withDefault(50))
})

describe("the whole gateway behind its HTTP routes, under the faults of seeds", () => {
  it.live("keeps every rule, and its callers see on the wire what is stored", () =>
    Effect.gen(function* () {
      const { count, first } = yield* seeds
      for (let seed = first; seed < first + count; seed++) {
        const run = yield* through({ seed })
        if (run.violations.length === 0) continue
        const door = HttpDoor.make(yield* config)
        const story = yield* Effect.promise(() => tellFailure(run, { seed, door }))
        assert.fail([`To repeat it: BOWLINE_SEED=${seed} BOWLINE_SEEDS=1`, ...story].join("\n"))
      }
    })
  )

  it.live("is the same for the same seed", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* through({ seed: 7 }), yield* through({ seed: 7 })]
      assert.include(
        first.trace.map(({ what }) => what),
        "is killed"
      )
      assert.deepStrictEqual(second.trace, first.trace)
    })
  )
})
