import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall, until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question } from "@bowline/testing/unstable/provider/Script"
import { say, type Turn, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { settled } from "./Cluster.ts"
import { databases } from "./Databases.ts"
import { ask, type Frame, get, replay, start } from "./GatewayProcess.ts"
import { sums } from "./SpentFrames.ts"
import { checkStream, factsIn, known, messagesOf } from "./Storm.ts"

/** Three turns of this length fit in a prompt, a fourth one is too long. */
const padding = ` ${"word ".repeat(480)}`
const window = { BOWLINE_CONTEXT_WINDOW: "4000", BOWLINE_SUMMARY_MODEL: "openai/scribe", BOWLINE_LEASE_TTL: "3s" }

/** What each answer has cost, and each summary. */
const spent = {
  step: usage({ input_tokens: 900, output_tokens: 9 }),
  summary: usage({ input_tokens: 500, output_tokens: 70 })
}
const price = { input: 1.1, cached: 0.13, output: 7.7 }

interface Instant {
  readonly title: string
  /** What the model of summaries does that is to say this. */
  readonly turn: (summary: string, kill: Effect.Effect<void>) => Turn
  /** What is stored then, where that is certain. */
  readonly stored?: "old" | "new"
}

const behindAnswer = (millis: number): Instant => ({
  title: `${millis} ms behind the summary`,
  // The wait is nobody's: the answer is over meanwhile.
  turn: (summary, kill) => [say(summary), until(Effect.asVoid(Effect.forkDetach(Effect.delay(kill, millis))))]
})

const inTheMidst: Instant = {
  title: "in the midst of the summary",
  turn: (summary, kill) => [say(summary), until(kill), stall],
  stored: "old"
}

const onceSeen: Instant = {
  title: "as soon as its caller has seen it",
  turn: (summary) => [say(summary)],
  stored: "new"
}

const compactionsIn = (frames: ReadonlyArray<Frame>) => frames.filter(({ event }) => event === "compaction")

const { embedded, postgres } = databases

const cases = [
  // It takes its time to start, and nothing of a summary is stored in the midst of it.
  { title: "embedded", database: embedded, resume: false, instants: [behindAnswer(4), onceSeen] },
  { title: "postgres", database: postgres, resume: false, instants: [inTheMidst, behindAnswer(8), onceSeen] },
  // One that was seen is stored, whether plans go on or not.
  {
    title: "postgres, with plans that go on",
    database: postgres,
    resume: true,
    instants: [inTheMidst, behindAnswer(4)]
  }
]

describe.each(cases)("a compaction of a gateway that is killed, $title", ({ database, instants, resume }) => {
  it.live("is stored as a whole or not at all, and the session is compacted again", () =>
    Effect.gen(function* () {
      const prompts: Array<ReadonlyArray<string>> = []
      let summarise = (summary: string): Turn => [say(summary)]
      const host = yield* ChatHost.make((asked) => {
        if (asked.model === "scribe") {
          return [...summarise([...new Set(factsIn(question(asked)))].join(" ")), spent.summary]
        }
        prompts.push(known(asked))
        return [say("noted"), spent.step]
      })
      const provider = yield* (yield* Network).serve(host)
      const models = { "openai/scripted": { price }, "openai/scribe": { price } }
      const folder = yield* folderOf({ "bowline.json": JSON.stringify({ plans: { resume }, models }) })
      const settings = {
        BOWLINE_CONFIG: join(folder, "bowline.json"),
        ...window,
        ...(yield* database),
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted"
      }
      let gateway = yield* start(settings)
      for (const [at, { title, turn, stored }] of instants.entries()) {
        const session = `session-${at}`
        const planted: Array<string> = []
        const nextQuestion = () => {
          planted.push(`FACT-${at}-${planted.length}`)
          return { question: `${planted.at(-1)}${padding}`, session_id: session }
        }
        const askNext = Effect.gen(function* () {
          const frames = yield* Stream.runCollect(ask(gateway.url, nextQuestion()))
          checkStream(frames)
          assert.deepStrictEqual(prompts.at(-1), planted, title)
          return compactionsIn(frames).length
        })
        for (let turns = 0; turns < 3; turns++) assert.strictEqual(yield* askNext, 0)

        const kill = Effect.asVoid(gateway.kill("SIGKILL"))
        summarise = (summary) => {
          summarise = (again) => [say(again)]
          return turn(summary, kill)
        }
        const seen = yield* ask(gateway.url, nextQuestion()).pipe(
          Stream.tap(({ event }) => (stored === "new" && event === "compaction" ? kill : Effect.void)),
          Stream.runCollect
        )
        yield* kill
        gateway = yield* start(settings)
        const planId = String(seen[0]?.data["plan_id"])
        const { state } = yield* settled(gateway.url, planId)
        const frames = yield* Stream.runCollect(replay(gateway.url, planId))
        assert.deepStrictEqual(frames.slice(0, seen.length), seen, title)
        const [told, ...more] = compactionsIn(frames)
        assert.isEmpty(more)
        if (resume) assert.strictEqual(state, "completed", title)
        // Plans that go on compact what is not compacted yet.
        const found = told === undefined ? "old" : "new"
        if (resume || stored !== undefined) assert.strictEqual(found, resume ? "new" : stored, title)
        const { summary } = yield* get(gateway.url, `/sessions/${session}`)
        assert.strictEqual(summary, told?.data["summary"] ?? null, title)
        const messages = yield* messagesOf(gateway.url, session)
        assert.deepStrictEqual(
          messages.map(({ compacted }) => compacted),
          messages.map((_, index) => index < Number(told?.data["messages_compacted"] ?? 0)),
          title
        )

        let compactions = 0
        while (compactions === 0) compactions += yield* askNext
      }
      // Whoever died meanwhile: what is charged is what plans have told, with their summaries.
      const { charged, told } = yield* sums(gateway.url)
      assert.isAbove(told.output_tokens, 9 * told.plans)
      for (const sum of charged) assert.deepStrictEqual(sum, told)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
