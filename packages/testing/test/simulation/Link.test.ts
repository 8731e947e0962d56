import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit } from "effect"
import { Database } from "../../src/simulation/world/Database.ts"
import { SeededRandom } from "../../src/simulation/scenario/SeededRandom.ts"
import { Link } from "../../src/simulation/world/Link.ts"
import { Loop } from "../../src/simulation/process/Loop.ts"
import { Process } from "../../src/simulation/process/Process.ts"
import { World } from "../../src/simulation/world/World.ts"
import { LeaseTime } from "../../src/store/StoreCase.ts"
import { storeCases } from "../../src/store/StoreCases.ts"

describe("the stores behind a simulated connection", () => {
  for (const { title, test } of storeCases) {
    it.live(title, () =>
      Effect.promise(async () => {
        const loop = new Loop(new SeededRandom("order"))
        const world = new World(loop, new SeededRandom(title))
        const process = new Process("a.1", loop, new SeededRandom("a.1"), () => {})
        const stores = (await Database.open(world)).of("a.1", new Link(world, process))
        const context = Context.add(stores, LeaseTime, { advance: Effect.sleep })
        let ended: Exit.Exit<void, unknown> | undefined
        process.fork(Effect.map(Effect.exit(Effect.provideContext(test, context)), (exit) => void (ended = exit)))
        await loop.run(() => ended !== undefined)
        assert.deepStrictEqual(ended, Exit.void)
      })
    )
  }
})
