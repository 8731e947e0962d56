import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type FileRefused, NotFound } from "@bowline/domain/plan/Refusal"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Duration, Effect } from "effect"
import { type FileStore, inUse, type KeptFile, quotaExceeded, sessionFull } from "../../store/FileStore.ts"
import type { Memory } from "./Memory.ts"
import { newestFirst } from "./NewestFirst.ts"

const notFound = Effect.fail(new NotFound({ what: "file" }))

export const makeFileStore = (memory: Memory, ttl: Duration.Duration): FileStore["Service"] => {
  const records = memory.files
  const holders = (id: FileId) => Array.from(memory.sessions.values()).filter(({ files }) => files.has(id))
  /** A file that sessions have is kept as long as the last of them. */
  const show = (file: KeptFile): KeptFile => {
    const ends = holders(file.file_id).map(({ last_active_at, ttlMs }) =>
      fromMillis(Date.parse(last_active_at) + Math.min(ttlMs, Duration.toMillis(ttl)))
    )
    return { ...file, expires_at: [file.expires_at, ...ends].reduce((last, end) => (end > last ? end : last)) }
  }
  const kept = (owner: CallerName) =>
    Array.from(records.values()).flatMap((record) => {
      const { file, ordinal } = record
      return record.owner === owner && file !== undefined ? [{ record, file, ordinal }] : []
    })
  const findKept = (owner: CallerName, id: string) =>
    Effect.suspend(() => {
      const found = kept(owner).find(({ file }) => file.file_id === id)
      return found === undefined ? notFound : Effect.succeed(show(found.file))
    })
  return {
    begin: ({ file_id, owner, until }) =>
      Effect.sync(() => {
        const record = { ordinal: memory.nextOrdinal(), owner, chunks: [], expires_at: until, file: undefined }
        records.set(file_id, record)
      }),
    append: (id, _seq, bytes, until) =>
      Effect.suspend(() => {
        const record = records.get(id)
        if (record === undefined) return notFound
        record.chunks.push(Uint8Array.from(bytes))
        record.expires_at = until
        return Effect.void
      }),
    keep: (file_id, facts, quota) =>
      Effect.suspend(
        (): Effect.Effect<{ readonly file: KeptFile; readonly isNew: boolean }, FileRefused | NotFound> => {
          const record = records.get(file_id)
          if (record === undefined) return notFound
          const others = kept(record.owner)
          const same = others.find(({ file }) => file.sha256 === facts.sha256)
          if (same !== undefined) {
            records.delete(file_id)
            const expires_at = same.file.expires_at > facts.expires_at ? same.file.expires_at : facts.expires_at
            const file = { ...same.file, expires_at }
            Object.assign(same.record, { file, expires_at })
            return Effect.succeed({ file, isNew: false })
          }
          const bytes = others.reduce((sum, { file }) => sum + file.bytes, facts.bytes)
          if (bytes > quota.caller) return Effect.fail(quotaExceeded(quota.caller))
          const file = { file_id, ...facts }
          Object.assign(record, { file, expires_at: facts.expires_at })
          return Effect.succeed({ file, isNew: true })
        }
      ),
    discard: (id) =>
      Effect.sync(() => {
        if (records.get(id)?.file === undefined) records.delete(id)
      }),
    attach: (session_id, ids, quota) =>
      Effect.suspend((): Effect.Effect<void, FileRefused | NotFound> => {
        const session = memory.sessions.get(session_id)
        if (session === undefined) return notFound
        const isThere = (id: FileId) => records.get(id)?.file !== undefined && records.get(id)?.owner === session.owner
        if (!ids.every(isThere)) return notFound
        const all = session.files.union(new Set(ids))
        const bytes = Array.from(all).reduce((sum, id) => sum + (records.get(id)?.file?.bytes ?? 0), 0)
        if (bytes > quota) return Effect.fail(sessionFull(quota))
        for (const id of ids) session.files.add(id)
        return Effect.void
      }),
    ofSession: (session_id, limit) =>
      Effect.sync(() =>
        Array.from(memory.sessions.get(session_id)?.files ?? [])
          .flatMap((id) => records.get(id) ?? [])
          .sort((one, other) => other.ordinal - one.ordinal)
          .flatMap(({ file }) => (file === undefined ? [] : [show(file)]))
          .slice(0, limit)
      ),
    find: findKept,
    list: (owner, page, { after, purpose } = {}) =>
      Effect.sync(() => {
        const all = kept(owner)
        const behind = all.find(({ file }) => file.file_id === after)?.ordinal ?? (after === undefined ? Infinity : 0)
        const isListed = ({ file, ordinal }: (typeof all)[number]) =>
          ordinal < behind && (purpose === undefined || file.purpose === purpose)
        return newestFirst(all.filter(isListed), page, ({ file }) => show(file))
      }),
    chunk: (id, seq) =>
      Effect.suspend(() => {
        const chunk = records.get(id)?.chunks[seq]
        return chunk === undefined ? notFound : Effect.succeed(chunk)
      }),
    delete: Effect.fnUntraced(function* (owner, id) {
      const { file_id } = yield* findKept(owner, id)
      const having = holders(file_id)
      if (having.some(({ open }) => open.size > 0)) return yield* inUse
      for (const { files } of having) files.delete(file_id)
      records.delete(file_id)
    }),
    sweep: (now) =>
      Effect.sync(() => {
        for (const [id, { expires_at }] of records) {
          if (expires_at <= now && holders(id).length === 0) records.delete(id)
        }
        return false
      })
  }
}
