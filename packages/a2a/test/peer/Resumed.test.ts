import { assert, describe, it } from "@effect/vitest"
import type { PeerCall } from "@bowline/runtime/remote/PeerClient"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { appends, becomes, completes, produces, says, stuck, works, type Act } from "@bowline/testing/peer/Act"
import { serve, type ScriptedPeer } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/unstable/peer/Trouble"
import { Effect, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"
import { anotherClient, memory, openTask, question, reasonOf, start } from "./call.ts"

const story = [
  says("Reading"),
  works("20 seconds"),
  produces("A"),
  says("Writing"),
  works("20 seconds"),
  produces("B"),
  completes("Done")
]

const dialects = ["a2a-1.0", "a2a-0.3", "bindu"] as const
const ways = dialects.flatMap((dialect) => [
  { dialect, streaming: false, how: "polled" },
  { dialect, streaming: true, how: "streamed" }
])

const isHandedOver = () => true
const unknown = { taskId: "00000000-0000-4000-8000-0000000000ff", contextId: null }

/** The task of somebody else, as the answer to a get, and as an event of a stream. */
const other = (dialect: (typeof dialects)[number]) => {
  const status = { state: dialect === "a2a-1.0" ? "TASK_STATE_WORKING" : "working" }
  const task = { ...(dialect !== "a2a-1.0" && { kind: "task" }), id: unknown.taskId, contextId: "other", status }
  return { got: task, told: dialect === "a2a-1.0" ? { task } : task }
}

const streamOf = (...results: ReadonlyArray<object>) =>
  Trouble.answers(
    200,
    { "content-type": "text/event-stream" },
    results.map((result) => `data: ${JSON.stringify({ result })}\n\n`).join("")
  )

/** A call of a process of its own. */
const call = Effect.fnUntraced(function* (...asked: Parameters<typeof question>) {
  return yield* Effect.provide(start(question(...asked)), yield* anotherClient)
})

const messagesOf = (peer: ScriptedPeer) => Effect.map(peer.seen, ({ sends, streams }) => sends.length + streams.length)

const artifactsOf = ({ events }: Effect.Success<ReturnType<typeof call>>) =>
  events.flatMap((event) => (event._tag === "Artifact" ? [event.content] : []))

describe.each(ways)("a task that is $how in $dialect", ({ dialect, streaming }) => {
  const from = (url: string, more: Partial<PeerCall>) => call(url, { dialect, streaming }, more)

  /** Starts a task in a process that is gone after 5 seconds, and leaves its task to the next one. */
  const handedOver = Effect.fnUntraced(function* (acts: ReadonlyArray<Act>) {
    const peer = yield* serve({ dialect, streams: streaming, acts })
    const before = yield* from(peer.url, { isHandedOver })
    yield* TestClock.adjust("5 seconds")
    yield* Fiber.interrupt(before.fiber)
    return { peer, resumes: openTask(before) }
  })

  /** The card, the subscription and the poll take 100 ms each, a step 30. */
  const interruptAfter = Effect.fnUntraced(function* (steps: number, again: boolean) {
    const { peer, resumes } = yield* handedOver([stuck])
    for (const target of ["card", "tasks/resubscribe", "tasks/get"] as const) {
      yield* peer.disturb(target, Trouble.late("100 millis"))
    }
    const { fiber } = yield* call(peer.url, { dialect: "auto", streaming }, { resumes, isHandedOver: () => again })
    for (let taken = 0; taken < steps; taken++) yield* TestClock.adjust("30 millis")
    yield* Fiber.interrupt(fiber)
    yield* TestClock.adjust("10 seconds")
    const at = `after ${steps} steps`
    assert.deepStrictEqual((yield* peer.seen).cancels, again ? [] : [resumes.taskId], at)
    assert.deepStrictEqual([yield* messagesOf(peer), yield* peer.requests.open], [1, 0], at)
  }, Effect.scoped)

  it.effect("runs on when it is handed over, with its sockets closed and nothing in the log", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make(({ message }) => lines.push(message))
    return Effect.gen(function* () {
      const { peer } = yield* handedOver([stuck])
      const { polls } = yield* peer.seen
      assert.strictEqual(yield* peer.requests.open, 0)
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* peer.seen, { polls, cancels: [], refused: [] })
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.provide([MemoryNetwork.layer, Logger.layer([logger])]))
  })

  it.effect("runs on also when it is handed over before the peer has sent its id", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make(({ message }) => lines.push(message))
    return Effect.gen(function* () {
      const peer = yield* serve({ dialect, streams: streaming, acts: [stuck] })
      yield* peer.disturb(streaming ? "message/stream" : "message/send", Trouble.silent)
      const { fiber } = yield* from(peer.url, { isHandedOver })
      yield* peer.awaitSeen(({ sends, streams }) => sends.length + streams.length > 0)
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual([(yield* peer.seen).cancels, lines], [[], []])
    }).pipe(Effect.provide([MemoryNetwork.layer, Logger.layer([logger])]))
  })

  it.effect("is resumed by the next process, and nothing is sent again", () =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* handedOver(story)
      const next = yield* from(peer.url, { resumes })
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(next.fiber), { state: "completed", content: "Done\n\nA\n\nB" })
      assert.deepStrictEqual(artifactsOf(next), ["A", "B"])
      assert.deepInclude(next.events, { _tag: "Progress", state: "working", message: "Writing" })
      assert.notInclude(
        next.events.map(({ _tag }) => _tag),
        "Accepted"
      )
      assert.strictEqual(yield* messagesOf(peer), 1)
      const subscriptions = streaming ? [resumes.taskId] : []
      assert.deepInclude(yield* peer.seen, { subscriptions, cancels: [], refused: [] })
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect(
    "is over for the next process 50 ms after it asks, when it has ended meanwhile, with each artifact once",
    () =>
      Effect.gen(function* () {
        const { peer, resumes } = yield* handedOver(story)
        yield* TestClock.adjust("10 minutes")
        const next = yield* from(peer.url, { resumes })
        yield* TestClock.adjust("50 millis")
        assert.deepInclude(yield* Fiber.join(next.fiber), { state: "completed", content: "Done\n\nA\n\nB" })
        assert.deepStrictEqual(artifactsOf(next), ["A", "B"])
        assert.strictEqual(yield* messagesOf(peer), 1)
        assert.deepInclude(yield* peer.seen, { cancels: [], refused: [] })
      }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is handed back by the next process, when the peer has asked for something meanwhile", () =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* handedOver([works("10 seconds"), becomes("input-required", "Which?")])
      yield* TestClock.adjust("10 minutes")
      const { fiber } = yield* from(peer.url, { resumes })
      yield* TestClock.adjust("50 millis")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "input-required", content: "Which?" })
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* messagesOf(peer), 1)
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([true, false])(
    "is cancelled once by the next process, after whichever step it is interrupted, unless that hands it over: %s",
    (again) =>
      Effect.gen(function* () {
        for (let steps = 0; steps < 15; steps++) yield* interruptAfter(steps, again)
      }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is cancelled also by a next process that is interrupted before it asks for the task", () =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* handedOver([stuck])
      const { polls } = yield* peer.seen
      yield* peer.disturb("card", Trouble.late("1 second"))
      const { fiber } = yield* call(peer.url, { dialect: "auto", streaming }, { resumes })
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* peer.cancelled, resumes.taskId)
      yield* TestClock.adjust("10 seconds")
      assert.deepInclude(yield* peer.seen, { polls, subscriptions: [], cancels: [resumes.taskId] })
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("that the peer does not know any more fails the call, as does the answer for another task", () =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* handedOver([stuck])
      const forgotten = yield* from(peer.url, { resumes: unknown })
      yield* TestClock.adjust("50 millis")
      assert.deepInclude(yield* reasonOf(forgotten), { _tag: "rpc", code: -32001 })

      yield* peer.disturb("tasks/get", Trouble.answers(200, {}, JSON.stringify({ result: other(dialect).got })))
      yield* peer.disturb("tasks/resubscribe", streamOf(other(dialect).told))
      const confused = yield* from(peer.url, { resumes })
      yield* TestClock.adjust("50 millis")
      assert.deepInclude(yield* reasonOf(confused), { _tag: "protocol" })
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual((yield* peer.seen).cancels, [unknown.taskId, resumes.taskId])
      assert.strictEqual(yield* messagesOf(peer), 1)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is cancelled by a call that fails by itself, handed over or not", () =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* handedOver([stuck])
      yield* peer.disturb("tasks/resubscribe", Trouble.answers(404))
      yield* peer.disturb("tasks/get", Trouble.answers(404))
      const failing = yield* from(peer.url, { resumes, isHandedOver })
      yield* TestClock.adjust("50 millis")
      assert.deepInclude(yield* reasonOf(failing), { _tag: "http", status: 404 })
      assert.strictEqual(yield* peer.cancelled, resumes.taskId)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe.each(dialects)("a task in %s to whose stream the next process cannot subscribe", (dialect) => {
  it.effect.each([Trouble.answers(404), Trouble.silent, Trouble.stallsBehind(0), Trouble.breaks("reset")])(
    "is polled",
    (trouble) =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, streams: true, acts: story })
        const before = yield* call(peer.url, { dialect, streaming: true }, { isHandedOver })
        yield* Fiber.interrupt(before.fiber)
        yield* peer.disturb("tasks/resubscribe", trouble)
        const next = yield* call(peer.url, { dialect, streaming: true }, { resumes: openTask(before) })
        yield* TestClock.adjust("1 minute")
        assert.deepInclude(yield* Fiber.join(next.fiber), { state: "completed", content: "Done\n\nA\n\nB" })
        const { cancels, polls, streams, subscriptions } = yield* peer.seen
        assert.deepStrictEqual([streams.length, subscriptions.length, cancels], [1, 1, []])
        assert.isAbove(polls.length, 1)
      }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

it.effect("a task is fetched whole when the next process hears only of its last pieces", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ streams: true, acts: [produces("A"), works("10 seconds"), appends("B"), completes()] })
    const before = yield* call(peer.url, { streaming: true }, { isHandedOver })
    yield* Fiber.interrupt(before.fiber)
    yield* TestClock.adjust("10 seconds")
    const resumes = openTask(before)
    const artifact = { artifactId: `${resumes.taskId}-artifact-1`, parts: [{ kind: "text", text: "B" }] }
    const events = [
      { kind: "artifact-update", ...resumes, artifact, append: true, lastChunk: true },
      { kind: "status-update", ...resumes, status: { state: "completed" }, final: true }
    ]
    yield* peer.disturb("tasks/resubscribe", streamOf(...events))
    const next = yield* call(peer.url, { streaming: true }, { resumes })
    assert.deepInclude(yield* Fiber.join(next.fiber), { state: "completed", content: "A\nB" })
    assert.deepStrictEqual(artifactsOf(next), ["A\nB"])
  }).pipe(Effect.provide(MemoryNetwork.layer))
)

it.effect("a task is resumed in the dialect of the last call of its peer", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ acts: [works("10 minutes"), completes("Done")] })
    const first = yield* start(question(peer.url, { dialect: "auto" }, { isHandedOver }))
    yield* TestClock.adjust("6 minutes")
    yield* Fiber.interrupt(first.fiber)
    const card = { supportedInterfaces: [{ url: peer.url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }] }
    yield* peer.disturb("card", Trouble.answers(200, {}, JSON.stringify(card)))
    const next = yield* start(question(peer.url, { dialect: "auto" }, { resumes: openTask(first) }))
    yield* TestClock.adjust("5 minutes")
    assert.deepInclude(yield* Fiber.join(next.fiber), { state: "completed", content: "Done" })
  }).pipe(Effect.provide(memory))
)

/** Starts a task in a process that is gone after 5 seconds. Nobody knows yet how its peer is spoken to. */
const leftAlone = Effect.fnUntraced(function* (script: Partial<Parameters<typeof serve>[0]>) {
  const peer = yield* serve({ streams: false, acts: [works("40 seconds"), completes("Done")], ...script })
  const before = yield* call(peer.url, { dialect: "auto" }, { isHandedOver })
  yield* TestClock.adjust("5 seconds")
  yield* Fiber.interrupt(before.fiber)
  return { peer, resumes: openTask(before) }
})

const times = (count: number, trouble: Trouble.Trouble) => Array.from({ length: count }, () => trouble)

describe.each(dialects)("a task in %s whose card is unavailable when the next process needs it", (dialect) => {
  it.effect.each([
    times(1, Trouble.silent),
    times(1, Trouble.breaks("reset")),
    times(1, Trouble.answers(429, { "retry-after": "20" })),
    times(20, Trouble.answers(503))
  ])("is resumed as soon as the card is there", (troubles) =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* leftAlone({ dialect })
      yield* peer.disturb("card", ...troubles)
      const { fiber } = yield* call(peer.url, { dialect: "auto" }, { resumes })
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "Done" })
      assert.deepInclude(yield* peer.seen, { cancels: [], refused: [] })
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect.each([true, false])("is cancelled in its dialect, unless it is handed over once more: %s", (again) =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* leftAlone({ dialect })
      yield* peer.disturb("card", ...times(20, Trouble.answers(503)))
      const { fiber } = yield* call(peer.url, { dialect: "auto" }, { resumes, isHandedOver: () => again })
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("5 seconds")
      assert.deepInclude(yield* peer.seen, { cancels: again ? [] : [resumes.taskId], refused: [] })
      assert.strictEqual(yield* peer.requests.open, 0)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is not asked for in the dialect that another call of the next process has guessed", () =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* leftAlone({ dialect })
      const client = yield* anotherClient
      yield* peer.disturb("card", ...times(2, Trouble.answers(503)))
      yield* Effect.provide(start(question(peer.url, { dialect: "auto" })), client)
      const { refused } = yield* peer.awaitSeen(({ refused, sends }) => refused.length + sends.length > 1)
      const { fiber } = yield* Effect.provide(start(question(peer.url, { dialect: "auto" }, { resumes })), client)
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "Done" })
      assert.deepStrictEqual((yield* peer.seen).refused, refused)
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )
})

describe("a task that is resumed", () => {
  it.effect.each([
    { card: "none", troubles: [], after: "50 millis" },
    { card: {}, troubles: times(100, Trouble.answers(503)), after: "31 seconds" }
  ] as const)("is one of A2A 0.3 where there is no card, or none for 30 seconds", ({ after, card, troubles }) =>
    Effect.gen(function* () {
      const { peer, resumes } = yield* leftAlone({ card, acts: [works("1 second"), completes("Done")] })
      yield* peer.disturb("card", ...troubles)
      const { fiber } = yield* call(peer.url, { dialect: "auto" }, { resumes })
      yield* TestClock.adjust(after)
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Done")
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("has an unreachable peer when nobody answers the request for the card for 30 seconds", () =>
    Effect.gen(function* () {
      const gone = yield* call("http://nobody.test", { dialect: "auto" }, { resumes: unknown })
      yield* TestClock.adjust("29 seconds")
      assert.isUndefined(gone.fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* reasonOf(gone))._tag, "unreachable")
      yield* TestClock.adjust("5 seconds")
    }).pipe(Effect.provide([MemoryNetwork.layer, Logger.layer([])]))
  )

  it.effect("shares the requests for a card with the others that wait for it", () =>
    Effect.gen(function* () {
      const asked = Effect.fnUntraced(function* (tasks: number) {
        const { peer, resumes } = yield* leftAlone({})
        const client = yield* anotherClient
        yield* peer.disturb("card", ...times(15, Trouble.answers(503)))
        const before = (yield* peer.requests.all).length
        for (let task = 0; task < tasks; task++) {
          yield* Effect.provide(start(question(peer.url, { dialect: "auto" }, { resumes })), client)
        }
        yield* TestClock.adjust("3 seconds")
        return (yield* peer.requests.all).length - before
      })
      assert.isBelow(yield* asked(10), 2 * (yield* asked(1)))
    }).pipe(Effect.provide(MemoryNetwork.layer))
  )

  it.effect("is resumed though the circuit of its peer is open", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [works("40 seconds"), completes("Done")] })
      const first = yield* start(question(peer.url, {}, { isHandedOver }))
      yield* Fiber.interrupt(first.fiber)
      yield* peer.disturb("message/send", ...times(5, Trouble.answers(503)))
      for (let failed = 0; failed < 5; failed++) yield* reasonOf(yield* start(question(peer.url)))
      assert.strictEqual((yield* reasonOf(yield* start(question(peer.url))))._tag, "circuit_open")
      const next = yield* start(question(peer.url, {}, { resumes: openTask(first) }))
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(next.fiber), { state: "completed", content: "Done" })
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide([memory, Logger.layer([])]))
  )
})

it.effect("the answer for a resumed task counts only if it is verified, where it has to be", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ acts: [works("1 second"), produces("A"), completes("Done")] })
    const trust = { verify_did: true, pinned_did: "did:bindu:ann:peer:00000000-0000-4000-8000-000000000001" }
    const first = yield* start(question(peer.url, { trust }, { isHandedOver }))
    yield* Fiber.interrupt(first.fiber)
    const next = yield* start(question(peer.url, { trust }, { resumes: openTask(first) }))
    yield* TestClock.adjust("10 seconds")
    assert.deepInclude(yield* reasonOf(next), { _tag: "untrusted" })
    assert.deepStrictEqual(artifactsOf(next), [])
  }).pipe(Effect.provide(memory))
)
