import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { say, think } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Config, Deferred, Effect, Fiber, Schedule, Stream } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { ask, type Frame, replay, start } from "./GatewayProcess.ts"
import { read, stall } from "./RawReader.ts"

const stalledReaders = 10

/** 7.5 MiB: more than what the sockets of a reader that takes nothing hold (4 MiB on Linux), and what the gateway keeps for it (1 MiB). */
const rounds = 120
const roundSize = 65_536

/** `session`, `plan` and `step` come before them. */
const roundOf = (frame: number) => frame - 4

const mebibyte = 1_048_576

/** What the process has in memory, in MiB. */
const residentOf = (pid: number | undefined): number =>
  (Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * 4_096) / mebibyte

/** How many files and sockets the process has open. */
const openIn = (pid: number | undefined): number => readdirSync(`/proc/${pid}/fd`).length

const sizeOf = ({ id, event, data }: Frame) =>
  Buffer.byteLength(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}`)

describe("a plan with many readers", () => {
  it.live("waits for none of ten readers that read nothing, buffers little for them, and disconnects them", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const readers = (yield* Config.Int("BOWLINE_READERS").pipe(Config.withDefault(50))) - stalledReaders
      const everybodyIsThere = yield* Deferred.make<void>()
      // The provider says the next thing when all who read have the last one: whoever was held up would hold it up for ever.
      const missing = Array.from({ length: rounds }, () => readers)
      const everybodyHas = missing.map(() => Deferred.makeUnsafe<void>())
      const onFrame = (frame: number) => {
        const round = roundOf(frame)
        const gate = everybodyHas[round]
        if (gate === undefined) return
        missing[round] = (missing[round] ?? 0) - 1
        if (missing[round] === 0) Deferred.doneUnsafe(gate, Effect.void)
      }
      const turn = everybodyHas.flatMap((_, round) => [
        until(Deferred.await(everybodyHas[round - 1] ?? everybodyIsThere)),
        think(`${round} `.padEnd(roundSize, "x"))
      ])
      const provider = yield* network.serve(yield* ChatHost.make([[...turn, say("That is all.")]]))
      const gateway = yield* start({
        BOWLINE_DATA_DIR: "memory:",
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted"
      })

      const asked = yield* Deferred.make<string>()
      const preferences = { on_disconnect: "continue" }
      const asking = yield* ask(gateway.url, { question: "Tell me all", preferences }).pipe(
        Stream.tap(({ data }) => Deferred.succeed(asked, String(data["plan_id"]))),
        Stream.runCollect,
        Effect.forkChild
      )
      const planId = yield* Deferred.await(asked)
      const all = yield* Effect.forEach(
        Array.from({ length: readers }),
        () => Effect.promise(() => read(gateway.url, planId, onFrame)),
        { concurrency: 100 }
      )
      const openBefore = openIn(gateway.pid)
      const stuck = yield* Effect.forEach(Array.from({ length: stalledReaders }), () =>
        Effect.promise(() => stall(gateway.url, planId))
      )
      // The process may have a file open for a moment.
      yield* Effect.sync(() => openIn(gateway.pid)).pipe(
        Effect.repeat({ until: (open) => open === openBefore + stalledReaders, schedule: Schedule.spaced("20 millis") })
      )

      const residentBefore = residentOf(gateway.pid)
      let resident = 0
      const watching = yield* Effect.sync(() => (resident = Math.max(resident, residentOf(gateway.pid)))).pipe(
        Effect.repeat(Schedule.spaced("100 millis")),
        Effect.forkChild
      )
      yield* Deferred.succeed(everybodyIsThere, undefined)
      const told = yield* Fiber.join(asking)
      yield* Effect.promise(() => Promise.all(all.map(({ ended }) => ended)))
      yield* Fiber.interrupt(watching)

      const ids = told.map((_, index) => index + 1)
      const size = told.reduce((sum, frame) => sum + sizeOf(frame), 0)
      assert.deepStrictEqual(
        told.map(({ id }) => id),
        ids
      )
      for (const reader of all) {
        assert.deepStrictEqual(reader.ids, ids)
        assert.strictEqual(reader.size(), size)
      }
      assert.isBelow(resident - residentBefore, 300)

      // The gateway closes on those who take nothing, though the plan is over and they have not left.
      yield* Effect.sync(() => openIn(gateway.pid)).pipe(
        Effect.repeat({ until: (open) => open <= openBefore - readers, schedule: Schedule.spaced("100 millis") })
      )
      for (const readOn of stuck) {
        const { ids: seen, ended } = readOn()
        yield* Effect.promise(() => ended)
        assert.isBelow(seen.length, told.length)
        assert.deepStrictEqual(seen, ids.slice(0, seen.length))
        const rest = yield* Stream.runCollect(replay(gateway.url, planId, seen.length))
        assert.deepStrictEqual(rest, told.slice(seen.length))
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
