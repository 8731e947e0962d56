import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Audience, Notice, Notices } from "@bowline/runtime/unstable/store/Notices"
import { PgClient, PgConnection } from "@effect/sql-pg"
import { type Cause, Duration, Effect, Latch, Layer, Option, Queue, Schedule, Schema, Scope } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { deadlines, makeWithDeadline } from "../internal/Deadline.ts"
import { translateErrors } from "../internal/StorageErrors.ts"

const channel = "bowline"

const Payload = Schema.fromJsonString(Notice)
const encode = Schema.encodeSync(Payload)
const decode = Schema.decodeUnknownOption(Payload)

/** Publishes a notice to all replicas when the statement that contains it commits. */
export const notify = (sql: SqlClient.SqlClient, notice: Notice) => sql`pg_notify(${channel}, ${encode(notice)})`

/** Publishes notices to all replicas. */
export const publish = (sql: SqlClient.SqlClient, notices: ReadonlyArray<Notice>) =>
  sql`select pg_notify(${channel}, n) from json_array_elements_text(${JSON.stringify(notices.map((notice) => encode(notice)))}::json) n`

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
  const own = (yield* UuidGenerator)()
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

  // Through the pool: behind a pooler, a notice that the listening connection sends can reach itself while no other one does.
  const beat = Effect.sync(() => ownArrived.closeUnsafe()).pipe(
    Effect.andThen(sql`select pg_notify(${channel}, ${own})`),
    Effect.andThen(ownArrived.await),
    (arrival) => withDeadline(arrival, mayTake),
    Effect.andThen(change(true))
  )

  /** Tells the notices that arrive. A newer version publishes some that this one does not know: they are dropped. */
  const receive = (queue: Queue.Dequeue<PgConnection.Notification, SqlError.SqlError>) =>
    translateErrors(Queue.take(queue)).pipe(
      Effect.map(({ payload }) => (payload === own ? ownArrived.openUnsafe() : Option.map(decode(payload), tell))),
      Effect.forever
    )

  /**
   * Listens on a connection outside the pool, and fails when it breaks or a heartbeat does not arrive. The connection closes
   * before the listener, which would wait for an answer of a server that may be gone.
   */
  const listen = Effect.fnUntraced(function* (listener: Scope.Scope) {
    const connection = yield* translateErrors(PgConnection.make(sql.config))
    const queue = yield* withDeadline(Scope.provide(connection.listen(channel), listener))
    yield* Effect.raceFirst(receive(queue), Effect.repeat(beat, Schedule.spaced(heartbeat)))
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
    publish: (notices) => Effect.asVoid(withDeadline(publish(sql, notices), deadlines.short)),
    subscribe,
    isListening: () => listening
  })
})

/** Notices between the replicas on one Postgres server, by `NOTIFY`. Keeps one connection open to listen. */
export const layer = Layer.effect(Notices, make)
