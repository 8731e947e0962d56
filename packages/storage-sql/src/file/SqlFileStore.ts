import type { CallerName } from "@bowline/domain/caller/CallerName"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import {
  type ChunkPlace,
  type ChunkRef,
  type FileFacts,
  type FileQuota,
  FileStore,
  inUse,
  type KeptFile,
  OutsideChunks,
  quotaExceeded,
  sessionFull
} from "@bowline/runtime/unstable/store/FileStore"
import { Duration, Effect, Layer, Semaphore, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { deadlines, makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { newestFirst } from "../internal/NewestFirst.ts"

/** How many files a batch of the sweeper looks at, and how many chunks one statement deletes. */
const filesAtOnce = 20
const chunksAtOnce = 64

/** How many batches of chunks a deletion purges itself. The sweeper purges the rest, which nobody can see any more. */
const batchesOfDeletion = 20

/** A database that answers late is not slow because of files: the next chunk waits no longer than this. */
const longestRest = Duration.seconds(1)

/**
 * Runs writes one after the other, and rests behind each for as long as it took. So many uploads at once take half of what one connection can do: without the rest a
 * database that shares its cores with the gateway is busy with chunks alone, and the commits of plans are late.
 */
export const makePaced = Effect.map(
  Semaphore.make(1),
  (one) =>
    <A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      one.withPermit(
        Effect.flatMap(Effect.timed(write), ([took, answer]) =>
          Effect.as(Effect.sleep(Duration.min(took, longestRest)), answer)
        )
      )
)

type Row = Omit<KeptFile, "bytes" | "created_at" | "expires_at"> & {
  readonly ordinal: bigint
  readonly bytes: bigint
  readonly created_at: Date
  readonly expires_at: Date
}

/** A file that sessions have is kept as long as the last of them. */
const columns = `id as file_id, ordinal, name, media_type, bytes, sha256, width, height, pages, purpose, created_at,
  greatest(expires_at, (
    select max(s.expires_at) from session_files j join sessions s on s.id = j.session_id where j.file_id = files.id
  )) as expires_at`

const toFile = (row: Row): KeptFile => ({
  ...Struct.omit(row, ["ordinal"]),
  bytes: Number(row.bytes),
  created_at: row.created_at.toISOString(),
  expires_at: row.expires_at.toISOString()
})

const notFound = Effect.fail(new NotFound({ what: "file" }))

const firstFile = ([row]: ReadonlyArray<Row>) => (row === undefined ? notFound : Effect.succeed(toFile(row)))

/** Deletes a batch of the chunks of deleted files that are outside, and then their rows. Returns how many there were. */
const purgeOutside = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  outside: ChunkPlace | undefined,
  file?: FileId
) {
  if (outside === undefined) return 0
  const chunks = yield* sql<ChunkRef>`
select c.file_id as file, c.seq from files f
cross join lateral (
  select file_id, seq from file_chunks where file_id = f.id and data is null limit ${chunksAtOnce}
) c
where f.state = 'deleted' and ${file === undefined ? sql`f.expires_at = '-infinity'` : sql`f.id = ${file}`}
limit ${chunksAtOnce}`
  if (chunks.length === 0) return 0
  yield* outside.delete(chunks)
  yield* sql`
delete from file_chunks c using json_to_recordset(${JSON.stringify(chunks)}::json) as gone(file text, seq int)
where c.file_id = gone.file and c.seq = gone.seq`
  return chunks.length
})

/** Purges a batch of chunks of deleted files, and forgets the files that have none left. Returns how many files it found. Those with chunks outside wait for these to go. */
const purge = (sql: SqlClient.SqlClient, file?: FileId) =>
  sql<{ readonly files: number; readonly chunks: number }>`
with next as materialized (
  select id from files where state = 'deleted' and ${file === undefined ? sql`expires_at = '-infinity'` : sql`id = ${file}`}
    and not exists (select from file_chunks c where c.file_id = files.id and c.data is null)
  limit ${filesAtOnce} for update skip locked
), gone as (
  delete from file_chunks where ctid = any(array(
    select c.ctid from next
    cross join lateral (select ctid from file_chunks where file_id = next.id limit ${chunksAtOnce}) c
    limit ${chunksAtOnce}
  ))
  returning 1
), forgotten as (
  delete from files where id in (select id from next) and (select count(*) from gone) < ${chunksAtOnce}
)
select (select count(*) from next)::int as files, (select count(*) from gone)::int as chunks`.pipe(
    Effect.map(([row]) => ({ files: row?.files ?? 0, chunks: row?.chunks ?? 0 }))
  )

/** Purges a file that is deleted, if it is not very large. */
const purgeFile = (sql: SqlClient.SqlClient, outside: ChunkPlace | undefined, file: FileId) => {
  const times = batchesOfDeletion - 1
  return Effect.repeat(purgeOutside(sql, outside, file), { until: (chunks) => chunks < chunksAtOnce, times }).pipe(
    Effect.andThen(Effect.repeat(purge(sql, file), { until: ({ chunks }) => chunks < chunksAtOnce, times })),
    Effect.ignore({ log: "Warn", message: "purge_failed" })
  )
}

const keep = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  file: FileId,
  { bytes, created_at, expires_at, height, media_type, name, pages, purpose, sha256, width }: FileFacts,
  quota: FileQuota
) {
  const [upload] = yield* sql<{ readonly owner: CallerName }>`
select owner from files where id = ${file} and state = 'uploading' for update`
  if (upload === undefined) return yield* notFound
  const { owner } = upload
  // Two uploads of one owner that end at once: the second one counts the first, or finds it.
  yield* sql`select pg_advisory_xact_lock(hashtextextended(${`bowline/files/${owner}`}, 0))`
  const [same] = yield* sql<Row>`
update files set expires_at = greatest(expires_at, ${expires_at}::timestamptz), pages = ${pages}
where owner = ${owner} and sha256 = ${sha256} and state = 'kept' returning ${sql.literal(columns)}`
  if (same !== undefined) {
    yield* sql`update files set state = 'deleted', expires_at = '-infinity' where id = ${file}`
    return { file: toFile(same), isNew: false }
  }
  const [used] = yield* sql<{ readonly bytes: bigint }>`
select coalesce(sum(bytes), 0)::bigint as bytes from files where owner = ${owner} and state = 'kept'`
  if (Number(used?.bytes ?? 0) + bytes > quota.caller) return yield* quotaExceeded(quota.caller)
  const kept = yield* sql<Row>`
update files set state = 'kept', name = ${name}, media_type = ${media_type}, bytes = ${bytes}, sha256 = ${sha256},
  width = ${width}, height = ${height}, pages = ${pages}, purpose = ${purpose}, created_at = ${created_at}, expires_at = ${expires_at}
where id = ${file} returning ${sql.literal(columns)}`
  return { file: yield* firstFile(kept), isNew: true }
})

/** The session is locked first, as a plan that is created locks it: two that give it files count each other's. */
const attach = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  session: SessionId,
  ids: ReadonlyArray<FileId>,
  quota: number
) {
  yield* sql`select 1 from sessions where id = ${session} for no key update`
  const there = yield* sql<{ readonly id: string }>`
select f.id from files f join sessions s on s.owner = f.owner
where s.id = ${session} and ${sql.in("f.id", ids)} and f.state = 'kept' order by f.id for share of f`
  if (there.length < new Set(ids).size) return yield* notFound
  yield* sql`
insert into session_files (session_id, file_id) select ${session}, id from files where ${sql.in("id", ids)}
on conflict do nothing`
  const [all] = yield* sql<{ readonly bytes: bigint }>`
select coalesce(sum(f.bytes), 0)::bigint as bytes from session_files j join files f on f.id = j.file_id
where j.session_id = ${session}`
  if (Number(all?.bytes ?? 0) > quota) return yield* sessionFull(quota)
})

/** Hides a file from its owner. It is locked first: a plan that gets it meanwhile waits, and finds it gone, or has it before. */
const hide = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, owner: CallerName, id: string) {
  const [file] = yield* sql<{ readonly id: FileId }>`
select id from files where id = ${id} and owner = ${owner} and state = 'kept' for update`
  if (file === undefined) return yield* notFound
  const [used] = yield* sql`
select 1 from session_files j join plans p on p.session_id = j.session_id
where j.file_id = ${id} and p.state in ('queued', 'running', 'waiting') limit 1`
  if (used !== undefined) return yield* inUse
  yield* sql`delete from session_files where file_id = ${id}`
  yield* sql`update files set state = 'deleted', expires_at = '-infinity' where id = ${id}`
  return file.id
})

/** Of a chunk that is elsewhere, where nobody looks any more. */
const unreachable = new StorageError({
  reason: new Rejected({ cause: "The file is in a bucket: the configuration has no files.s3" })
})

const make = (
  sql: SqlClient.SqlClient,
  withDeadline: WithDeadline,
  outside: ChunkPlace | undefined,
  paced: Effect.Success<typeof makePaced>
): FileStore["Service"] => ({
  begin: ({ file_id, owner, until }) =>
    withDeadline(sql`
insert into files (id, owner, state, expires_at) values (${file_id}, ${owner}, 'uploading', ${until})`),
  append: (file, seq, bytes, until) => {
    const row = withDeadline(sql`
with held as (
  update files set expires_at = ${until} where id = ${file} and state = 'uploading' returning id
)
insert into file_chunks (file_id, seq, data)
select id, ${seq}::int, ${outside === undefined ? bytes : null}::bytea from held returning seq`)
    return Effect.flatMap(
      outside === undefined ? paced(row) : row,
      (rows): Effect.Effect<void, NotFound | StorageError> => {
        if (rows.length === 0) return notFound
        return outside === undefined ? Effect.void : outside.put({ file, seq }, bytes)
      }
    )
  },
  keep: (file, facts, quota) =>
    withDeadline(sql.withTransaction(keep(sql, file, facts, quota))).pipe(
      Effect.tap(({ isNew }) => (isNew ? Effect.void : withDeadline(purgeFile(sql, outside, file))))
    ),
  discard: (file) =>
    withDeadline(
      sql`update files set state = 'deleted', expires_at = '-infinity' where id = ${file} and state = 'uploading'`.pipe(
        Effect.andThen(purgeFile(sql, outside, file))
      ),
      deadlines.long
    ),
  attach: (session, ids, quota) =>
    ids.length === 0 ? Effect.void : withDeadline(sql.withTransaction(attach(sql, session, ids, quota))),
  ofSession: (session, limit) =>
    Effect.map(
      withDeadline(sql<Row>`
select ${sql.literal(columns)} from files
where state = 'kept' and id in (select file_id from session_files where session_id = ${session})
order by ordinal desc limit ${limit}`),
      (rows) => rows.map(toFile)
    ),
  find: Effect.fnUntraced(function* (owner, id) {
    if (id.includes("\0")) return yield* notFound
    return yield* firstFile(
      yield* withDeadline(sql<Row>`
select ${sql.literal(columns)} from files where id = ${id} and owner = ${owner} and state = 'kept'`)
    )
  }),
  list: (owner, { cursor, limit }, { after, purpose } = {}) =>
    withDeadline(sql<Row>`
select ${sql.literal(columns)} from files
where owner = ${owner} and state = 'kept' ${cursor === undefined ? sql`` : sql`and ordinal < ${cursor}`}
  ${purpose === undefined ? sql`` : sql`and purpose = ${purpose}`}
  ${after === undefined ? sql`` : sql`and ordinal < (select ordinal from files where id = ${after} and owner = ${owner} and state = 'kept')`}
order by ordinal desc limit ${limit + 1}`).pipe(Effect.map((rows) => newestFirst(rows, limit, toFile))),
  chunk: (file, seq) =>
    withDeadline(sql<{ readonly data: Uint8Array | null }>`
select data from file_chunks where file_id = ${file} and seq = ${seq}`).pipe(
      Effect.flatMap(([row]): Effect.Effect<Uint8Array, NotFound | StorageError> => {
        if (row === undefined) return notFound
        if (row.data !== null) return Effect.succeed(row.data)
        return outside === undefined ? Effect.fail(unreachable) : outside.get({ file, seq })
      })
    ),
  delete: Effect.fnUntraced(function* (owner, id) {
    if (id.includes("\0")) return yield* notFound
    const hidden = yield* withDeadline(sql.withTransaction(hide(sql, owner, id)))
    yield* withDeadline(purgeFile(sql, outside, hidden), deadlines.long)
  }),
  sweep: (now) =>
    withDeadline(
      Effect.gen(function* () {
        const expired = yield* sql`
update files set state = 'deleted', expires_at = '-infinity' where id = any(array(
  select id from files f where expires_at <= ${now} and state <> 'deleted'
    and not exists (select from session_files j where j.file_id = f.id)
  limit ${filesAtOnce} for update skip locked
)) returning 1`
        const { files } = yield* purge(sql)
        const chunks = yield* purgeOutside(sql, outside)
        return expired.length > 0 || files > 0 || chunks > 0
      }),
      deadlines.long
    )
})

/** The files of callers, in Postgres. */
export const layer = Layer.effect(
  FileStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline, OutsideChunks, makePaced]), (given) => make(...given))
)
