import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Random } from "effect"
import { runInThisContext } from "node:vm"
import { SeededRandom } from "../../src/simulation/scenario/SeededRandom.ts"
import { Loop } from "../../src/simulation/process/Loop.ts"
import { across, epoch, Process } from "../../src/simulation/process/Process.ts"
import * as RealWorld from "../../src/simulation/process/RealWorld.ts"

const make = () => {
  const loop = new Loop(new SeededRandom("order"))
  const logged: Array<string> = []
  const process = (name: string) => new Process(name, loop, new SeededRandom(name), (line) => void logged.push(line))
  return { loop, one: process("one"), other: process("other"), logged }
}

describe("a simulated process", () => {
  it("lets hours pass at once, in the order of its timers", async () => {
    const { loop, one } = make()
    const rung: Array<string> = []
    for (const hours of [3, 1, 2]) {
      one.fork(Effect.map(Effect.sleep(`${hours} hours`), () => void rung.push(`${hours} at ${loop.now / 3_600_000}`)))
    }
    await loop.run(() => rung.length === 3)
    assert.deepStrictEqual(rung, ["1 at 1", "2 at 2", "3 at 3"])
  })

  it("takes turns with the others in an order that is drawn", async () => {
    const orders = await Promise.all(
      ["one seed", "another seed"].map(async (seed) => {
        const loop = new Loop(new SeededRandom(seed))
        const seen: Array<string> = []
        for (const name of ["a", "b"]) {
          const process = new Process(name, loop, new SeededRandom(name), () => {})
          for (let task = 0; task < 20; task++) process.post(() => void seen.push(name))
        }
        await loop.run(() => seen.length === 40)
        return seen.join("")
      })
    )
    assert.match(orders[0] ?? "", /^a*b+a+b+a/)
    assert.notStrictEqual(orders[0], orders[1])
  })

  it("runs not even a finalizer when it is killed, and whoever waits for it is told", async () => {
    const { loop, one, other } = make()
    const seen: Array<string> = []
    const held = Effect.onExit(Effect.sleep(1_000), () => Effect.sync(() => void seen.push("finalizer")))
    one.fork(
      Effect.map(across(one, other, Effect.as(held, "answer"), Effect.succeed("broken")), (got) => void seen.push(got))
    )
    loop.after(500, () => other.kill())
    loop.after(5_000, () => void seen.push("over"))
    await loop.run(() => seen.includes("over"))
    assert.deepStrictEqual(seen, ["broken", "over"])
  })

  it("is killed behind any of its tasks", async () => {
    for (let tasks = 0; tasks < 5; tasks++) {
      const { loop, one } = make()
      let done = 0
      const work = Effect.gen(function* () {
        for (;;) {
          yield* Effect.yieldNow
          done++
        }
      })
      one.fork(work)
      one.killAfter(tasks)
      loop.after(1, () => {})
      await loop.run(() => !one.isAlive)
      assert.strictEqual(done, Math.max(0, tasks - 1))
    }
  })

  it("does what came while it was paused when it is resumed", async () => {
    const { loop, one } = make()
    const rung: Array<number> = []
    one.fork(Effect.map(Effect.sleep(1_000), () => void rung.push(loop.now)))
    loop.after(500, () => one.pause())
    loop.after(9_000, () => one.resume())
    await loop.run(() => rung.length > 0)
    assert.deepStrictEqual(rung, [9_000])
  })

  it("stands still with the timers of its client of MCP", async () => {
    const filename = "/node_modules/@modelcontextprotocol/client.js"
    const later: unknown = runInThisContext("(ring, ms) => Promise.resolve().then(() => setTimeout(ring, ms))", {
      filename
    })
    if (typeof later !== "function") throw new Error("is no function")
    const { loop, one, other } = make()
    const rung: Array<readonly [string, number]> = []
    for (const [name, process] of Object.entries({ one, other })) {
      process.post(() => void Reflect.apply(later, undefined, [() => rung.push([name, loop.now]), 1_000]))
    }
    loop.after(500, () => one.pause())
    loop.after(900, () => other.kill())
    loop.after(9_000, () => one.resume())
    const misuse: Array<string> = []
    const restore = RealWorld.watch((what) => void misuse.push(what), loop)
    await loop.run(() => rung.length > 0).finally(restore)
    assert.deepStrictEqual([rung, misuse], [[["one", 9_000]], []])
  })

  it("sees its wall clock jump, while its timers do not", async () => {
    const { loop, one } = make()
    const seen: Array<number> = []
    one.stepClock(60_000)
    one.fork(Effect.map(Effect.delay(Clock.currentTimeMillis, 100), (now) => void seen.push(now - epoch, loop.now)))
    await loop.run(() => seen.length > 0)
    assert.deepStrictEqual(seen, [60_100, 100])
  })

  it("draws its own random, and logs where the simulation sees it", async () => {
    const { logged, loop, one } = make()
    const drawn: Array<number> = []
    one.fork(
      Effect.andThen(
        Effect.logWarning("careful"),
        Effect.map(Random.next, (next) => void drawn.push(next))
      )
    )
    await loop.run(() => drawn.length > 0)
    assert.deepStrictEqual([drawn, logged], [[new SeededRandom("one").next()], ["logs careful"]])
  })

  it("says so when nothing will ever happen any more, or time does not pass", async () => {
    const endless = {
      "Nothing will ever happen any more": Effect.never,
      "Time does not pass any more, at 5 ms": Effect.andThen(Effect.sleep(5), Effect.forever(Effect.yieldNow))
    }
    for (const [message, effect] of Object.entries(endless)) {
      const { loop, one } = make()
      one.fork(effect)
      const failed = await loop
        .run(() => false)
        .then(
          () => "",
          (error: unknown) => String(error)
        )
      assert.include(failed, message)
    }
  })
})
