import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { FileStore, OutsideChunks } from "@bowline/runtime/unstable/store/FileStore"
import { layerPostgres } from "@bowline/storage-sql/SqlStore"
import { say } from "@bowline/testing/provider/Turn"
import { LeaseTime } from "@bowline/testing/unstable/store/StoreCase"
import { fileStoreCases } from "@bowline/testing/unstable/store/StoreCases"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Layer, Redacted, Schedule, Scope } from "effect"
import { cpSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as S3Chunks from "../../src/bucket/S3Chunks.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, startOn } from "../http/RunningGateway.ts"
import { databases, restored } from "../plan/Databases.ts"
import * as GatewayProcess from "../plan/GatewayProcess.ts"
import * as SignedBucket from "./SignedBucket.ts"

const bucket = "files"
const region = "eu-central-1"

/** The SDK finds the credentials there. */
const withCredentials = Effect.acquireRelease(
  Effect.sync(() => {
    const before = { ...process.env }
    Object.assign(process.env, { AWS_ACCESS_KEY_ID: SignedBucket.key, AWS_SECRET_ACCESS_KEY: SignedBucket.key })
    return before
  }),
  (before) =>
    Effect.sync(() => {
      for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) {
        const value = before[name]
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
      }
    })
)

/** A server that speaks S3, which can go away and come back at its port with what it had. */
class Bucket extends Context.Service<
  Bucket,
  {
    readonly endpoint: string
    readonly stop: Effect.Effect<void>
    readonly restart: Effect.Effect<void>
    readonly keys: () => ReadonlyArray<string>
    /** Where its objects are. */
    readonly directory: string
  }
>()("Bucket") {
  static readonly layer = Layer.effect(
    Bucket,
    Effect.gen(function* () {
      yield* withCredentials
      const directory = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-bucket-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
      )
      const make = (port: number) => SignedBucket.serve({ port, directory, bucket, region })
      let server = yield* Effect.promise(() => make(0))
      const { port } = server
      const stop = Effect.promise(() => server.close())
      yield* Effect.addFinalizer(() => Effect.ignore(stop))
      return {
        directory,
        endpoint: `http://127.0.0.1:${port}`,
        stop,
        restart: Effect.promise(async () => {
          server = await make(port)
        }),
        keys: () =>
          readdirSync(join(directory, bucket), { recursive: true, encoding: "utf8" }).filter((name) =>
            /\/\d+\._S3rver_object$/.test(name)
          )
      }
    })
  )
}

const onPostgres = Layer.unwrap(
  Effect.gen(function* () {
    const { endpoint } = yield* Bucket
    const { DATABASE_URL } = yield* databases.postgres
    return Layer.provide(
      layerPostgres({ url: Redacted.make(DATABASE_URL), maxConnections: 5 }),
      S3Chunks.layer({ bucket, endpoint, region, prefix: "kept/" })
    )
  })
)

const noTime = Layer.succeed(LeaseTime, { advance: () => Effect.die("No case of files has leases") })

describe("files in a bucket", () => {
  layer(Layer.provideMerge(Layer.merge(onPostgres, noTime), Bucket.layer), { excludeTestServices: true })((it) => {
    for (const { title, test } of fileStoreCases) it.effect(title, () => test)

    it.effect("leave nothing in it when they are gone", () =>
      Effect.gen(function* () {
        const { keys } = yield* Bucket
        assert.isTrue(keys().every((key) => key.startsWith("kept/file_")))
      })
    )

    it.effect("are refused where the region, which is signed, is another one", () =>
      Effect.gen(function* () {
        const { endpoint } = yield* Bucket
        const chunk = { file: FileId.make(`file_${"0".repeat(36)}`), seq: 0 }
        const put = Effect.flatMap(OutsideChunks, (place) => place?.put(chunk, new Uint8Array(1)) ?? Effect.void)
        const { reason } = yield* Effect.flip(
          Effect.provide(put, S3Chunks.layer({ bucket, endpoint, region: "eu-west-1" }))
        )
        assert.strictEqual(reason._tag, "rejected")
      })
    )
  })

  it.live(
    "are read from where they were stored, wait there while the bucket is away, which no plan without files notices, and are restored with it from a backup",
    () =>
      Effect.gen(function* () {
        const { directory, endpoint, keys, restart, stop } = yield* Bucket
        const folder = yield* folderOf({
          "gateway.json": JSON.stringify({
            files: { s3: { bucket, endpoint, region, prefix: "kept/" } }
          })
        })
        const BOWLINE_CONFIG = join(folder, "gateway.json")
        const store = yield* databases.postgres
        const settings = { BOWLINE_MODEL: "openai/gpt-5-mini" }
        const script = () => [say("A knot")]
        const upload = (url: string, byte: number) =>
          send(`${url}/files`, { method: "POST", body: new Uint8Array(600_000).fill(byte) })
        const read = (url: string, id: unknown) =>
          Effect.promise(
            async () => new Uint8Array(await (await fetch(`${url}/files/${String(id)}/content`)).arrayBuffer())
          )

        // Before the operator named a bucket.
        const first = yield* Effect.scoped(
          Effect.gen(function* () {
            const { url } = yield* startOn(Effect.succeed(store))(script, settings)
            return (yield* upload(url, 200)).body["file_id"]
          })
        )
        const withBucket = Scope.makeUnsafe()
        const { url } = yield* startOn(Effect.succeed(store))(script, { ...settings, BOWLINE_CONFIG }).pipe(
          Scope.provide(withBucket)
        )
        const second = (yield* upload(url, 201)).body["file_id"]
        assert.lengthOf(keys(), 3)
        assert.isTrue(keys().every((key) => key.startsWith(`kept/${String(second)}/`)))
        assert.deepStrictEqual(yield* read(url, first), new Uint8Array(600_000).fill(200))
        assert.deepStrictEqual(yield* read(url, second), new Uint8Array(600_000).fill(201))

        const cut = request(`${url}/files`, { method: "POST", headers: { "content-length": "5000000" } })
        cut.on("error", () => {})
        cut.write(Buffer.alloc(1_000_000, 204))
        const has = (count: number) =>
          Effect.repeat(
            Effect.sync(() => keys().length),
            { until: (found) => found === count, schedule: Schedule.spaced("5 millis") }
          )
        yield* has(6)
        cut.destroy()
        yield* has(3)

        yield* stop
        const refused = yield* upload(url, 202)
        assert.deepStrictEqual([refused.status, refused.body["code"]], [503, "unavailable"])
        const { body } = yield* post(`${url}/plan`, { question: "?" })
        assert.strictEqual(body["state"], "completed")
        // It is hidden at once; its bytes go when they can.
        const deleted = yield* send(`${url}/files/${String(second)}`, { method: "DELETE" })
        assert.strictEqual(deleted.status, 204)
        assert.strictEqual((yield* send(`${url}/files/${String(second)}`)).status, 404)
        assert.lengthOf(keys(), 3)

        yield* restart
        const third = yield* upload(url, 203)
        assert.strictEqual(third.status, 201)
        assert.deepStrictEqual(yield* read(url, third.body["file_id"]), new Uint8Array(600_000).fill(203))

        // The database first, and then the bucket: an object more does no harm.
        yield* Scope.close(withBucket, Exit.void)
        const copy = yield* restored(store)
        cpSync(directory, `${directory}-copy`, { recursive: true })
        yield* stop
        rmSync(directory, { recursive: true })
        renameSync(`${directory}-copy`, directory)
        yield* restart
        const { url: back } = yield* startOn(Effect.succeed(copy))(script, { ...settings, BOWLINE_CONFIG })
        assert.deepStrictEqual(yield* read(back, first), new Uint8Array(600_000).fill(200))
        assert.deepStrictEqual(yield* read(back, third.body["file_id"]), new Uint8Array(600_000).fill(203))
        const { body: list } = yield* send(`${back}/files`)
        assert.lengthOf(list["files"] as ReadonlyArray<unknown>, 2)
      }).pipe(Effect.provide(Bucket.layer), Effect.scoped)
  )

  it.live("leave nothing in it of a process that is killed while it stores one and deletes another", () =>
    Effect.gen(function* () {
      const { endpoint, keys } = yield* Bucket
      const s3 = { bucket, endpoint, region, prefix: "kept/" }
      const folder = yield* folderOf({ "gateway.json": JSON.stringify({ files: { s3 } }) })
      const { DATABASE_URL } = yield* databases.postgres
      const doomed = yield* GatewayProcess.start({
        DATABASE_URL,
        OPENAI_API_KEY: "key",
        BOWLINE_CONFIG: join(folder, "gateway.json"),
        AWS_ACCESS_KEY_ID: SignedBucket.key,
        AWS_SECRET_ACCESS_KEY: SignedBucket.key
      })
      const until = (holds: () => boolean) =>
        Effect.repeat(Effect.sync(holds), { until: (isSo) => isSo, schedule: Schedule.spaced("5 millis") })
      const upload = yield* send(`${doomed.url}/files`, { method: "POST", body: Buffer.alloc(5_000_000, 200) })
      const whole = keys().length
      assert.strictEqual(whole, 20)
      const cut = request(`${doomed.url}/files`, { method: "POST", headers: { "content-length": "5000000" } })
      cut.on("error", () => {})
      cut.write(Buffer.alloc(2_000_000, 201))
      yield* until(() => keys().length > whole + 2)
      const id = String(upload.body["file_id"])
      void fetch(`${doomed.url}/files/${id}`, { method: "DELETE" }).catch(() => {})
      const left = () => keys().filter((key) => key.includes(id)).length
      yield* until(() => left() < whole)
      yield* doomed.kill("SIGKILL")

      yield* Effect.gen(function* () {
        const store = yield* FileStore
        const later = fromMillis((yield* Clock.currentTimeMillis) + 660_000)
        yield* Effect.repeat(store.sweep(later), { until: (isMore) => !isMore })
      }).pipe(
        Effect.provide(
          Layer.provide(
            layerPostgres({ url: Redacted.make(DATABASE_URL), maxConnections: 2 }),
            S3Chunks.layer({ bucket, endpoint, region, prefix: "kept/" })
          )
        )
      )
      assert.deepStrictEqual(keys(), [])
    }).pipe(Effect.provide(Bucket.layer), Effect.scoped)
  )
})
