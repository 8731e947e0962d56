import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Notice } from "@bowline/runtime/unstable/store/Notices"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlClient, Statement } from "effect/sql"
import { deadlines, makeWithDeadline } from "../internal/Deadline.ts"
import { translateErrors } from "../internal/StorageErrors.ts"

/** The channel that all replicas listen on. */
export const channelOfAll = "bowline"

const Payload = Schema.fromJsonString(Notice)
const encode = Schema.encodeSync(Payload)
export const decodeNotice = Schema.decodeUnknownOption(Payload)

/** Publishes a notice to all replicas when the statement that contains it commits. */
export const notify = (sql: SqlClient.SqlClient, notice: Notice) => sql`pg_notify(${channelOfAll}, ${encode(notice)})`

const publish = (sql: SqlClient.SqlClient, notices: ReadonlyArray<Notice>) =>
  sql`select pg_notify(${channelOfAll}, n) from json_array_elements_text(${JSON.stringify(notices.map((notice) => encode(notice)))}::json) n`

/**
 * Tells the replicas that wait for these sessions, each on its channel. A replica that has not renewed yet has an empty one; a replica of the
 * version before has none, and does not say what it waits for: while one lives, all are told.
 */
const release = (sql: SqlClient.SqlClient, sessions: ReadonlyArray<SessionId>) => {
  const released = sessions.map((session_id) => ({ session_id, notice: encode({ _tag: "LeaseReleased", session_id }) }))
  return sql`
with released as (
  select * from json_to_recordset(${JSON.stringify(released)}::json) as n(session_id text, notice text)
)
select pg_notify(r.channel, n.notice) from released n join replicas r on n.session_id = any(r.waits_for)
where r.channel <> '' and r.expires_at > now()
union all
select pg_notify(${channelOfAll}, notice) from released
where exists (select from replicas r where r.channel is null and r.expires_at > now())`
}

/**
 * Says what other replicas wait for, on a connection of its own: all commits that notify wait for one another, in the whole database. A session is
 * published as released behind the commit that releases it: who has said before that it waits, and then has not got the session, is told.
 */
export class Publisher extends Context.Service<
  Publisher,
  {
    /** The channel that this replica alone listens on. */
    readonly channel: string
    readonly publish: (notices: ReadonlyArray<Notice>) => Effect.Effect<void, StorageError>
    /** Tells of sessions that were released. */
    readonly released: (sessions: ReadonlyArray<SessionId>) => Effect.Effect<void, StorageError>
    /** Publishes an empty notice to this replica alone. */
    readonly beat: Effect.Effect<void, StorageError>
  }
>()("@bowline/storage-sql/notice/Publisher") {}

/** Publishes to the replicas on one Postgres server. */
export const layer = Layer.effect(
  Publisher,
  Effect.gen(function* () {
    const { config } = yield* PgClient.PgClient
    const channel = `bowline_${(yield* UuidGenerator)()}`
    const sql = yield* translateErrors(PgClient.make({ ...config, maxConnections: 1 }))
    // Behind the connection: it is closed when nothing uses it.
    const withDeadline = yield* makeWithDeadline
    const send = (statement: Statement.Statement<unknown>) => Effect.asVoid(withDeadline(statement, deadlines.short))
    return {
      channel,
      publish: (notices) => send(publish(sql, notices)),
      released: (sessions) => send(release(sql, sessions)),
      beat: send(sql`select pg_notify(${channel}, '')`)
    }
  })
).pipe(Layer.provide(Reactivity.layer))

/** For a database that no other process uses: there is nobody to be told. */
export const layerAlone = Layer.succeed(Publisher, {
  channel: "",
  publish: () => Effect.void,
  released: () => Effect.void,
  beat: Effect.void
})
