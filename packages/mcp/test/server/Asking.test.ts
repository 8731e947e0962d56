import { McpClient, type McpAnswer, type McpCall, type McpQuestion } from "@bowline/runtime/remote/McpClient"
import { direct } from "@bowline/runtime/remote/PeerClient"
import type { Host } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Struct } from "effect"
import * as SdkMcpClient from "../../src/server/SdkMcpClient.ts"
import { askBySdk1, askBySdk2, form, questions, type Told, url as page } from "./Asking.ts"
import { callTool, serverAt } from "./call.ts"
import { nothingSeen, ofSdk1, ofSdk2 } from "./Servers.ts"

const sockets = SdkMcpClient.layer.pipe(
  Layer.provide(NodeHttpClient.layerUndici),
  Layer.provideMerge(LoopbackNetwork.layer)
)

const modern = (told: Told): Host => ofSdk2(nothingSeen(), "reject", (server) => askBySdk2(server, told))
const legacy = (told: Told): Host => ofSdk1(nothingSeen(), (server) => askBySdk1(server, told))

const serve = Effect.fnUntraced(function* (host: (told: Told) => Host) {
  const told: Told = { calls: [], ended: [] }
  const { requests, url } = yield* (yield* Network).serve(host(told))
  const connect = Effect.flatMap(McpClient, (client) => client.connect(serverAt(url), direct, true))
  return { told, connect, requests, connection: yield* connect }
})

/** Answers each question as it is asked, and remembers it. */
const answering = (answer: (question: McpQuestion) => Effect.Effect<McpAnswer | "expired" | undefined>) => {
  const asked: Array<McpQuestion> = []
  const rest: Pick<McpCall, "answer"> = {
    answer: (question) => {
      asked.push(question)
      return answer(question)
    }
  }
  return { asked, rest }
}

const agrees = ({ schema }: McpQuestion) =>
  Effect.succeed<McpAnswer>(schema === null ? { action: "decline" } : { action: "accept", content: { days: 2 } })

const quiet = () => Effect.void
const given = { days: { action: "accept", content: { days: 2 } }, page: { action: "decline" } }
const shown = [
  { message: questions.days, schema: form },
  { message: questions.page, schema: null, url: page }
]

describe("a server of 2026-07-28 that asks in a result", () => {
  it.live("gets all answers with one further request, and the state that it gave", () =>
    Effect.gen(function* () {
      const { connection, requests, told } = yield* serve(modern)
      const { asked, rest } = answering(agrees)
      const result = yield* callTool(connection, "trip", { city: "Oslo" }, quiet, rest)
      assert.deepInclude(result, { state: "completed", text: JSON.stringify(given) })
      assert.deepStrictEqual(
        asked.map((question) => Struct.omit(question, ["mark"])),
        shown
      )
      assert.deepStrictEqual(told.calls, [
        { city: "Oslo", inputResponses: undefined, state: undefined },
        { city: "Oslo", inputResponses: given, state: "trip to Oslo" }
      ])
      const calls = (yield* requests.all).filter(({ body }) => body.includes('"tools/call"'))
      assert.isTrue(calls.every(({ body }) => /"elicitation":\{"form":\{\},"url":\{\}\}/.test(body)))
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live(
    "gets the answer to the last question from another process, with the arguments and answers of the first",
    () =>
      Effect.gen(function* () {
        const { connect, connection, told } = yield* serve(modern)
        const { asked, rest } = answering((question) => (question.schema === null ? Effect.never : agrees(question)))
        const first = yield* Effect.forkChild(callTool(connection, "trip", { city: "Oslo" }, quiet, rest))
        yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => asked.length === 2 })
        yield* Fiber.interrupt(first)
        const second = answering(agrees)
        const resumes = asked[1]?.mark
        const result = yield* callTool(yield* connect, "trip", { city: "Rome" }, quiet, { ...second.rest, resumes })
        assert.deepInclude(result, { state: "completed", text: JSON.stringify(given) })
        assert.deepStrictEqual(second.asked, asked.slice(1))
        assert.deepStrictEqual(told.calls.slice(1), [{ city: "Oslo", inputResponses: given, state: "trip to Oslo" }])
      }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is told cancel where nobody answers in time, and nothing where nobody can be asked", () =>
    Effect.gen(function* () {
      const { connection, told } = yield* serve(modern)
      const expires = answering(() => Effect.succeed("expired" as const))
      assert.strictEqual(
        (yield* callTool(connection, "trip", { city: "Oslo" }, quiet, expires.rest)).state,
        "timed-out"
      )
      const cancelled = { days: { action: "cancel" }, page: { action: "cancel" } }
      assert.deepNestedInclude(told.calls[1], { inputResponses: cancelled })
      const cannot = answering(() => Effect.undefined)
      const ended = yield* callTool(connection, "trip", { city: "Oslo" }, quiet, cannot.rest)
      assert.deepStrictEqual([ended.state, told.calls.length], ["input-required", 3])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )
})

it.live("a mark that nobody understands fails its call, and the server hears of none", () =>
  Effect.gen(function* () {
    const { connection, told } = yield* serve(modern)
    const { rest } = answering(agrees)
    const failed = yield* Effect.flip(callTool(connection, "trip", { city: "" }, quiet, { ...rest, resumes: "{}" }))
    assert.strictEqual(failed.reason._tag, "protocol")
    assert.deepStrictEqual(told.calls, [])
  }).pipe(Effect.scoped, Effect.provide(sockets))
)

/** As this version stores it: later ones have to go on from it. */
const stored =
  '{"_tag":"Pending","input":{"city":"Oslo"},"way":{"_tag":"Retry","state":"trip to Oslo"},' +
  '"asks":[["page",{"mode":"url","message":"Sign in","url":"https://weather.test/sign-in"}]],' +
  '"answers":{"days":{"action":"accept","content":{"days":2}}}}'

it.live("a call goes on from what a version before has stored of it", () =>
  Effect.gen(function* () {
    const { connection } = yield* serve(modern)
    const { asked, rest } = answering(agrees)
    const result = yield* callTool(connection, "trip", { city: "" }, quiet, { ...rest, resumes: stored })
    assert.strictEqual(result.text, JSON.stringify(given))
    assert.deepStrictEqual(asked, [{ message: questions.page, schema: null, url: page, mark: stored }])
  }).pipe(Effect.scoped, Effect.provide(sockets))
)

describe("a server of 2025-11-25 that asks while a call is open", () => {
  it.live("gets each answer as it comes, and goes on in the same call", () =>
    Effect.gen(function* () {
      const { connection, told } = yield* serve(legacy)
      const { asked, rest } = answering(agrees)
      const result = yield* callTool(connection, "trip", { city: "Oslo" }, quiet, rest)
      assert.deepInclude(result, { state: "completed", text: JSON.stringify(given) })
      assert.deepStrictEqual(asked, shown)
      assert.lengthOf(told.calls, 1)
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("gets the answers to the questions of calls side by side, each to its own", () =>
    Effect.gen(function* () {
      const { connection, told } = yield* serve(legacy)
      const both = yield* Deferred.make<void>()
      const { rest } = answering((question) =>
        Effect.andThen(
          told.calls.length > 1 ? Deferred.succeed(both, undefined) : Effect.void,
          Effect.andThen(Deferred.await(both), agrees(question))
        )
      )
      const call = callTool(connection, "trip", { city: "Oslo" }, quiet, rest)
      const results = yield* Effect.all([call, call], { concurrency: 2 })
      assert.deepStrictEqual(
        results.map(({ text }) => text),
        [JSON.stringify(given), JSON.stringify(given)]
      )
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is told cancel where nobody answers in time", () =>
    Effect.gen(function* () {
      const { connection } = yield* serve(legacy)
      const { asked, rest } = answering(({ schema }) =>
        Effect.succeed(schema === null ? "expired" : { action: "cancel" })
      )
      const result = yield* callTool(connection, "trip", { city: "Oslo" }, quiet, rest)
      assert.deepStrictEqual([result.state, asked.length], ["timed-out", 2])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is told to end the call when that is interrupted, and when nobody can be asked", () =>
    Effect.gen(function* () {
      const { connection, told } = yield* serve(legacy)
      const { asked, rest } = answering(() => Effect.never)
      const call = yield* Effect.forkChild(callTool(connection, "trip", { city: "Oslo" }, quiet, rest))
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => asked.length === 1 })
      yield* Fiber.interrupt(call)
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => told.ended.length === 1 })
      assert.deepStrictEqual(told.ended, ["trip"])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is called again when the person has visited the page that an error names, also by another process", () =>
    Effect.gen(function* () {
      const { connect, connection, told } = yield* serve(legacy)
      const { asked, rest } = answering(() => Effect.never)
      const first = yield* Effect.forkChild(callTool(connection, "page", { city: "Oslo" }, quiet, rest))
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => asked.length === 1 })
      yield* Fiber.interrupt(first)
      assert.deepInclude(asked[0], { message: questions.page, schema: null, url: page })
      const accepts = answering(() => Effect.succeed({ action: "accept" }))
      const resumes = asked[0]?.mark
      const result = yield* callTool(yield* connect, "page", { city: "" }, quiet, { ...accepts.rest, resumes })
      assert.deepInclude(result, { state: "completed", text: '"signed in"' })
      assert.deepStrictEqual(told.calls, [{ city: "Oslo" }, { city: "Oslo" }])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )

  it.live("is not called again when the person declines to visit the page", () =>
    Effect.gen(function* () {
      const { connection, told } = yield* serve(legacy)
      const { rest } = answering(() => Effect.succeed({ action: "decline" }))
      const result = yield* callTool(connection, "page", { city: "Oslo" }, quiet, rest)
      assert.deepStrictEqual([result.state, told.calls.length], ["failed", 1])
    }).pipe(Effect.scoped, Effect.provide(sockets))
  )
})
