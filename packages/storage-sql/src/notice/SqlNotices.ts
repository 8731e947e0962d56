import { Audience, Notice, Notices } from "@bowline/runtime/store/Notices"
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Effect, Layer, Option, Queue, Schema, Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { deadlines, makeWithDeadline } from "../internal/Deadline.ts"
import { translateErrors } from "../internal/StorageErrors.ts"

const channel = "bowline"

const Payload = Schema.fromJsonString(Notice)
const encode = Schema.encodeSync(Payload)
const decode = Schema.decodeUnknownOption(Payload)

/** Tells all replicas, when the statement that it stands in is committed. */
export const notify = (sql: SqlClient.SqlClient, notice: Notice) => sql`pg_notify(${channel}, ${encode(notice)})`

/** Waits before the listener is set up again: longer each time, until it has heard. */
const backOff = (failures: number): number => Math.min(100 * 2 ** failures, 5_000)

const make = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  const withDeadline = yield* makeWithDeadline
  const { subscribe, tell } = new Audience()
  let listening = false
  let failures = 0

  const change = (to: boolean) =>
    Effect.sync(() => {
      if (listening === to) return
      listening = to
      tell({ _tag: "ListeningChanged" })
    })

  /**
   * Until the connection breaks, which is none of the pool's. It is closed before the listener is, who would wait for an answer of
   * a server that may be gone. What a newer version says, and this one does not know, is left out.
   */
  const listen = Effect.fnUntraced(function* (listener: Scope.Scope) {
    const connection = yield* translateErrors(PgConnection.make(sql.config))
    const queue = yield* translateErrors(Scope.provide(connection.listen(channel), listener))
    failures = 0
    yield* change(true)
    for (;;) {
      const { payload } = yield* translateErrors(Queue.take(queue))
      Option.map(decode(payload), tell)
    }
  }, Effect.scoped)

  yield* Effect.flatMap(Effect.scope, listen).pipe(
    Effect.scoped,
    Effect.ensuring(change(false)),
    Effect.catchCause((cause) => (failures === 0 ? Effect.logWarning("notices_lost", cause) : Effect.void)),
    Effect.andThen(Effect.suspend(() => Effect.sleep(backOff(failures++)))),
    Effect.forever,
    Effect.forkScoped
  )

  return Notices.of({
    publish: (notices) =>
      withDeadline(
        sql`select pg_notify(${channel}, n) from json_array_elements_text(${JSON.stringify(notices.map((notice) => encode(notice)))}::json) n`,
        deadlines.short
      ).pipe(Effect.asVoid),
    subscribe,
    isListening: () => listening
  })
})

/** Between the processes on one Postgres server, by `NOTIFY`. It keeps a connection for itself. */
export const layer = Layer.effect(Notices, make)
