import type { IssuedKey } from "@bowline/domain/unstable/caller/IssuedKey"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { KeyStore, minuteOf } from "@bowline/runtime/unstable/store/KeyStore"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"
import { newestFirst } from "../internal/NewestFirst.ts"

type Row = Omit<IssuedKey, "created_at" | "last_used_at" | "expires_at"> & {
  readonly ordinal: bigint
  readonly created_at: Date
  readonly last_used_at: Date | null
  readonly expires_at: Date | null
}

const columns = "id as key_id, ordinal, name, admin, note, created_by, created_at, last_used_at, expires_at"

const timeOf = (date: Date | null): string | null => date?.toISOString() ?? null

const toKey = ({ admin, created_by, key_id, name, note, ...row }: Row): IssuedKey => ({
  key_id,
  name,
  admin,
  note,
  created_by,
  created_at: row.created_at.toISOString(),
  last_used_at: timeOf(row.last_used_at),
  expires_at: timeOf(row.expires_at)
})

const firstOf = ([row]: ReadonlyArray<Row>) => Option.map(Option.fromNullishOr(row), toKey)

/** The keys of callers in a table. */
export const layer = Layer.effect(
  KeyStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const withDeadline = yield* makeWithDeadline
    const all = sql.literal(columns)
    return {
      add: ({ digest, ...key }) =>
        withDeadline(sql`
insert into caller_keys (id, digest, name, admin, note, created_by, created_at, expires_at)
values (${key.key_id}, ${digest}, ${key.name}, ${key.admin}, ${key.note}, ${key.created_by},
  ${key.created_at}::timestamptz, ${key.expires_at}::timestamptz)`).pipe(Effect.asVoid),
      find: Effect.fnUntraced(function* (digest, now) {
        const found = firstOf(
          yield* withDeadline(sql<Row>`
select ${all} from caller_keys
where digest = ${digest} and (expires_at is null or expires_at > ${fromMillis(now)}::timestamptz)`)
        )
        const minute = fromMillis(minuteOf(now))
        if (Option.isNone(found) || (found.value.last_used_at ?? "") >= minute) return found
        // Nobody is refused because this cannot be written.
        yield* Effect.ignore(
          withDeadline(sql`
update caller_keys set last_used_at = ${minute}::timestamptz
where id = ${found.value.key_id} and (last_used_at is null or last_used_at < ${minute}::timestamptz)`)
        )
        return Option.some({ ...found.value, last_used_at: minute })
      }),
      list: ({ cursor, limit }) =>
        withDeadline(sql<Row>`
select ${all} from caller_keys where ${cursor === undefined ? sql`true` : sql`ordinal < ${cursor}`}
order by ordinal desc limit ${limit + 1}`).pipe(Effect.map((rows) => newestFirst(rows, limit, toKey))),
      revoke: (id) =>
        Effect.map(withDeadline(sql<Row>`delete from caller_keys where id = ${id} returning ${all}`), firstOf)
    }
  })
)
