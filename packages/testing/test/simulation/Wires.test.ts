import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { text } from "../../src/http/Host.ts"
import { SeededRandom } from "../../src/simulation/scenario/SeededRandom.ts"
import { Loop } from "../../src/simulation/process/Loop.ts"
import { Process } from "../../src/simulation/process/Process.ts"
import { Wires } from "../../src/simulation/world/Wires.ts"
import { World } from "../../src/simulation/world/World.ts"

describe("the network of a simulated process", () => {
  it("carries nothing from a process that was killed, though a promise of it asks", () => {
    const loop = new Loop(new SeededRandom("order"))
    const wires = new Wires(new World(loop, new SeededRandom("wires")))
    const process = new Process("a.1", loop, new SeededRandom("a.1"), () => {})
    const sent: Array<string> = []
    wires.serve("http://one.test", () => Effect.succeed(text(200, "")), {
      onSent: ({ url }) => void sent.push(url.pathname)
    })
    const client = wires.clientOf(process)
    const ask = (path: string) => void Effect.runForkWith(process.context)(client.get(`http://one.test${path}`))
    ask("/alive")
    process.kill()
    ask("/killed")
    assert.deepStrictEqual(sent, ["/alive"])
  })
  it("gives what comes of an answer to a process as tasks of it: one that was killed reads nothing", async () => {
    const loop = new Loop(new SeededRandom("order"))
    const wires = new Wires(new World(loop, new SeededRandom("wires")))
    const read: Array<string> = []
    for (const name of ["alive", "killed"]) {
      const process = new Process(name, loop, new SeededRandom(name), () => {})
      wires.serve(`http://${name}.test`, () => Effect.succeed(text(200, name)), {
        onHeard: () => {
          if (name === "killed") process.kill()
        }
      })
      process.fork(
        Effect.orDie(
          Effect.flatMap(wires.clientOf(process).get(`http://${name}.test`), ({ stream }) =>
            Stream.runForEach(Stream.decodeText(stream), (heard) => Effect.sync(() => void read.push(heard)))
          )
        )
      )
    }
    loop.after(100, () => void read.push("over"))
    await loop.run(() => read.includes("over"))
    assert.deepStrictEqual(read, ["alive", "over"])
  })
})
