import { Schema } from "effect"
import { simulate } from "../../src/simulation/Simulation.ts"
import { print } from "../../src/simulation/world/World.ts"

const Runs = Schema.Array(Schema.Struct({ seed: Schema.Int, store: Schema.Literals(["memory", "pglite"]) }))

type Runs = typeof Runs.Type

/** The story of each run, as text. */
export const tracesOf = async (runs: Runs): Promise<string> => {
  const stories: Array<string> = []
  for (const { seed, store } of runs) {
    const { misuse, steps, trace } = await simulate({ seed, store })
    stories.push([`seed ${seed} in ${store}, ${steps} steps`, ...misuse, ...trace.map(print)].join("\n"))
  }
  return stories.join("\n")
}

if (import.meta.main) {
  const runs = Schema.decodeUnknownSync(Schema.fromJsonString(Runs))(process.argv[2])
  process.stdout.write(await tracesOf(runs))
}
