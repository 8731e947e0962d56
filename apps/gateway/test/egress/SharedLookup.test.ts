import { assert, describe, it } from "@effect/vitest"
import type { LookupFunction } from "node:net"
import * as SharedLookup from "../../src/egress/SharedLookup.ts"

/** A resolver whose name servers answer when they are told to, and who has heard what. */
const stuck = () => {
  const asked = new Map<string, () => void>()
  const told: Array<string> = []
  const time = { now: 0 }
  const system: LookupFunction = (host, _, callback) => {
    asked.set(host, () => callback(null, "192.0.2.1", 4))
  }
  const lookup = SharedLookup.make(system, () => time.now)
  const ask = (host: string) =>
    lookup(host, {}, (error) => void told.push(`${host} ${error === null ? "found" : "failed"}`))
  return { ask, asked, told, time }
}

const names = (count: number) => Array.from({ length: count }, (_, at) => `stuck-${at}.example`)

describe("the lookups that share their threads", () => {
  it("leave half of the process's lookups to others", () => {
    const { ask, asked, told } = stuck()
    for (const name of [...names(20), "fine.example"]) ask(name)
    assert.deepStrictEqual(Array.from(asked.keys()), names(8))
    for (const name of names(13)) asked.get(name)?.()
    assert.strictEqual(asked.size, 21)
    asked.get("fine.example")?.()
    assert.strictEqual(told.at(-1), "fine.example found")
  })

  it("ask once for a name that several wait for, and again later", () => {
    const { ask, asked, told } = stuck()
    ask("a.example")
    ask("a.example")
    asked.get("a.example")?.()
    assert.deepStrictEqual(told, ["a.example found", "a.example found"])
    asked.clear()
    ask("a.example")
    assert.strictEqual(asked.size, 1)
  })

  it("ask each time for what differs: one address is no answer to whoever wants all", () => {
    const answers: Array<unknown> = []
    const lookup = SharedLookup.make((_, { all }, callback) =>
      queueMicrotask(() =>
        all === true ? callback(null, [{ address: "192.0.2.1", family: 4 }]) : callback(null, "192.0.2.1", 4)
      )
    )
    return new Promise<void>((resolve) => {
      const take: Parameters<typeof lookup>[2] = (_, answer) => {
        if (answers.push(answer) === 2) resolve()
      }
      lookup("a.example", { all: true }, take)
      lookup("a.example", {}, take)
    }).then(() => assert.deepStrictEqual(answers, [[{ address: "192.0.2.1", family: 4 }], "192.0.2.1"]))
  })

  it("do not ask for names whose connections were given up while others held the resolver", () => {
    const { ask, asked, time, told } = stuck()
    for (const name of names(10_000)) ask(name)
    time.now = 10_001
    ask("late.example")
    asked.get("stuck-0.example")?.()
    assert.deepStrictEqual(Array.from(asked.keys()), [...names(8), "late.example"])
    assert.strictEqual(told.filter((line) => line.endsWith("failed")).length, 9_992)
  })

  it("ask for a name that somebody still waits for, though whoever asked for it first has given up", () => {
    const { ask, asked, time, told } = stuck()
    for (const name of names(8)) ask(name)
    ask("late.example")
    time.now = 9_000
    ask("late.example")
    time.now = 10_001
    asked.get("stuck-0.example")?.()
    asked.get("late.example")?.()
    assert.deepStrictEqual(told.slice(1), ["late.example failed", "late.example found"])
  })
})
