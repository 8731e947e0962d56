import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { brotliDecompressSync } from "node:zlib"
import { type PlanRecording, read, replay } from "../../src/replay/Replay.ts"
import { fieldsOf } from "../../src/replay/RecordFile.ts"
import { simulate } from "../../src/simulation/Simulation.ts"

const folder = new URL("former/", import.meta.url)

/** Why plans of the simulation cannot be run again, if they cannot. */
const reason = "its store was away, and when is not on record"

/** Those that are not the same, a line each. Counts why others cannot be run again. */
const differing = async (
  recordings: ReadonlyArray<PlanRecording>,
  refused: Map<string, number>
): Promise<ReadonlyArray<string>> => {
  const lines: Array<string> = []
  for (const recording of recordings) {
    const replayed = await replay(recording)
    if (replayed._tag === "Impossible") refused.set(replayed.why, (refused.get(replayed.why) ?? 0) + 1)
    if (replayed._tag === "Different") lines.push(`${recording.plan.plan_id}: ${JSON.stringify(replayed)}`)
  }
  return lines
}

/** What a plan records of its processes, of what other plans did to its credentials, and of what peers have handed back to them. */
const chosen = [2125, 5031, 7217, 33_349]
const given = process.env["BOWLINE_REPLAY_SEEDS"]
const first = Number(process.env["BOWLINE_SEED"] ?? 1)
const seeds = given === undefined ? chosen : Array.from({ length: Number(given) }, (_, index) => first + index)

/** Where tests of the gateway have kept what is on record of their plans: of some in `npm test`. */
const kept = process.env["BOWLINE_TEST_RECORDS"] ?? process.env["BOWLINE_TEST_RECORDS_SAMPLE"]
const reference = new URL("../../../../docs/reference/record.md", import.meta.url)

const readFormer = (name: string) => read(brotliDecompressSync(readFileSync(new URL(name, folder))))

/** Whether it tells what peers have handed back to earlier plans. */
const handsBack = ({ sources: { tasks } }: PlanRecording["sources"][number]): boolean =>
  tasks !== undefined && JSON.stringify(tasks).includes("remote_task_id")

const isOfFile = ({ data, event }: PlanRecording["frames"][number]): boolean =>
  event === "task.artifact" && "file_id" in data

describe("a plan on record", () => {
  it.skipIf(kept === undefined)(
    "runs as it ran in the tests of the gateway, or the reference says why it cannot",
    { timeout: 36_000_000 },
    async () => {
      const known = readFileSync(reference, "utf8")
      const lines: Array<string> = []
      const counts = new Map<string, number>()
      const withFiles: Array<PlanRecording> = []
      for (const name of readdirSync(kept ?? "").filter((name) => name.endsWith(".bowline"))) {
        for (const recording of read(readFileSync(join(kept ?? "", name)))) {
          const replayed = await replay(recording)
          // Names and versions are its own.
          const what = replayed._tag === "Impossible" ? replayed.why.replace(/ \(.*\)(?=:|$)/, "") : replayed._tag
          counts.set(what, (counts.get(what) ?? 0) + 1)
          if (replayed._tag === "Same" && recording.frames.some(isOfFile)) withFiles.push(recording)
          const isListed = replayed._tag === "Impossible" && known.includes(`\`${what}`)
          if (replayed._tag !== "Same" && !isListed) lines.push(`${name}: ${JSON.stringify(replayed)}`)
        }
      }
      assert.isEmpty(lines, lines.join("\n"))
      process.stdout.write(`Plans of the gateway's tests: ${JSON.stringify(Object.fromEntries(counts))}\n`)
      // Of a file its bytes do not count, but what it is.
      for (const recording of withFiles.slice(0, 1)) {
        const messages = recording.messages.map((message) => ({
          ...message,
          parts: message.parts.map((part) => (part.type === "file" ? { ...part, name: "other" } : part))
        }))
        assert.deepInclude(await replay({ ...recording, messages }), { _tag: "Different", what: "task.artifact" })
      }
    }
  )

  it.each(readdirSync(folder))(
    "runs as it ran with the version %s, or the changelog says why not",
    async (name) => {
      const recordings = readFormer(name)
      assert.lengthOf(recordings, 200)
      for (const recording of recordings) {
        assert.deepStrictEqual(await replay(recording), { _tag: "Same" }, recording.plan.plan_id)
      }
    },
    600_000
  )

  it("differs where it opens a socket", async () => {
    const recordings = readdirSync(folder).flatMap((name) =>
      readFormer(name)
        .filter(({ plan }) => plan["state"] === "completed")
        .slice(-1)
    )
    assert.isNotEmpty(recordings)
    class Opening extends Map<string, string> {
      override get(digest: string) {
        connect(9)
          .on("error", () => {})
          .destroy()
        return super.get(digest)
      }
    }
    for (const recording of recordings) {
      const replayed = await replay({ ...recording, texts: new Opening(recording.texts) })
      assert.deepInclude(replayed, { _tag: "Different", what: "outside" })
      assert.include(JSON.stringify(replayed), "net.connect")
    }
  })

  it("begins its step without a summary when the attempts at that have taken too long", async () => {
    const [recording] = read(Buffer.from((await simulate({ seed: 86_517 })).records()[2] ?? ""))
    assert(recording?.preferences !== undefined)
    const { plan, preferences } = recording
    const by = 5_000
    const later = (at: unknown) => new Date(Date.parse(String(at)) + by).toISOString()
    const step = recording.frames.findIndex(({ event }) => event === "step")
    const frames = recording.frames.map((frame, index) => ({
      ...frame,
      at: index < step ? frame.at : later(frame.at),
      data: frame.event === "plan" ? { ...fieldsOf(frame.data), deadline_at: later(plan.deadline_at) } : frame.data
    }))
    const timed = { ...preferences, timeout_ms: preferences.timeout_ms + by }
    const request = { ...fieldsOf(plan.request), preferences: timed }
    assert.deepStrictEqual(await replay({ ...recording, frames, preferences: timed, plan: { ...plan, request } }), {
      _tag: "Same"
    })
  })

  it(
    `runs as it ran in the simulation, whatever happened there (${seeds.length} seeds)`,
    { timeout: 36_000_000 },
    async () => {
      let plans = 0
      const refused = new Map<string, number>()
      const lines: Array<string> = []
      let takenOver: PlanRecording | undefined
      let naming: PlanRecording | undefined
      const say = (text: string) => given !== undefined && process.stdout.write(`${text}\n`)
      for (const [index, seed] of seeds.entries()) {
        const run = await simulate({ seed })
        const recordings = run.records().flatMap((text) => read(Buffer.from(text)))
        plans += recordings.length
        takenOver ??= recordings.find(({ takeovers }) => takeovers.length > 0)
        naming ??= recordings.find(({ sources }) => sources.some(handsBack))
        const found = (await differing(recordings, refused)).map((line) => `seed ${seed}, ${line}`)
        lines.push(...found)
        for (const line of found) say(line)
        if ((index + 1) % 100 > 0 && index + 1 < seeds.length) continue
        const { system, user } = process.cpuUsage()
        const spent = ((system + user) / 1e4 / (index + 1)).toFixed(1)
        say(
          `Up to seed ${seed}: ${plans} plans, ${lines.length} differ, refused: ${JSON.stringify([...refused])}; ${spent} s of CPU per 100 seeds`
        )
      }
      assert.isEmpty(lines, lines.join("\n"))
      for (const why of refused.keys()) assert.strictEqual(why, reason)
      if (given !== undefined) return
      // What the next process does is compared as well.
      assert(takenOver !== undefined)
      const frames = takenOver.frames.map(({ data, event, ...frame }) => ({
        ...frame,
        event,
        data: event === "retry" ? { ...data, attempt: 7 } : data
      }))
      const other = await replay({ ...takenOver, frames })
      assert(other._tag === "Different")
      assert.strictEqual(other.what, "retry")
      // So is what a summary names of earlier plans, unless a version has not recorded that.
      assert(naming !== undefined)
      const { sources } = naming
      const told = { type: "sources", place: 0, sources: { tasks: { told: { tasks: [] } } } } as const
      const without = sources.filter((one) => !handsBack(one))
      const forgotten = await replay({ ...naming, sources: [...without, told] })
      assert.deepInclude(forgotten, { _tag: "Different", step: 0, what: "prompt" })
      assert.deepInclude(await replay({ ...naming, sources: without }), {
        _tag: "Impossible",
        why: "its summary names tasks of earlier plans, whose ids at their peers are not in the record"
      })
    }
  )
})
