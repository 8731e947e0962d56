import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import childProcess from "node:child_process"
import { randomBytes, randomInt, scrypt } from "node:crypto"
import dgram from "node:dgram"
import dns from "node:dns"
import fs, { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import net from "node:net"
import timers from "node:timers/promises"
import { Worker } from "node:worker_threads"
import zlib from "node:zlib"
import { plainPlan } from "../../src/simulation/scenario/Scenario.ts"
import * as Tools from "../../src/simulation/world/Tools.ts"
import { simulate } from "../../src/simulation/Simulation.ts"

const missing = "/nowhere/at/all"
const nothing = () => {}

/** What a tool must not use, by the name under which the run tells it. */
const uses: Readonly<Record<string, () => unknown>> = {
  "Date.now": () => Date.now(),
  "new Date()": () => new Date(),
  "Date()": () => Date(),
  "performance.now": () => performance.now(),
  "process.hrtime": () => process.hrtime(),
  "process.hrtime.bigint": () => process.hrtime.bigint(),
  setTimeout: () => setTimeout(nothing, 0),
  setInterval: () => clearInterval(setInterval(nothing, 1_000)),
  setImmediate: () => setImmediate(nothing),
  "timers/promises.setTimeout": () => timers.setTimeout(0),
  "AbortSignal.timeout": () => AbortSignal.timeout(1),
  "Math.random": () => Math.random(),
  "crypto.randomUUID": () => crypto.randomUUID(),
  "crypto.getRandomValues": () => crypto.getRandomValues(new Uint8Array(1)),
  "crypto.subtle.digest": () => crypto.subtle.digest("SHA-256", new Uint8Array(1)),
  "crypto.scrypt": () => scrypt("", "", 8, nothing),
  "crypto.randomInt": () => randomInt(2),
  "crypto.randomBytes": () => randomBytes(1),
  "fs.readFileSync": () => fs.readFileSync(import.meta.filename),
  "fs.readFile": () => fs.readFile(missing, nothing),
  "fs.existsSync": () => existsSync(missing),
  "fs.createReadStream": () => fs.createReadStream(missing).on("error", nothing),
  "fs.promises.readFile": () => readFile(missing).catch(nothing),
  "fs.promises.stat": () => fs.promises.stat(missing).catch(nothing),
  "net.connect": () => net.connect(1).on("error", nothing).destroy(),
  "net.listen": () => net.createServer().listen(0).close(),
  "dgram.bind": () => dgram.createSocket("udp4").bind(0).unref(),
  "dns.lookup": () => dns.lookup("127.0.0.1", nothing),
  fetch: () => fetch("data:,").catch(nothing),
  "child_process.spawn": () => childProcess.spawn(missing).on("error", nothing),
  "child_process.execFileSync": () => childProcess.execFileSync("true"),
  "zlib.gzip": () => zlib.gzip("", nothing),
  "new Worker()": () => new Worker("", { eval: true })
}

const tool: (typeof LocalTools.Service)[number] = {
  name: "use",
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description: "use",
  inputSchema: { type: "object" },
  timeoutMs: undefined,
  isIdempotent: false,
  isPolling: false,
  approval: undefined,
  identify: Effect.succeed(null),
  call: () =>
    Effect.sync(() => {
      for (const use of Object.values(uses)) use()
      return { state: "completed", content: "used" }
    })
}

const run = () =>
  simulate({
    seed: 1,
    world: () => ({ tools: Layer.succeed(LocalTools, [...Tools.tools, tool]) }),
    scenario: {
      seed: 1,
      replicas: 1,
      plans: [
        {
          ...plainPlan,
          steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool: "use", ms: 0 }] }, ...plainPlan.steps]
        }
      ],
      faults: []
    }
  })

describe("a run in which a tool uses the real world", () => {
  it("fails, and names the place of each use", async () => {
    const { misuse, violations } = await run()
    const told = misuse.map((line) =>
      line
        .split(" ")
        .slice(0, line.startsWith("new ") ? 2 : 1)
        .join(" ")
    )
    assert.deepStrictEqual(
      Object.keys(uses).filter((use) => !told.includes(use)),
      []
    )
    for (const line of misuse) assert.include(line, "RealWorld.test.ts")
    assert.deepStrictEqual(
      violations.map(({ what }) => what),
      misuse
    )
  })

  it("leaves everything as it was", async () => {
    const parts = () => {
      const connect: unknown = Reflect.get(net.Socket.prototype, "connect")
      return [Date, setTimeout, Math.random, existsSync, fs.promises.stat, connect, Worker]
    }
    const real = parts()
    await run()
    assert.deepStrictEqual(parts(), real)
  })
})
