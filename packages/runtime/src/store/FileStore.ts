import type { CallerName } from "@bowline/domain/caller/CallerName"
import { FileRefused, InvalidRequest, type NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { NewMessage } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { QuestionPart } from "@bowline/domain/unstable/file/QuestionPart"
import type { FileId, StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { Context, type Effect } from "effect"
import type { Page, PageRequest } from "./Page.ts"

/** The bytes of each chunk of a file but the last one, which has fewer or as many. */
export const chunkBytes = 262_144

/** A file as it is kept. `purpose` is what a client of OpenAI has said of it, `pages` what a PDF says of itself, else null. */
export interface KeptFile extends StoredFile {
  readonly purpose: string | null
  readonly pages: number | null
}

/** What is known of a file when all of it has come. */
export type FileFacts = Omit<KeptFile, "file_id">

/** Which files a list has: those of a `purpose`, and those behind the file `after`. */
export interface FileFilter {
  readonly after?: string
  readonly purpose?: string
}

/** A chunk of a file, by its place. */
export interface ChunkRef {
  readonly file: FileId
  readonly seq: number
}

/**
 * Where the bytes of chunks are, if not in the database: a store of objects. The database has a row of each chunk before it is put, and until it is deleted, so that nothing is left of a process that
 * died. To put a chunk again writes the same; to delete one that is not there changes nothing.
 */
export interface ChunkPlace {
  readonly put: (chunk: ChunkRef, bytes: Uint8Array) => Effect.Effect<void, StorageError>
  readonly get: (chunk: ChunkRef) => Effect.Effect<Uint8Array, NotFound | StorageError>
  readonly delete: (chunks: ReadonlyArray<ChunkRef>) => Effect.Effect<void, StorageError>
}

/** The place of new chunks: undefined for the database itself. */
export const OutsideChunks = Context.Reference<ChunkPlace | undefined>("@bowline/runtime/store/OutsideChunks", {
  defaultValue: () => undefined
})

/** More files than a session can have. */
export const allFiles = 1_000_000

/** What callers' files may have together, in bytes. */
export interface FileQuota {
  readonly caller: number
}

export const quotaExceeded = (bytes: number): FileRefused =>
  new FileRefused({
    code: "quota_exceeded",
    message: `Your files may have ${bytes} bytes together (BOWLINE_FILES_CALLER_QUOTA): delete some first`
  })

/** The files of a question, each once. */
export const idsOf = (parts: ReadonlyArray<QuestionPart> = []): ReadonlyArray<FileId> =>
  Array.from(new Set(parts.flatMap((part) => (part.type === "file" ? [part.file_id] : []))))

/** The files of messages, each once. */
export const idsTold = (messages: ReadonlyArray<Pick<NewMessage, "parts">>): ReadonlyArray<FileId> =>
  Array.from(
    new Set(
      messages.flatMap(({ parts }) =>
        parts.flatMap((part) => (part.type === "file" && "file_id" in part ? [part.file_id] : []))
      )
    )
  )

/** A file of the question was deleted after the question was looked at. */
export const gone = new InvalidRequest({
  issues: [{ path: ["question"], message: "A file of the question is no longer there" }]
})

const sessionIsFull = (bytes: number): string =>
  `The files of a session may have ${bytes} bytes together (BOWLINE_FILES_SESSION_QUOTA): begin another session`

/** The session would have too many bytes with the files of the question. */
export const sessionQuotaExceeded = (bytes: number): InvalidRequest =>
  new InvalidRequest({ code: "quota_exceeded", issues: [{ path: ["question"], message: sessionIsFull(bytes) }] })

/** The same of files that come later. */
export const sessionFull = (bytes: number): FileRefused =>
  new FileRefused({ code: "quota_exceeded", message: sessionIsFull(bytes) })

export const inUse = new FileRefused({
  code: "file_in_use",
  message: "A plan that is not over has the file: wait for its end, or cancel it"
})

/**
 * Files of callers, in chunks. An upload is stored under the id that its file will have, and nobody finds it before `keep`:
 *
 * ```text
 * begin ─► uploading ─ keep ─► kept ─ delete ─► deleted ─ purge ─► gone
 *              └─ discard, or silent for too long ─┘
 * ```
 *
 * `PlanStore.create` gives the session of a plan the files of its question: it has them as long as it lives, and a file goes with the last one. What is `deleted` is hidden at once, and purged chunk by chunk: by whoever deletes it, or by the sweeper if that process dies. Times are ISO 8601 in UTC.
 */
export class FileStore extends Context.Service<
  FileStore,
  {
    /** An upload begins. The sweeper discards it if nothing comes `until` then. */
    readonly begin: (upload: {
      readonly file_id: FileId
      readonly owner: CallerName
      readonly until: string
    }) => Effect.Effect<void, StorageError>
    /** Writes the next chunk, from 0 on. The bytes are the caller's again afterwards. Fails with `NotFound` if the upload was discarded. */
    readonly append: (
      file: FileId,
      seq: number,
      bytes: Uint8Array,
      until: string
    ) => Effect.Effect<void, NotFound | StorageError>
    /**
     * Makes a file of the upload, in one transaction. If the owner has a file of the same digest, that one stays, as long as the new one would, and the upload is deleted.
     * Fails with `quota_exceeded`, and changes nothing, if the owner's files would have more bytes together than the quota.
     */
    readonly keep: (
      file: FileId,
      facts: FileFacts,
      quota: FileQuota
    ) => Effect.Effect<{ readonly file: KeptFile; readonly isNew: boolean }, FileRefused | NotFound | StorageError>
    /** Deletes an upload that was cut or refused, and its chunks. */
    readonly discard: (file: FileId) => Effect.Effect<void, StorageError>
    /**
     * Gives a session files of its owner, each of which it may have already. Fails with `NotFound` if one of them or the session is gone, and with `quota_exceeded` if those of the
     * session would have more bytes together than the quota; then it changes nothing.
     */
    readonly attach: (
      session: SessionId,
      files: ReadonlyArray<FileId>,
      quota: number
    ) => Effect.Effect<void, FileRefused | NotFound | StorageError>
    /** The newest files of a session, the newest one first. */
    readonly ofSession: (session: SessionId, limit: number) => Effect.Effect<ReadonlyArray<KeptFile>, StorageError>
    /** Another owner's file is not found. */
    readonly find: (owner: CallerName, id: string) => Effect.Effect<KeptFile, NotFound | StorageError>
    /** The owner's files, newest first. */
    readonly list: (
      owner: CallerName,
      page: PageRequest,
      filter?: FileFilter
    ) => Effect.Effect<Page<KeptFile>, StorageError>
    /** One chunk of a file, from 0 on. Fails with `NotFound` if the file was deleted meanwhile. */
    readonly chunk: (file: FileId, seq: number) => Effect.Effect<Uint8Array, NotFound | StorageError>
    /** Fails with `file_in_use` while a session that has the file has a plan that is not over. */
    readonly delete: (owner: CallerName, id: string) => Effect.Effect<void, FileRefused | NotFound | StorageError>
    /**
     * Deletes one small batch of files that are kept no longer and that no session has, of uploads that are silent, and of what deletions left. Returns whether there may be
     * more.
     */
    readonly sweep: (now: string) => Effect.Effect<boolean, StorageError>
  }
>()("@bowline/runtime/store/FileStore") {}
