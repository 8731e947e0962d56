import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { draw } from "../../src/simulation/Draw.ts"
import { simulate } from "../../src/simulation/Simulation.ts"
import { tracesOf } from "./printTraces.ts"

/** The first seeds that kill a process. */
const seeds = Array.from({ length: 50 }, (_, index) => index + 1)
  .filter((seed) => draw(seed).faults.some(({ _tag }) => _tag === "Kill"))
  .slice(0, 4)

describe("a simulated run", () => {
  it("is the same for the same seed, byte for byte, twice in a process and in another process", async () => {
    const first = await tracesOf(seeds)
    assert.include(first, "is killed")
    assert.strictEqual(await tracesOf(seeds.toReversed().toReversed()), first)
    const script = new URL("printTraces.ts", import.meta.url).pathname
    const { stdout } = await promisify(execFile)(process.execPath, [script, ...seeds.map(String)])
    assert.strictEqual(stdout, first)
  })

  it("is another one for another seed", async () => {
    assert.notStrictEqual(await tracesOf([1]), (await tracesOf([2])).replace("seed 2", "seed 1"))
  })

  it("ends behind so many tasks, with the story of the whole run up to there", async () => {
    const whole = await simulate({ seed: 6 })
    const steps = Math.floor(whole.tasks / 2)
    const part = await simulate({ seed: 6, steps })
    assert.strictEqual(part.tasks, steps)
    assert.deepStrictEqual(part.trace, whole.trace.slice(0, part.trace.length))
    assert.isAbove(whole.trace.length, part.trace.length)
  })
})
