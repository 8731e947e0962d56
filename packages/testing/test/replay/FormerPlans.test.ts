import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { brotliDecompressSync } from "node:zlib"
import { type PlanRecording, read, replay } from "../../src/replay/Replay.ts"
import { simulate } from "../../src/simulation/Simulation.ts"

const folder = new URL("former/", import.meta.url)

/** Those that are not the same, a line each. */
const differing = async (recordings: ReadonlyArray<PlanRecording>): Promise<ReadonlyArray<string>> => {
  const lines: Array<string> = []
  for (const recording of recordings) {
    const replayed = await replay(recording)
    if (replayed._tag === "Different") lines.push(`${recording.plan.plan_id}: ${JSON.stringify(replayed)}`)
  }
  return lines
}

/**
 * In these, plans have budgets, answer peers, repeat effects, are parked, aborted and said several things at once, and start calls in other orders. In the later ones, processes die and plans are taken over: in the middle of
 * answers and calls, with other tools of a server, between an answer to a peer and what follows, and for good; a server changes its tools, or cannot be reached.
 */
const chosen = [9, 30, 43, 49, 60, 78, 238, 345, 352, 425, 485, 1009, 2125, 2205]
const given = process.env["BOWLINE_REPLAY_SEEDS"]
const first = Number(process.env["BOWLINE_SEED"] ?? 1)
const seeds = given === undefined ? chosen : Array.from({ length: Number(given) }, (_, index) => first + index)

describe("a plan on record", () => {
  it.each(readdirSync(folder))(
    "runs as it ran with the version %s, or the changelog says why not",
    async (name) => {
      const recordings = read(brotliDecompressSync(readFileSync(new URL(name, folder))))
      assert.lengthOf(recordings, 200)
      for (const recording of recordings) {
        assert.deepStrictEqual(await replay(recording), { _tag: "Same" }, recording.plan.plan_id)
      }
    },
    600_000
  )

  it(
    `runs as it ran in the simulation, whatever happened there (${seeds.length} seeds)`,
    { timeout: 36_000_000 },
    async () => {
      let plans = 0
      const lines: Array<string> = []
      const takenOver: Array<PlanRecording> = []
      for (const seed of seeds) {
        const run = await simulate({ seed })
        const recordings = run.records().flatMap((text) => read(Buffer.from(text)))
        plans += recordings.length
        takenOver.push(...recordings.filter(({ takeovers }) => takeovers.length > 0))
        lines.push(...(await differing(recordings)).map((line) => `seed ${seed}, ${line}`))
      }
      // Of many seeds a few depend on what is not on record, such as the instant of a wait that is over.
      assert.isAtMost(lines.length, Math.floor(plans * 0.01), lines.join("\n"))
      if (given !== undefined) return
      assert.isEmpty(lines, lines.join("\n"))
      // What the next process does is compared as well.
      const [recording] = takenOver
      assert(recording !== undefined)
      const frames = recording.frames.map(({ data, event, ...frame }) => ({
        ...frame,
        event,
        data: event === "retry" ? { ...data, attempt: 7 } : data
      }))
      const other = await replay({ ...recording, frames })
      assert(other._tag === "Different")
      assert.strictEqual(other.what, "retry")
    }
  )
})
