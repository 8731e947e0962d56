import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Layer, Queue, Stream } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { Cluster, settled } from "./Cluster.ts"
import { ask, askForText, type Frame, get, logged, replay, toFrames } from "./GatewayProcess.ts"
import { checkStream, large, messagesOf, storm, turnsOf } from "./Storm.ts"

const onRealClock = { excludeTestServices: true }

const named = (frames: ReadonlyArray<Frame>, event: string) => frames.filter((frame) => frame.event === event)
const idOf = (frames: ReadonlyArray<Frame>) => String(frames[0]?.data["plan_id"])

layer(Cluster.layer(3), onRealClock)("three gateways on one Postgres", (it) => {
  it.effect("run 50 plans of one session one after the other, and more than may wait when there is room", () =>
    storm({ name: "one", plans: 50, sessions: 1 })
  )

  it.effect("run many plans, ten in each session, each session's one after the other", () =>
    Effect.flatMap(large, (plans) => storm({ name: "many", plans, sessions: plans / 10 }))
  )

  it.effect("make one session of two first requests at once", () =>
    Effect.gen(function* () {
      const { gateways } = yield* Cluster
      for (let round = 0; round < 10; round++) {
        const ended = yield* Effect.forEach(
          gateways,
          ({ url }) => get(url, "/plan", { question: "?", session_id: `new-${round}` }),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(new Set(ended.map(({ session_id }) => session_id)).size, 1)
        assert.deepStrictEqual(
          ended.map(({ state }) => state),
          ["completed", "completed", "completed"]
        )
      }
    })
  )

  it.effect("end a plan that is cancelled on another one", () =>
    Effect.gen(function* () {
      const [a, b] = (yield* Cluster).gateways
      const { answer } = yield* Cluster
      if (a === undefined || b === undefined) return assert.fail("There are three")
      const left = yield* Deferred.make<void>()
      const stuck = until(Effect.onInterrupt(Effect.never, () => Deferred.succeed(left, undefined)))
      answer("cancel me", () => [say("Well, "), stuck])
      const frames = yield* ask(a.url, { question: "cancel me" }).pipe(
        Stream.tap((frame) =>
          frame.event === "text.delta"
            ? Effect.map(get(b.url, `/plans/${String(frame.data["plan_id"])}/cancel`, {}), (plan) => {
                assert.deepInclude(plan["error"], { code: "aborted", reason: "cancelled" })
              })
            : Effect.void
        ),
        Stream.runCollect
      )
      assert.deepInclude(named(frames, "error")[0]?.data, { reason: "cancelled", stage: "provider" })
      yield* Deferred.await(left)
    })
  )

  it.effect("give a session to a plan that interrupts one of another gateway, once that is settled", () =>
    Effect.gen(function* () {
      const [a, b] = (yield* Cluster).gateways
      const { answer } = yield* Cluster
      if (a === undefined || b === undefined) return assert.fail("There are three")
      answer("old", () => [say("Well, "), until(Effect.never)])
      const shown = yield* Deferred.make<void>()
      const old = yield* ask(a.url, { question: "old", session_id: "handed" }).pipe(
        Stream.tap(({ event }) => (event === "text.delta" ? Deferred.succeed(shown, undefined) : Effect.void)),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* Deferred.await(shown)
      const preferences = { on_busy: "interrupt" }
      const next = yield* get(b.url, "/plan", { question: "new", session_id: "handed", preferences })
      assert.deepInclude(next["final"], { text: "new" })
      const ended = yield* Fiber.join(old)
      assert.deepInclude(named(ended, "error")[0]?.data, { code: "aborted", reason: "superseded" })
      assert.deepStrictEqual(
        turnsOf(yield* messagesOf(a.url, "handed")).map(({ plan }) => plan),
        [idOf(ended), next["plan_id"]]
      )
    })
  )

  it.effect("give each event once, in order, to a reader who moves to the next gateway after every event", () =>
    Effect.gen(function* () {
      const { gateways, answer } = yield* Cluster
      const at = (index: number) => gateways[index % gateways.length]?.url ?? ""
      const words = Array.from({ length: 12 }, (_, index) => `word${index} `)
      const wanted = yield* Queue.unbounded<void>()
      answer("go round", () => words.flatMap((word) => [until(Queue.take(wanted)), say(word)]))
      const body = { question: "go round", preferences: { on_disconnect: "continue" } }
      const seen = Array.from(yield* Stream.runCollect(Stream.take(ask(at(0), body), 1)))
      while (seen.at(-1)?.event !== "done") {
        // Now and then the next one comes while nobody reads.
        if (seen.length % 3 === 0) yield* Queue.offer(wanted, undefined)
        const next = replay(at(seen.length), idOf(seen), seen.length).pipe(Stream.take(1), Stream.runCollect)
        const reading = yield* Effect.forkChild(next, { startImmediately: true })
        if (seen.length % 3 !== 0) yield* Queue.offer(wanted, undefined)
        seen.push(...(yield* Fiber.join(reading)))
      }
      checkStream(seen)
      assert.deepStrictEqual(
        named(seen, "text.delta").map(({ data }) => data["delta"]),
        words
      )
    })
  )

  it.effect("count a reader on another gateway, and end the plan when that reader has disconnected, too", () =>
    Effect.gen(function* () {
      const [a, b] = (yield* Cluster).gateways
      const { answer } = yield* Cluster
      if (a === undefined || b === undefined) return assert.fail("There are three")
      const [more, last] = [Latch.makeUnsafe(false), Latch.makeUnsafe(false)]
      const behind = (gate: Latch.Latch) => until(Effect.asVoid(gate.await))
      answer("read me", () => [say("one"), behind(more), say("two"), behind(last), say("three"), until(Effect.never)])
      const planId = yield* Deferred.make<string>()
      const here = yield* ask(a.url, { question: "read me" }).pipe(
        Stream.runForEach(({ data }) => Deferred.succeed(planId, String(data["plan_id"]))),
        Effect.forkChild
      )
      const counted = yield* Deferred.make<void>()
      const elsewhere = yield* replay(b.url, yield* Deferred.await(planId)).pipe(
        Stream.tap(({ data }) => {
          if (data["delta"] === "one") return more.open
          return data["delta"] === "two" ? Deferred.succeed(counted, undefined) : Effect.void
        }),
        Stream.takeUntil(({ data }) => data["delta"] === "three"),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* Deferred.await(counted)
      yield* Fiber.interrupt(here)
      // By then the first one knows that its reader has left.
      yield* get(a.url, "/health")
      yield* last.open
      const seen = yield* Fiber.join(elsewhere)
      assert.deepStrictEqual(
        named(seen, "text.delta").map(({ data }) => data["delta"]),
        ["one", "two", "three"]
      )
      assert.deepInclude((yield* settled(a.url, yield* Deferred.await(planId)))["error"], { reason: "disconnect" })
    })
  )
})

/** Two that go on with the plans of one another, or only settle them. */
const two = (resume: boolean) =>
  folderOf({ "bowline.yaml": `plans: { resume: ${resume} }` }).pipe(
    Effect.map((folder) => Cluster.layer(2, { BOWLINE_LEASE_TTL: "1s", BOWLINE_CONFIG: join(folder, "bowline.yaml") })),
    Layer.unwrap
  )

describe("a gateway that was paused for longer than its lease", () => {
  it.live.each([
    { what: "settles the plan", resume: false, rest: ["error", "done"] },
    {
      what: "goes on with the plan",
      resume: true,
      rest: ["text.retract", "retry", "text.delta", "text.delta", "final", "done"]
    }
  ])("writes nothing, and its readers find the truth at the one that $what", ({ resume, rest }) =>
    Effect.gen(function* () {
      const { gateways, answer } = yield* Cluster
      const [a, b] = gateways
      if (a === undefined || b === undefined) return assert.fail("There are two")
      const paused = Latch.makeUnsafe(false)
      answer("pause me", () => [say("before"), until(Effect.asVoid(paused.await)), say("after")])
      const planId = yield* Deferred.make<string>()
      const reading = yield* askForText(a.url, { question: "pause me", session_id: "s" }).pipe(
        Stream.tap((text) => {
          const id = /"plan_id":"([^"]+)"/.exec(text)?.[1]
          return id !== undefined && text.includes("before") ? Deferred.succeed(planId, id) : Effect.void
        }),
        Stream.mkString,
        Effect.forkChild
      )
      const id = yield* Deferred.await(planId)
      yield* a.signal("SIGSTOP")
      // It finds it in its socket, and would go on.
      yield* paused.open
      const settledThere = yield* settled(b.url, id)
      if (resume) assert.deepInclude(settledThere["final"], { text: "beforeafter" })
      else assert.deepInclude(settledThere["error"], { code: "interrupted" })
      const next = yield* get(b.url, "/plan", { question: "And now?", session_id: "s" })
      assert.deepInclude(next["final"], { text: "And now?" })
      yield* a.signal("SIGCONT")

      const text = yield* Fiber.join(reading)
      assert.isTrue(text.endsWith("\n\n: reconnect\n\n"))
      const seen = toFrames(text)
      assert.isEmpty(named(seen, "done"))
      const truth = yield* Stream.runCollect(replay(b.url, id))
      assert.deepStrictEqual(truth.slice(0, seen.length), seen)
      assert.deepStrictEqual(
        truth.slice(seen.length).map(({ event }) => event),
        rest
      )
      assert.deepStrictEqual(yield* Stream.runCollect(replay(a.url, id, seen.length)), truth.slice(seen.length))
      yield* logged(a, "lease_lost")
      assert.lengthOf(turnsOf(yield* messagesOf(a.url, "s")), 2)
    }).pipe(Effect.provide(two(resume)))
  )
})
