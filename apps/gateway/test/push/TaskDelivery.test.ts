import * as Host from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as Given from "@bowline/testing/unstable/store/Given"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { type ClaimedTarget, PushStore } from "@bowline/runtime/unstable/store/PushStore"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Layer, Logger, Option } from "effect"
import { HttpClient } from "effect/http"
import { TaskDelivery } from "../../src/push/TaskDelivery.ts"

const body = { statusUpdate: { taskId: "t" } }

/** A receiver that answers like this, and the delivery to it. The times of requests are seconds from the start. */
const receiver = Effect.fnUntraced(function* (answer: (count: number) => Effect.Effect<Host.HostResponse, Host.Fault>) {
  const start = yield* Clock.currentTimeMillis
  const times: Array<number> = []
  const { requests, url } = yield* (yield* Network).serve(() =>
    Effect.gen(function* () {
      times.push(((yield* Clock.currentTimeMillis) - start) / 1_000)
      return yield* answer(times.length)
    })
  )
  const held = yield* Given.createHeld()
  const { caller: owner, plan_id: task, replica } = held.plan
  const store = yield* PushStore
  const client = yield* HttpClient.HttpClient
  const target = { id: "a", url: `${url}/hook`, wire: "1.0", scheme: "Basic", secrets: null, webhook: null }
  yield* store.put(owner, task, target, { replica, cursor: { plan: 0, seq: 0 } })
  const claim = Effect.map(store.claim(replica, [], 10), ([claimed]) => claimed as ClaimedTarget)
  const deliver = (claimed: ClaimedTarget) =>
    new TaskDelivery(client, store, claimed, { token: "the token", credentials: "dXNlcg==" })
  return { times, requests, store, owner, task, claim, deliver }
})

const status = (code: number) => () => Effect.succeed(Host.text(code, "words"))

const layer = Layer.merge(MemoryNetwork.layer, MemoryStore.layer)

describe("a notification", () => {
  it.effect("is posted with the credentials of its place, and then the place has been told", () =>
    Effect.gen(function* () {
      const { claim, deliver, requests } = yield* receiver(status(204))
      const delivery = deliver(yield* claim)
      yield* delivery.send(body)
      yield* delivery.reach({ plan: 0, seq: 5 })
      const [request] = yield* requests.all
      assert.deepInclude(request?.headers, {
        "content-type": "application/a2a+json",
        "a2a-version": "1.0",
        authorization: "Basic dXNlcg==",
        "x-a2a-notification-token": "the token"
      })
      assert.deepStrictEqual(JSON.parse(request?.body ?? ""), body)
      assert.deepStrictEqual((yield* claim).cursor, { plan: 0, seq: 5 })
    }).pipe(Effect.provide(layer))
  )

  it.effect("is tried again after 0.5 s, 1 s, 2 s … 5 min, and is dropped after an hour, with a line in the log", () =>
    Effect.gen(function* () {
      const lines: Array<unknown> = []
      const logger = Logger.make<unknown, void>(({ message }) => void lines.push(message))
      const { claim, deliver, times } = yield* receiver(status(503))
      const sending = yield* deliver(yield* claim)
        .send(body)
        .pipe(Effect.provide(Logger.layer([logger])), Effect.forkChild({ startImmediately: true }))
      yield* pass("520 seconds", "500 millis")
      yield* pass("3280 seconds", "10 seconds")
      assert.isUndefined(sending.pollUnsafe())
      yield* pass("20 seconds", "10 seconds")
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(sending)))
      assert.deepStrictEqual(times.slice(0, 11), [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 127.5, 255.5, 511.5])
      assert.deepStrictEqual(
        times.slice(11),
        Array.from({ length: 11 }, (_, index) => 811.5 + 300 * index)
      )
      assert.deepStrictEqual(lines, [["push_dropped"]])
    }).pipe(Effect.provide(layer))
  )

  it.effect("has one hour in all, also when another process goes on with it", () =>
    Effect.gen(function* () {
      const { claim, deliver, times } = yield* receiver(status(500))
      const first = yield* deliver(yield* claim)
        .send(body)
        .pipe(Effect.forkChild({ startImmediately: true }))
      yield* pass("520 seconds", "500 millis")
      yield* pass("2480 seconds", "10 seconds")
      yield* Fiber.interrupt(first)
      const before = times.length
      const second = yield* deliver(yield* claim)
        .send(body)
        .pipe(Effect.forkChild({ startImmediately: true }))
      yield* pass("520 seconds", "500 millis")
      yield* pass("80 seconds", "10 seconds")
      assert.isUndefined(second.pollUnsafe())
      yield* pass("4 minutes", "10 seconds")
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(second)))
      assert.strictEqual(times.length, before + 12)
    }).pipe(Effect.provide(layer))
  )

  it.effect("that has no answer within 10 s is tried again", () =>
    Effect.gen(function* () {
      const { claim, deliver, times } = yield* receiver((count) =>
        count === 1 ? Effect.never : Effect.succeed(Host.text(200, ""))
      )
      const sending = yield* deliver(yield* claim)
        .send(body)
        .pipe(Effect.forkChild({ startImmediately: true }))
      yield* pass("11 seconds", "500 millis")
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(sending)))
      assert.deepStrictEqual(times, [0, 10.5])
    }).pipe(Effect.provide(layer))
  )

  it.effect("follows no redirect", () =>
    Effect.gen(function* () {
      const { claim, deliver, requests } = yield* receiver((count) =>
        Effect.succeed(count === 1 ? Host.text(307, "", { location: "/elsewhere" }) : Host.text(200, ""))
      )
      const sending = yield* deliver(yield* claim)
        .send(body)
        .pipe(Effect.forkChild({ startImmediately: true }))
      yield* pass("1 second")
      yield* Fiber.join(sending)
      assert.deepStrictEqual(
        (yield* requests.all).map(({ url }) => url.pathname),
        ["/hook", "/hook"]
      )
    }).pipe(Effect.provide(layer))
  )

  it.effect("that is answered with 410 deletes its place", () =>
    Effect.gen(function* () {
      const { claim, deliver, owner, store, task } = yield* receiver(status(410))
      const failed = yield* Given.failureOf(deliver(yield* claim).send(body))
      assert.strictEqual(failed?._tag, "Gone")
      assert.deepStrictEqual(yield* store.list(owner, task), [])
    }).pipe(Effect.provide(layer))
  )

  it.effect("is not posted by a process that no longer has its place", () =>
    Effect.gen(function* () {
      const { claim, deliver, requests, store } = yield* receiver(status(200))
      const first = yield* claim
      const second = yield* claim
      assert.strictEqual((yield* Given.failureOf(deliver(first).send(body)))?._tag, "LeaseLost")
      assert.deepStrictEqual(yield* requests.all, [])
      assert.isTrue(yield* store.progress(second, Option.none()))
    }).pipe(Effect.provide(layer))
  )
})
