import { anonymous } from "@bowline/domain/caller/CallerName"
import { stall } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { error, finish, say, usage } from "@bowline/testing/provider/Turn"
import { all, layer, pass, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Metric } from "effect"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import { PlannerText } from "../../src/prompt/PlannerText.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { askBob, bob, names } from "../plan/Bob.ts"
import { ask, isSummary, keepFacts, small, textOf, words } from "../compaction/LongSession.ts"
import { measured } from "../telemetry/Measured.ts"

const overflow = error(400, { code: "context_length_exceeded", message: "too long" })

/** With instructions of a length that no edit of the built-in ones changes. */
const provide = (script: Script, given: Partial<Parameters<typeof layer>[0]> = {}) =>
  Effect.provide(
    layer({ script, ...given, config: { ...small, ...given.config } }).pipe(
      Layer.provide(Layer.succeed(PlannerText, Effect.succeed(`Plan. ${words(100)}`)))
    )
  )

const requests = Effect.flatMap(ScriptedProvider, ({ asked }) => asked.all)

const withoutDeltas = (events: Parameters<typeof names>[0]) => names(events).filter((name) => name !== "text.delta")

/** Three turns: what they have is too long together with another one. */
const threeTurns = Effect.forEach([1, 2, 3], (turn) => ask(`turn-${turn} FACT-${turn} ${words(700)}`))

const peers = (content: string) => ({
  call: () => Effect.succeed({ state: "completed" as const, content, verified: "unknown" as const })
})

const history = (count: number, length: number) =>
  Array.from({ length: count }, (_, turn) => [
    { role: "user", content: `turn-${turn} FACT-${turn} ${words(length)}` },
    { role: "assistant", content: "noted" }
  ]).flat()

describe("a prompt that is too long for a step", () => {
  it.effect("is summarised by one call, and continues with the summary and the newest turns", () =>
    Effect.gen(function* () {
      yield* threeTurns
      const events = yield* ask(`turn-4 ${words(700)}`)
      assert.deepStrictEqual(withoutDeltas(events), [
        "session",
        "plan",
        "usage",
        "compaction",
        "step",
        "usage",
        "final",
        "done"
      ])
      const told = single(events, "compaction")
      assert.deepInclude(told, { summary: "FACT-1 FACT-2 FACT-3", messages_compacted: 6 })
      assert.isAbove(told.tokens_before, 2_400)
      assert.isBelow(told.tokens_after, 1_200)
      assert.deepInclude(all(events, "usage")[0], { step: 0, attempt: 1, input_tokens: 7 })
      assert.strictEqual(single(events, "final").usage.input_tokens, 16)
      const asked = yield* requests
      assert.deepStrictEqual(asked.map(isSummary), [false, false, false, true, false])
      const last = asked.at(-1)
      assert.include(last?.system, "FACT-1 FACT-2 FACT-3")
      assert.notInclude(textOf(last), "turn-1")
      assert.deepStrictEqual(
        last?.messages.map(({ role }) => role),
        ["user"]
      )
      const sessions = yield* SessionStore
      const { session_id } = yield* sessions.find(anonymous, "s")
      const { items } = yield* sessions.messages(session_id, { limit: 100 })
      assert.deepStrictEqual(
        items.map(({ compacted }) => compacted),
        [true, true, true, true, true, true, false, false]
      )
    }).pipe(provide((asked) => [...keepFacts(asked), usage({ input_tokens: isSummary(asked) ? 7 : 9 })]))
  )

  it.effect("keeps its question, also when all that the plan has done is summarised", () =>
    Effect.gen(function* () {
      const events = yield* ask("what-was-asked", { agents: [bob] })
      assert.strictEqual(single(events, "final").text, "done")
      const asked = yield* requests
      assert.deepStrictEqual(asked.map(isSummary), [false, false, false, true, false])
      const last = asked.at(-1)
      assert.include(last?.system, "FACT-0")
      assert.include(last?.messages[0]?.role === "user" ? last.messages[0].text : "", "what-was-asked")
      assert.strictEqual(textOf(last).split("what-was-asked").length, 2)
      const roles = last?.messages.map(({ role }) => role)
      assert.deepStrictEqual(roles?.slice(0, 2), ["user", "assistant"])
      const next = yield* ask("next-question")
      single(next, "final")
      assert.include((yield* requests).at(-1)?.system, "FACT-0")
    }).pipe(
      provide(
        (() => {
          let steps = 0
          return (asked) => (isSummary(asked) ? keepFacts(asked) : steps++ < 3 ? askBob : [say("done")])
        })(),
        { peers: peers(`FACT-0 ${words(1_000)}`) }
      )
    )
  )

  it.effect("loses none of the planted facts in ten compactions, nor what the caller had summarised before", () =>
    Effect.gen(function* () {
      let compactions = 0
      for (let turn = 0; turn < 40 && compactions < 10; turn++) {
        const prior = turn === 0 ? { prior_summary: "FACT-prior" } : turn === 7 ? { prior_summary: "FACT-late" } : {}
        const events = yield* ask(`FACT-${turn} ${words(900)}`, prior)
        single(events, "final")
        compactions += all(events, "compaction").length
        const last = textOf((yield* requests).at(-1))
        for (let planted = 0; planted <= turn; planted++) assert.include(last, `FACT-${planted} `.trim())
        assert.include(last, "FACT-prior")
        if (turn >= 7) assert.include(last, "FACT-late")
      }
      assert.strictEqual(compactions, 10)
    }).pipe(provide(keepFacts))
  )

  it.effect("stays as it is when no summary can be made and it fits", () =>
    Effect.gen(function* () {
      const reader = yield* Effect.forkChild(ask("now", { history: history(3, 850) }))
      yield* pass("1 minute", "1 second")
      const events = yield* Fiber.join(reader)
      assert.strictEqual(single(events, "final").text, "fine")
      assert.isEmpty(all(events, "compaction"))
      assert.isEmpty(all(events, "retry"))
      const asked = yield* requests
      assert.deepStrictEqual(asked.map(isSummary), [true, true, true, true, false])
      assert.include(textOf(asked.at(-1)), "turn-0")
    }).pipe(provide((asked) => (isSummary(asked) ? [error(500)] : [say("fine")])))
  )

  it.effect("treats a summary that was cut at its limit as a failure, and counts it", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 850) })
      assert.strictEqual(single(events, "final").text, "fine")
      assert.deepStrictEqual((yield* requests).map(isSummary), [true, false])
      const failed = (yield* Metric.snapshot).filter(({ id }) => id === "bowline.compactions.failed")
      assert.deepStrictEqual(
        failed.map(({ attributes }) => attributes?.["error.type"]),
        ["summary_unfinished"]
      )
      assert.strictEqual(yield* measured("bowline.compaction.duration", { result: "failed" }), 1)
    }).pipe(
      provide((asked) => (isSummary(asked) ? [say("half"), finish("length")] : [say("fine")])),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
  )

  it.effect("treats a summary that leaves no room for anything else as a failure", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 850) })
      assert.strictEqual(single(events, "final").text, "fine")
      assert.isEmpty(all(events, "compaction"))
      assert.strictEqual(single(yield* ask("again"), "final").text, "fine")
    }).pipe(provide((asked) => (isSummary(asked) ? [say(words(2_000))] : [say("fine")])))
  )

  it.effect("puts what the caller had summarised into the next summary, however long it is", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 300), prior_summary: `FACT-0 ${words(2_500)}` })
      assert.strictEqual(single(events, "compaction").summary, "FACT-0")
      assert.strictEqual(single(events, "final").text, "noted")
    }).pipe(provide(keepFacts))
  )

  it.effect("loses its head without a summary when it does not fit, and has it back when there is one", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(6, 700) })
      assert.strictEqual(single(events, "final").text, "noted")
      const last = textOf((yield* requests).at(-1))
      assert.notInclude(last, "turn-0")
      assert.include(last, "is left out here")
      const next = yield* ask("again")
      assert.include(single(next, "compaction").summary, "FACT-0")
    }).pipe(
      provide(
        (() => {
          let calls = 0
          return (asked) => (isSummary(asked) && calls++ === 0 ? [error(500)] : keepFacts(asked))
        })(),
        { config: { maxRetries: 0 } }
      )
    )
  )

  it.effect("has its results shortened when no summary can be made and it does not fit", () =>
    Effect.gen(function* () {
      const reader = yield* Effect.forkChild(ask("now", { agents: [bob] }))
      yield* pass("1 minute", "1 second")
      const events = yield* Fiber.join(reader)
      assert.strictEqual(single(events, "final").text, "done")
      assert.isEmpty(all(events, "compaction"))
      const lengths = (yield* requests)
        .filter((asked) => !isSummary(asked))
        .map(({ messages }) => messages.flatMap((message) => (message.role === "tool" ? [message.content.length] : [])))
      const [before = 0] = lengths[1] ?? []
      assert.lengthOf(lengths[4] ?? [], 4)
      for (const length of lengths[4] ?? []) assert.isBelow(length, before)
    }).pipe(
      provide(
        (() => {
          let steps = 0
          return (asked) => (isSummary(asked) ? [error(500)] : steps++ < 4 ? askBob : [say("done")])
        })(),
        { peers: peers(words(1_100)) }
      )
    )
  )

  it.effect("ends in context_overflow when the question itself does not fit", () =>
    Effect.gen(function* () {
      const events = yield* ask(words(5_000))
      assert.deepInclude(single(events, "error"), { code: "context_overflow", retryable: false, stage: "compaction" })
      assert.isEmpty(yield* requests)
    }).pipe(provide([]))
  )

  it.effect("is not summarised for ten minutes after three failures in a row", () =>
    Effect.gen(function* () {
      yield* ask("now", { history: history(3, 850) })
      for (let plan = 0; plan < 4; plan++) yield* ask(`plan ${plan}`)
      assert.strictEqual((yield* requests).filter(isSummary).length, 3)
      yield* pass("10 minutes", "1 minute")
      yield* ask("later")
      assert.strictEqual((yield* requests).filter(isSummary).length, 4)
    }).pipe(provide((asked) => (isSummary(asked) ? [error(500)] : [say("fine")]), { config: { maxRetries: 0 } }))
  )

  it.effect("is summarised in the time that is left to its plan, and its deadline is blamed on no credential", () =>
    Effect.gen(function* () {
      const preferences = { timeout_ms: 60_000 }
      const reader = yield* Effect.forkChild(ask("now", { history: history(3, 850), preferences }))
      yield* pass("2 minutes", "1 second")
      const events = yield* Fiber.join(reader)
      assert.deepInclude(single(events, "error"), { code: "aborted", reason: "deadline", stage: "compaction" })
      const [asked] = yield* requests
      assert.strictEqual(yield* Effect.flatMap(Effect.fromNullishOr(asked), ({ ended }) => ended), "interrupted")
      assert.deepInclude((yield* (yield* CredentialPool).list)[0], { state: "ok", windows: [] })
    }).pipe(provide(() => [usage({ input_tokens: 3 }), stall], { config: { idleTimeout: Duration.seconds(30) } }))
  )

  it.effect("continues when the model of summaries is silent, which is blamed on no credential", () =>
    Effect.gen(function* () {
      const reader = yield* Effect.forkChild(ask("now", { history: history(3, 850) }))
      yield* pass("5 minutes", "1 second")
      assert.strictEqual(single(yield* Fiber.join(reader), "final").text, "fine")
      assert.deepStrictEqual((yield* requests).map(isSummary), [true, true, false])
      assert.deepInclude((yield* (yield* CredentialPool).list)[0], { state: "ok", windows: [] })
    }).pipe(provide((asked) => (isSummary(asked) ? [stall] : [say("fine")])))
  )

  it.effect("puts a key aside that is refused for a summary, like any other", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 850) })
      assert.strictEqual(single(events, "error").code, "provider_auth")
      assert.deepInclude((yield* (yield* CredentialPool).list)[0], { state: "out" })
    }).pipe(provide([[error(401)]]))
  )
})

describe("a step that is refused as too long", () => {
  it.effect("is asked once more with a shorter prompt", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 20) })
      assert.deepStrictEqual(withoutDeltas(events), ["session", "plan", "step", "compaction", "retry", "final", "done"])
      assert.deepInclude(single(events, "retry"), { step: 1, attempt: 2, delay_ms: 0 })
      assert.strictEqual(single(events, "retry").error.code, "context_overflow")
      const asked = yield* requests
      assert.deepStrictEqual(asked.map(isSummary), [false, true, false])
      assert.include(asked.at(-1)?.system, "FACT-0")
      assert.notInclude(textOf(asked.at(-1)), "turn-0")
    }).pipe(
      provide(
        (() => {
          let calls = 0
          return (asked) => (calls++ === 0 ? [overflow] : keepFacts(asked))
        })()
      )
    )
  )

  it.effect("recovers in mid-plan, with every call and its result together", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 200), agents: [bob] })
      assert.strictEqual(single(events, "final").text, "noted")
      const last = (yield* requests).at(-1)
      assert.deepStrictEqual(
        last?.messages.map(({ role }) => role),
        ["user", "assistant", "tool"]
      )
    }).pipe(
      provide(
        (() => {
          let calls = 0
          return (asked) => (calls++ === 0 ? askBob : calls === 2 ? [overflow] : keepFacts(asked))
        })(),
        { peers: peers("hi") }
      )
    )
  )

  it.effect("ends in context_overflow when it is refused again", () =>
    Effect.gen(function* () {
      const events = yield* ask("now", { history: history(3, 200) })
      const failure = single(events, "error")
      assert.deepInclude(failure, { code: "context_overflow", retryable: false })
      assert.deepInclude(failure.data, { attempts: 2, reasons: ["context_overflow", "context_overflow"] })
      assert.deepStrictEqual((yield* requests).map(isSummary), [false, true, false])
    }).pipe(provide((asked) => (isSummary(asked) ? [say("short")] : [overflow])))
  )

  it.effect("ends in context_overflow when there is nothing to leave out", () =>
    Effect.gen(function* () {
      assert.strictEqual(single(yield* ask("now"), "error").code, "context_overflow")
      assert.lengthOf(yield* requests, 1)
    }).pipe(provide([[overflow]]))
  )
})
