import { Audience, Notices } from "@bowline/runtime/unstable/store/Notices"
import { PgClient, PgConnection } from "@effect/sql-pg"
import { type Cause, Duration, Effect, Latch, Layer, Option, Queue, Schedule, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"
import { translateErrors } from "../internal/StorageErrors.ts"
import { channelOfAll, decodeNotice, layer as layerPublisher, Publisher } from "./Publisher.ts"

/**
 * How often a replica publishes a notice to itself, and how long that may take to arrive: together less than the 10 s after which a reader on
 * another replica may count as gone, whose last word may be 5 s old when the connection breaks.
 */
const heartbeat = Duration.seconds(2)
const mayTake = Duration.seconds(5)

/** The wait before the next attempt to listen. */
const backOff = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("5 seconds")])

const make = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  const withDeadline = yield* makeWithDeadline
  const { subscribe, tell } = new Audience()
  const publisher = yield* Publisher
  const ownArrived = Latch.makeUnsafe(false)
  let listening = false
  let warned = false

  const change = (to: boolean) =>
    Effect.sync(() => {
      if (listening === to) return
      listening = to
      if (to) warned = false
      tell({ _tag: "ListeningChanged" })
    })

  // On the connection that publishes: behind a pooler, a notice that the listening connection sends can reach itself while no other one does.
  const beat = Effect.sync(() => ownArrived.closeUnsafe()).pipe(
    Effect.andThen(publisher.beat),
    Effect.andThen(ownArrived.await),
    (arrival) => withDeadline(arrival, mayTake),
    Effect.andThen(change(true))
  )

  /** Tells the notices that arrive. A newer version publishes some that this one does not know: they are dropped. */
  const receive = (queue: Queue.Dequeue<PgConnection.Notification, SqlError.SqlError>) =>
    translateErrors(Queue.take(queue)).pipe(
      Effect.map(({ payload }) => (payload === "" ? ownArrived.openUnsafe() : Option.map(decodeNotice(payload), tell))),
      Effect.forever
    )

  /**
   * Listens on a connection outside the pool, to what all replicas are told and to what this one is, and fails when it breaks or a
   * heartbeat does not arrive. The connection closes before the listeners, which would wait for an answer of a server that may be gone.
   */
  const listen = Effect.fnUntraced(function* (listeners: Scope.Scope) {
    const connection = yield* Effect.flatMap(translateErrors(PgConnection.make(sql.config)), ({ pin }) => pin)
    const listenTo = (channel: string) => withDeadline(Scope.provide(connection.listen(channel), listeners))
    const [all, own] = [yield* listenTo(channelOfAll), yield* listenTo(publisher.channel)]
    yield* Effect.raceAllFirst([receive(all), receive(own), Effect.repeat(beat, Schedule.spaced(heartbeat))])
  }, Effect.scoped)

  /** Warns once for each loss, not for each attempt to listen again. */
  const warn = (cause: Cause.Cause<unknown>) =>
    Effect.suspend(() => {
      if (warned) return Effect.void
      warned = true
      return Effect.logWarning("notices_lost", cause)
    })

  yield* Effect.flatMap(Effect.scope, listen).pipe(
    Effect.scoped,
    Effect.tapCause(warn),
    Effect.retry({ while: () => !listening, schedule: backOff }),
    Effect.catchCause(() => change(false)),
    Effect.andThen(Effect.sleep("100 millis")),
    Effect.forever,
    Effect.forkScoped
  )

  return Notices.of({
    publish: publisher.publish,
    subscribe,
    isListening: () => listening
  })
})

/** Notices between the replicas on one Postgres server, by `NOTIFY`. Keeps one connection open to listen, and one to publish. */
export const layer = Layer.effect(Notices, make).pipe(Layer.provideMerge(layerPublisher))
