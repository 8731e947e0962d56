import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Scope } from "effect"
import { Database } from "../../src/simulation/world/Database.ts"
import { SeededRandom } from "../../src/simulation/scenario/SeededRandom.ts"
import { Link } from "../../src/simulation/world/Link.ts"
import { Loop } from "../../src/simulation/process/Loop.ts"
import { Process } from "../../src/simulation/process/Process.ts"
import { World } from "../../src/simulation/world/World.ts"

const window = { provider: "openai", credential: "openai-1", model: null, key: null } as const

/** A store, and the connection of one process to it. */
const make = async () => {
  const loop = new Loop(new SeededRandom("order"))
  const world = new World(loop, new SeededRandom("link"))
  const process = new Process("a.1", loop, new SeededRandom("a.1"), () => {})
  const link = new Link(world, process)
  const database = await Database.open(world)
  database.board.links.add(link)
  const stores = database.of("a.1", link)
  const run = async <A, E>(effect: Effect.Effect<A, E>): Promise<Exit.Exit<A, E>> => {
    const ended: Array<Exit.Exit<A, E>> = []
    process.fork(Effect.map(Effect.exit(effect), (exit) => void ended.push(exit)))
    await loop.run(() => ended.length > 0)
    return ended[0] ?? Exit.die("no end")
  }
  const wait = (ms: number) => {
    const until = loop.now + ms
    loop.after(ms, () => {})
    return loop.run(() => loop.now >= until)
  }
  const credentials = Context.get(stores, CredentialStore)
  const write = credentials.open(window, "billing", [1_000])
  const rows = async () => Exit.map(await run(credentials.list), (found) => found.length)
  return { link, loop, notices: Context.get(stores, Notices), rows, run, wait, write }
}

const heardBy = async (become: Link["notices"], ms: number): Promise<ReadonlyArray<string>> => {
  const { link, notices, run, wait } = await make()
  const heard: Array<string> = []
  await run(
    Scope.provide(
      notices.subscribe(({ _tag }) => void heard.push(_tag)),
      Scope.makeUnsafe()
    )
  )
  link.notices = become
  await run(notices.publish([{ _tag: "PlansLeft" }]))
  await wait(ms)
  return heard
}

describe("the simulated connection of a process to its store", () => {
  it("loses an answer, whether the statement was done or not", async () => {
    for (const isApplied of [true, false]) {
      const { link, rows, run, write } = await make()
      link.losses.push({ isApplied })
      assert.isTrue(Exit.isFailure(await run(write)))
      assert.deepStrictEqual(await rows(), Exit.succeed(isApplied ? 1 : 0))
    }
  })

  it("gives a statement up when it has had no answer for 10 s, and passes the next one when the cut is over", async () => {
    const { link, loop, rows, run, write } = await make()
    const heal = link.cut()
    assert.isTrue(Exit.isFailure(await run(write)))
    assert.isAtLeast(loop.now, 10_000)
    assert.isBelow(loop.now, 10_010)
    assert.isAtLeast(link.waitsUntil, 10_000)
    heal()
    assert.deepStrictEqual(await rows(), Exit.succeed(0))
  })

  it("takes so much longer each way while the store is slow", async () => {
    const { link, loop, run, write } = await make()
    link.slowMs = 700
    assert.isTrue(Exit.isSuccess(await run(write)))
    assert.isAtLeast(loop.now, 700)
    assert.isBelow(loop.now, 1_410)
  })

  it("hears notices once, and while they fail never, late or twice", async () => {
    assert.deepStrictEqual(await heardBy("heard", 100), ["PlansLeft"])
    assert.deepStrictEqual(await heardBy("twice", 100), ["PlansLeft", "PlansLeft"])
    assert.deepStrictEqual(await heardBy("lost", 60_000), [])
    assert.deepStrictEqual([await heardBy("late", 900), await heardBy("late", 21_000)], [[], ["PlansLeft"]])
  })

  it("notices after 5 s that it hears nothing, and once more when the last of its cuts is over", async () => {
    const { link, notices, run, wait } = await make()
    const heard: Array<string> = []
    await run(
      Scope.provide(
        notices.subscribe(({ _tag }) => void heard.push(_tag)),
        Scope.makeUnsafe()
      )
    )
    const [healOne, healOther] = [link.cut(), link.cut()]
    await wait(4_900)
    assert.deepStrictEqual([notices.isListening(), heard], [true, []])
    await wait(200)
    assert.deepStrictEqual([notices.isListening(), heard], [false, ["ListeningChanged"]])
    healOne()
    await wait(100)
    assert.isFalse(notices.isListening())
    healOther()
    await wait(100)
    assert.deepStrictEqual([notices.isListening(), heard.length], [true, 2])
  })
})
