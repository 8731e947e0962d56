import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { join } from "node:path"

const command = join(import.meta.dirname, "../../bin/bowline-simulate.mjs")

const run = (...args: ReadonlyArray<string>) => execute(command, ...args)

const execute = (script: string, ...args: ReadonlyArray<string>) =>
  new Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }>((resolve) => {
    execFile(process.execPath, [script, ...args], (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr })
    })
  })

describe("bowline-simulate", () => {
  it("says that every rule holds, and ends with 0, on the store that it is asked for", async () => {
    const told = await Promise.all(["memory", "pglite"].map((store) => run("--seed", "6", "--store", store)))
    for (const { code, stderr, stdout } of told) {
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.match(stdout, /^Seed 6: \d+\.\d{3} s of virtual time, \d+ steps, and every rule holds\n$/)
    }
    // Each statement has steps of its own.
    assert.notStrictEqual(told[0]?.stdout, told[1]?.stdout)
  })

  // `Simulation.test.ts` looks whether another process tells the same one.
  it("tells the story of a seed, up to the step that it is asked for", async () => {
    const { stdout } = await run("--seed", "6", "--trace", "--until", "300")
    assert.match(stdout, / 0\.000 a\.1 {10}starts\n[^]*, 300 steps\n$/)
  })

  it("ends with 1 where a rule is broken, and tells the smallest scenario that breaks it", async () => {
    const { code, stderr, stdout } = await execute(new URL("brokenRule.ts", import.meta.url).pathname, "--seed", "1")
    assert.strictEqual(code, 1)
    assert.match(stderr, /^Seed 1: .*, and 4 violations; looking for a smaller scenario …\n$/)
    const [wrong, smaller] = stdout.split("A smaller scenario that breaks the rule, too:")
    assert.include(wrong, "nothing is asked: p1 is asked")
    assert.match(smaller ?? "", /^\n {2}1 replicas\n {2}plan [^\n]*\nIts story:\n[^]* is asked by a\.1\n/)
    assert.match(
      stdout,
      /\nWhat is wrong there:\n( {2}nothing is asked: [^\n]*\n)+The faults that it takes:\n {2}none\n$/
    )
  })

  it("refuses a wrong command line with 64, and names what is wrong", async () => {
    const { code, stderr } = await run("--seed", "six")
    assert.strictEqual(code, 64)
    assert.include(stderr, "--seed")
  })
})
