import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as Given from "@bowline/testing/unstable/store/Given"
import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { FilesConfig } from "../../src/config/FilesConfig.ts"
import { FileFetch } from "../../src/file/FileFetch.ts"
import { Files, type Upload } from "../../src/file/Files.ts"
import * as QuestionFiles from "../../src/file/QuestionFiles.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { chunkBytes, FileStore } from "../../src/store/FileStore.ts"

const limits = { maxFile: 1_000_000, callerQuota: 1_500_000, sessionQuota: 1_500_000, ttl: Duration.days(7) }

/** The ids of the uploads that have begun, and the store that tells. */
const watched = Layer.effect(
  FileStore,
  Effect.gen(function* () {
    const store = yield* FileStore
    return {
      ...store,
      begin: (upload) => Effect.tap(store.begin(upload), () => Effect.sync(() => begun.push(upload.file_id)))
    }
  })
)
const begun: Array<string> = []

const inMemory = Files.layer.pipe(
  Layer.provideMerge(Layer.provide(watched, MemoryStore.layer)),
  Layer.provide(Layer.succeed(FilesConfig, limits))
)

const said = (type: string, name?: string) => () => ({ name, type })

const inPieces = (bytes: Uint8Array, size = 50_000) =>
  Stream.fromIterable(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.subarray(index * size, (index + 1) * size)
    )
  )

const upload = Effect.fnUntraced(function* (content: Upload<never>["content"], given: Partial<Upload<never>> = {}) {
  const files = yield* Files
  const caller = given.caller ?? (yield* Given.newOwner)
  return { caller, ...(yield* files.upload({ caller, content, said: said("", "a.bin"), ...given })) }
})

const leftOf = Effect.fnUntraced(function* (id: string | undefined) {
  return yield* Given.failureOf((yield* FileStore).chunk(id as never, 0))
})

describe("an upload", () => {
  it.effect("becomes a file, with what was said of it, that can be read in parts", () =>
    Effect.gen(function* () {
      const bytes = SampleFile.png(1_200, 800, 700_000)
      const { caller, file, isNew } = yield* upload(inPieces(bytes), { said: said("image/png", "../diagram.png") })
      assert.strictEqual(isNew, true)
      assert.deepInclude(file, {
        name: "diagram.png",
        media_type: "image/png",
        bytes: bytes.length,
        width: 1_200,
        height: 800,
        created_at: "1970-01-01T00:00:00.000Z",
        expires_at: "1970-01-08T00:00:00.000Z"
      })
      assert.deepStrictEqual(yield* (yield* FileStore).find(caller, file.file_id), file)
      const { content } = yield* Files
      const read = (first: number, last: number) =>
        Effect.map(Stream.runCollect(content(file, { first, last })), (pieces) => Buffer.concat(pieces))
      assert.isTrue(Buffer.concat(yield* Stream.runCollect(content(file))).equals(bytes))
      for (const [first, last] of [
        [0, 0],
        [262_143, 262_144],
        [262_144, 524_287],
        [5, 700_000],
        [bytes.length - 1, bytes.length - 1]
      ] as const) {
        assert.isTrue((yield* read(first, last)).equals(bytes.subarray(first, last + 1)), `${first}-${last}`)
      }
    }).pipe(Effect.provide(inMemory))
  )

  it.effect("of the same bytes is the same file, which stays for as long again", () =>
    Effect.gen(function* () {
      const { caller, file } = yield* upload(inPieces(SampleFile.pdf()))
      yield* TestClock.adjust("1 day")
      const again = yield* upload(inPieces(SampleFile.pdf()), { caller, said: said("application/pdf", "other.pdf") })
      assert.strictEqual(again.isNew, false)
      assert.deepStrictEqual(again.file, { ...file, expires_at: "1970-01-09T00:00:00.000Z" })
    }).pipe(Effect.provide(inMemory))
  )

  it.effect("is refused above the largest size and above the quota, and leaves nothing", () =>
    Effect.gen(function* () {
      const caller = yield* Given.newOwner
      const codeOf = Effect.fnUntraced(function* (bytes: number, fill: number) {
        const failure = yield* Given.failureOf(upload(inPieces(Buffer.alloc(bytes, fill)), { caller }))
        return failure?._tag === "FileRefused" ? failure.code : failure
      })
      assert.strictEqual(yield* codeOf(1_000_001, 0xfe), "payload_too_large")
      assert.strictEqual((yield* leftOf(begun.at(-1)))?._tag, "NotFound")
      assert.strictEqual(yield* codeOf(1_000_000, 0xfe), undefined)
      assert.strictEqual(yield* codeOf(500_001, 0xfd), "quota_exceeded")
      assert.strictEqual((yield* leftOf(begun.at(-1)))?._tag, "NotFound")
      assert.strictEqual(yield* codeOf(500_000, 0xfd), undefined)
    }).pipe(Effect.provide(inMemory))
  )

  it.effect("that is cut or interrupted leaves nothing", () =>
    Effect.gen(function* () {
      const half = inPieces(Buffer.alloc(600_000, 0xfe))
      const cut = yield* Given.failureOf(
        (yield* Files).upload({
          caller: yield* Given.newOwner,
          content: Stream.concat(half, Stream.fail("cut" as const)),
          said: said("")
        })
      )
      assert.strictEqual(cut, "cut")
      assert.strictEqual((yield* leftOf(begun.at(-1)))?._tag, "NotFound")

      const stalls = yield* Deferred.make<void>()
      const content = Stream.concat(
        half,
        Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(stalls, undefined), Effect.never))
      )
      const stalled = yield* Effect.forkChild(upload(content))
      yield* Deferred.await(stalls)
      assert.strictEqual(yield* leftOf(begun.at(-1)), undefined)
      yield* Fiber.interrupt(stalled)
      assert.strictEqual((yield* leftOf(begun.at(-1)))?._tag, "NotFound")
    }).pipe(Effect.provide(inMemory))
  )

  it.effect("that is interrupted while the store begins it leaves nothing", () => {
    const asked = Deferred.makeUnsafe<FileId>()
    const answer = Deferred.makeUnsafe<void>()
    const slow = Layer.effect(
      FileStore,
      Effect.map(FileStore, (store) => ({
        ...store,
        // Like a database: it does what it was asked, even if nobody waits for it any more.
        begin: (upload) =>
          Deferred.succeed(asked, upload.file_id).pipe(
            Effect.andThen(Effect.forkDetach(Effect.andThen(Deferred.await(answer), store.begin(upload)))),
            Effect.flatMap(Fiber.join)
          )
      }))
    )
    return Effect.gen(function* () {
      const uploading = yield* Effect.forkChild(upload(inPieces(new Uint8Array(chunkBytes))))
      const file = yield* Deferred.await(asked)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(uploading))
      yield* Effect.repeat(Effect.yieldNow, { times: 10 })
      yield* Deferred.succeed(answer, undefined)
      yield* Fiber.join(interrupting)
      yield* Effect.repeat(Effect.yieldNow, { times: 10 })
      const appended = (yield* FileStore).append(file, 0, new Uint8Array(1), fromMillis(0))
      assert.strictEqual((yield* Given.failureOf(appended))?._tag, "NotFound")
    }).pipe(
      Effect.provide(Layer.provideMerge(Files.layer, Layer.provide(slow, MemoryStore.layer))),
      Effect.provideService(FilesConfig, limits)
    )
  })
})

describe("a file that a question names by its URL", () => {
  it.effect("has 10 seconds to come, and leaves nothing if it does not", () =>
    Effect.gen(function* () {
      const caller = yield* Given.newOwner
      const stalls = yield* Deferred.make<void>()
      const content = Stream.concat(
        Stream.succeed(Buffer.alloc(chunkBytes, 0xfe)),
        Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(stalls, undefined), Effect.never))
      )
      const question = [
        { type: "text", text: "?" },
        { type: "file", url: "https://slow.example/a.bin" }
      ] as const
      const takeIn = yield* Effect.provideService(QuestionFiles.make, FileFetch, () => ({ content, said: said("") }))
      const taking = yield* takeIn.takeQuestion(caller, question).pipe(Effect.flip, Effect.forkChild)
      yield* Deferred.await(stalls)
      yield* TestClock.adjust("9999 millis")
      assert.isUndefined(taking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const issues = [{ path: ["question", 1, "url"], message: "The file did not come within 10 seconds" }]
      assert.deepInclude(yield* Fiber.join(taking), { issues })
      assert.strictEqual((yield* leftOf(begun.at(-1)))?._tag, "NotFound")
    }).pipe(Effect.provide(inMemory))
  )
})
