import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { eventsOf, post, type RunningGateway, send, startOn, stores } from "./RunningGateway.ts"

const isSummary = ({ system }: Asked) => system.startsWith("You keep the memory")

const small = { BOWLINE_MODEL: "openai/planner", BOWLINE_CONTEXT_WINDOW: "4000", BOWLINE_RETRY_BASE: "1ms" }
const long = (text: string) => `${text} ${"word ".repeat(450)}`
const earlier = [1, 2, 3, 4].flatMap((turn) => [
  { role: "user", content: long(`question ${turn}`) },
  { role: "assistant", content: long(`answer ${turn}`) }
])

const modelsOf = ({ provider }: RunningGateway) =>
  Effect.flatMap(provider.requests.all, (all) =>
    Effect.forEach(all, (request) => Effect.map(ChatHost.asked(request), (asked) => [asked.model, isSummary(asked)]))
  )

const compact = (url: string, session: string) => post(`${url}/sessions/${session}/compact`, {})

/** Three turns, of which the last fits in what stays of a small window. */
const threeTurns = Effect.fnUntraced(function* (url: string) {
  for (let turn = 0; turn < 3; turn++) yield* post(`${url}/plan`, { question: long("?"), session_id: "s" })
})

describe.each(Object.entries(stores))("compaction over HTTP, %s", (_, store) => {
  const start = startOn(store)

  it.live("summarises with the model that BOWLINE_SUMMARY_MODEL names, once, and continues with the planner's", () =>
    Effect.gen(function* () {
      const gateway = yield* start((asked) => [say(isSummary(asked) ? "FACT 4711" : "fine")], {
        ...small,
        BOWLINE_SUMMARY_MODEL: "openai/scribe"
      })
      const body = { question: "?", history: earlier, prior_summary: "planted" }
      const { text } = yield* post(`${gateway.url}/plan`, body, { accept: "text/event-stream" })
      assert.deepStrictEqual(
        eventsOf(text).filter((event) => event !== "text.delta"),
        ["session", "plan", "compaction", "step", "final", "done"]
      )
      assert.match(text, /^event: compaction\ndata: \{.*"summary":"FACT 4711".*"messages_compacted":8/m)
      assert.deepStrictEqual(yield* modelsOf(gateway), [
        ["scribe", true],
        ["planner", false]
      ])
    })
  )

  it.live("compacts a session on request, and answers null when there is nothing to gain", () =>
    Effect.gen(function* () {
      const gateway = yield* start((asked) => [say(isSummary(asked) ? "FACT 4711" : "fine")], small)
      const { url } = gateway
      yield* threeTurns(url)
      const first = yield* compact(url, "s")
      assert.strictEqual(first.status, 200)
      assert.deepInclude(first.body["compaction"], { summary: "FACT 4711", messages_compacted: 4 })
      assert.deepInclude((yield* send(`${url}/sessions/s`)).body, { summary: "FACT 4711", message_count: 6 })
      const second = yield* compact(url, "s")
      assert.deepStrictEqual([second.status, second.body], [200, { compaction: null }])
      assert.strictEqual((yield* compact(url, "other")).status, 404)
    })
  )

  it.live("refuses to compact a session that has a plan", () =>
    Effect.gen(function* () {
      const { url, provider } = yield* start([[stall]], small)
      const plan = yield* Effect.forkChild(post(`${url}/plan`, { question: "?", session_id: "s" }))
      yield* Effect.repeat(provider.requests.all, { until: (all) => all.length > 0 })
      const refused = yield* compact(url, "s")
      assert.deepStrictEqual([refused.status, refused.body["code"]], [409, "session_busy"])
      yield* Fiber.interrupt(plan)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("answers unavailable when no summary can be made, and changes nothing", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) => (isSummary(asked) ? [error(500)] : [say("fine")]), small)
      yield* threeTurns(url)
      const failed = yield* compact(url, "s")
      assert.deepStrictEqual([failed.status, failed.body["code"]], [503, "unavailable"])
      assert.deepInclude((yield* send(`${url}/sessions/s`)).body, { summary: null })
    })
  )
})
