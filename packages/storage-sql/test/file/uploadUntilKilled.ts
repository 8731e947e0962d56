// A process that stores files in the database it is given, a folder or a URL, and deletes some of them, until it is killed. It prints what it has come to:
// `chunk`, in the middle of an upload; `kept <id> <digest>`; `deleting <id>`; `deleted <id>`.
import { CallerName } from "@bowline/domain/caller/CallerName"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { Effect, Layer, Redacted, Stream } from "effect"
import { randomBytes, randomInt } from "node:crypto"
import * as SqlStore from "../../src/SqlStore.ts"

const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))
const caller = CallerName.make("ann")

const program = Effect.gen(function* () {
  const files = yield* Files
  const store = yield* FileStore
  const upload = Effect.suspend(() => {
    const pieces = Array.from({ length: randomInt(1, 30) }, () => randomBytes(randomInt(1, 131_072)))
    const content = Stream.tap(Stream.fromIterable(pieces).pipe(Stream.rechunk(1)), () => print("chunk"))
    return files.upload({ caller, content, said: () => ({ name: undefined, type: "" }) })
  })
  const keep = Effect.gen(function* () {
    const { file } = yield* upload
    yield* print(`kept ${file.file_id} ${file.sha256}`)
    return file.file_id
  })
  const come = Effect.gen(function* () {
    const id = yield* keep
    yield* print(`deleting ${id}`)
    yield* store.delete(caller, id)
    yield* print(`deleted ${id}`)
  })
  yield* Effect.all([Effect.forever(keep), Effect.forever(come), Effect.forever(come)], { concurrency: "unbounded" })
})

const place = process.argv[2] ?? ""
const stores = place.startsWith("postgres")
  ? SqlStore.layerPostgres({ url: Redacted.make(place) })
  : SqlStore.layerEmbedded({ dataDir: place })
await Effect.runPromise(program.pipe(Effect.provide(Files.layer.pipe(Layer.provideMerge(stores)))))
