import { simulate } from "../../src/simulation/Simulation.ts"
import { print } from "../../src/simulation/World.ts"

/** The story of each seed, as text. */
export const tracesOf = async (seeds: ReadonlyArray<number>): Promise<string> => {
  const stories: Array<string> = []
  for (const seed of seeds) {
    const { misuse, tasks, trace } = await simulate({ seed })
    stories.push([`seed ${seed}, ${tasks} tasks`, ...misuse, ...trace.map(print)].join("\n"))
  }
  return stories.join("\n")
}

if (import.meta.main) process.stdout.write(await tracesOf(process.argv.slice(2).map(Number)))
