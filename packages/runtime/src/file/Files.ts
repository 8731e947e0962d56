import type { CallerName } from "@bowline/domain/caller/CallerName"
import { FileRefused, type NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { FileId, fileName, type StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, Duration, Effect, Exit, Layer, Semaphore, Stream } from "effect"
import { FilesConfig } from "../config/FilesConfig.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { chunkBytes, FileStore, type KeptFile } from "../store/FileStore.ts"
import { Receiving } from "./Receiving.ts"

/** How long an upload may be silent, before the sweeper takes it for one of a dead process. */
const maxSilence = Duration.minutes(10)

/** How many chunks a process moves at once, to a database one after the other. Plans commit over the same connections, and must not wait behind many files. */
const chunksAtOnce = 2

/** A file that somebody sends. */
export interface Upload<E> {
  readonly caller: CallerName
  /** What the sender says of it: `type` is empty where it says none. It is asked when bytes have come, since a form says it just before them. */
  readonly said: () => {
    readonly name: string | undefined
    readonly type: string
    readonly purpose?: string | undefined
  }
  readonly content: Stream.Stream<Uint8Array, E>
}

/** The first and the last byte of a part. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** Takes files of callers in, and gives them out, chunk by chunk. What they are is with `FileStore`. */
export class Files extends Context.Service<
  Files,
  {
    /**
     * Stores a file while it comes. Nothing is left of one that is cut, interrupted or refused. The same bytes of the same caller are the same file: it keeps its first name.
     */
    readonly upload: <E>(
      upload: Upload<E>
    ) => Effect.Effect<{ readonly file: KeptFile; readonly isNew: boolean }, E | FileRefused | NotFound | StorageError>
    /** The bytes of a file, or of a part of it. It fails with `NotFound` if the file is deleted meanwhile. */
    readonly content: (
      file: Pick<StoredFile, "bytes" | "file_id">,
      range?: ByteRange
    ) => Stream.Stream<Uint8Array, NotFound | StorageError>
  }
>()("@bowline/runtime/file/Files") {
  static readonly layer = Layer.effect(
    Files,
    Effect.gen(function* () {
      const store = yield* FileStore
      const { callerQuota, maxFile, ttl } = yield* FilesConfig
      const uuid = yield* UuidGenerator
      const moving = yield* Semaphore.make(chunksAtOnce)
      const tooLarge = new FileRefused({
        code: "payload_too_large",
        message: `A file may have ${maxFile} bytes at most`
      })
      const silentUntil = Effect.map(Clock.currentTimeMillis, (now) => fromMillis(now + Duration.toMillis(maxSilence)))

      const upload = <E>({ caller, content, said }: Upload<E>) =>
        Effect.suspend(() => {
          const file_id = FileId.make(`file_${uuid()}`)
          const receiving = new Receiving(() => said().type)
          let seq = 0
          let isBegun = false
          /** Stores the chunk that has come. A file that is refused is read to its end, so that its sender hears why. */
          const write = Effect.gen(function* () {
            const chunk = receiving.next()
            if (receiving.refused !== undefined) return
            const until = yield* silentUntil
            if (!isBegun) {
              isBegun = true
              // A statement that is interrupted may still be carried out, and then behind that of `discard`.
              yield* Effect.uninterruptible(store.begin({ file_id, owner: caller, until }))
            }
            yield* store.append(file_id, seq++, chunk, until)
          }).pipe((writing) => moving.withPermit(writing))
          const take = Effect.fnUntraced(function* (piece: Uint8Array) {
            for (let rest = piece; rest.length > 0;) {
              rest = receiving.fill(rest)
              if (receiving.bytes > maxFile) return yield* tooLarge
              if (receiving.isFull) yield* write
            }
          })
          const keep = Effect.gen(function* () {
            if (receiving.bytes % chunkBytes > 0) yield* write
            const facts = receiving.end()
            if ("_tag" in facts) return yield* facts
            const now = yield* Clock.currentTimeMillis
            const file = {
              ...facts,
              name: fileName(said().name ?? ""),
              purpose: said().purpose ?? null,
              created_at: fromMillis(now),
              expires_at: fromMillis(now + Duration.toMillis(ttl))
            }
            return yield* store.keep(file_id, file, { caller: callerQuota })
          })
          return Stream.runForEach(content, take).pipe(
            Effect.andThen(keep),
            Effect.onExit((exit) =>
              Exit.isFailure(exit) && isBegun
                ? Effect.ignore(store.discard(file_id), { log: "Warn", message: "discard_failed" })
                : Effect.void
            )
          )
        })

      return {
        upload,
        content: ({ bytes, file_id }, { first, last } = { first: 0, last: bytes - 1 }) => {
          const seqs = Stream.range(Math.floor(first / chunkBytes), Math.floor(last / chunkBytes))
          return Stream.mapEffect(seqs, (seq) =>
            Effect.map(moving.withPermit(store.chunk(file_id, seq)), (chunk) => {
              const start = seq * chunkBytes
              return chunk.subarray(Math.max(first - start, 0), last - start + 1)
            })
          )
        }
      }
    })
  )
}
