import { NotFound } from "@bowline/domain/plan/Refusal"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { type ChunkRef, OutsideChunks } from "@bowline/runtime/unstable/store/FileStore"
import { Effect, Layer, Predicate } from "effect"
import type { FileS3 } from "../config/file/BucketSchema.ts"

/** How long a request may take. A chunk has 256 KiB. */
const requestWithin = "10 seconds"

/** Chunks that are deleted at once: a request each, since not every server has the one for many. */
const deletionsAtOnce = 4

const statusOf = (cause: unknown): number => {
  const metadata = Predicate.hasProperty(cause, "$metadata") ? cause.$metadata : undefined
  return Predicate.hasProperty(metadata, "httpStatusCode") ? Number(metadata.httpStatusCode) : 0
}

/** What a server says that knows the key, and refuses it, is refused again; whatever else it is may pass. */
const toError = (cause: unknown): StorageError => {
  const status = statusOf(cause)
  const isFinal = status >= 400 && status < 500 && status !== 408 && status !== 429
  return new StorageError({ reason: isFinal ? new Rejected({ cause }) : new Unavailable({ cause }) })
}

/**
 * Chunks of files as objects of a bucket, `<prefix><file_id>/<seq>`. The SDK of AWS finds the credentials as everywhere: in variables, in files of the machine, by its role. The package is the operator's
 * to install: without S3 nobody needs it.
 */
export const layer = ({ bucket, endpoint, prefix = "", region }: FileS3) =>
  Layer.effect(
    OutsideChunks,
    Effect.gen(function* () {
      const { DeleteObjectCommand, GetObjectCommand, PutObjectCommand, S3Client } = yield* Effect.promise(
        () => import("@aws-sdk/client-s3")
      )
      const client = yield* Effect.acquireRelease(
        Effect.sync(
          () =>
            new S3Client({
              ...(region !== undefined && { region }),
              ...(endpoint !== undefined && { endpoint, forcePathStyle: true, region: region ?? "us-east-1" }),
              // Servers besides AWS do not know the checksums that the SDK adds by itself.
              requestChecksumCalculation: "WHEN_REQUIRED",
              responseChecksumValidation: "WHEN_REQUIRED"
            })
        ),
        (client) => Effect.sync(() => client.destroy())
      )
      const named = ({ file, seq }: ChunkRef) => ({ Bucket: bucket, Key: `${prefix}${file}/${seq}` })
      const request = <A>(run: (signal: AbortSignal) => Promise<A>) =>
        Effect.tryPromise({ try: run, catch: toError }).pipe(
          Effect.timeoutOrElse({
            duration: requestWithin,
            orElse: () =>
              Effect.fail(
                new StorageError({
                  reason: new Unavailable({ cause: `No answer of ${bucket} within ${requestWithin}` })
                })
              )
          })
        )
      return {
        put: (chunk, bytes) =>
          Effect.asVoid(
            request((abortSignal) =>
              client.send(new PutObjectCommand({ ...named(chunk), Body: bytes }), { abortSignal })
            )
          ),
        get: (chunk) =>
          request(async (abortSignal) => {
            const { Body } = await client.send(new GetObjectCommand(named(chunk)), { abortSignal })
            return (await Body?.transformToByteArray()) ?? new Uint8Array(0)
          }).pipe(
            Effect.catchIf(
              // Not of a bucket that is missing: then nobody has deleted the file.
              ({ reason }) => Predicate.hasProperty(reason.cause, "name") && reason.cause.name === "NoSuchKey",
              () => Effect.fail(new NotFound({ what: "file" }))
            )
          ),
        delete: (chunks) =>
          Effect.forEach(
            chunks,
            (chunk) => request((abortSignal) => client.send(new DeleteObjectCommand(named(chunk)), { abortSignal })),
            { concurrency: deletionsAtOnce, discard: true }
          )
      }
    })
  )
