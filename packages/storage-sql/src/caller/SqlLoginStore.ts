import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { LoginStore, type StoredLogin } from "@bowline/runtime/unstable/store/LoginStore"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"

/** The logins of the console in a table. */
export const layer = Layer.effect(
  LoginStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const withDeadline = yield* makeWithDeadline
    return {
      keep: (digest, { now, subject = null, until }) =>
        withDeadline(sql`
with expired as (delete from logins where expires_at <= ${fromMillis(now)}::timestamptz)
insert into logins (digest, expires_at, subject) values (${digest}, ${fromMillis(until)}::timestamptz, ${subject})`).pipe(
          Effect.asVoid
        ),
      find: (digests, now) =>
        withDeadline(sql<StoredLogin>`
select digest, subject from logins where ${sql.in("digest", digests)} and expires_at > ${fromMillis(now)}::timestamptz`).pipe(
          Effect.map(([row]) => Option.fromNullishOr(row))
        ),
      drop: (digests) => withDeadline(sql`delete from logins where ${sql.in("digest", digests)}`).pipe(Effect.asVoid)
    }
  })
)
