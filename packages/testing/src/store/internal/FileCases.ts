import type { CallerName } from "@bowline/domain/caller/CallerName"
import { FileId, type StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { chunkBytes, type FileFacts, FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import type { Page } from "@bowline/runtime/unstable/store/Page"
import { Effect } from "effect"
import assert from "node:assert/strict"
import { createHash } from "node:crypto"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** When the files of these cases are kept no longer, unless a case says otherwise: other cases share the store. */
const until = Given.farOff
const past = "1970-01-02T00:00:00.000Z"
const quota = { caller: 10_000_000 }

const contentOf = (text: string): ReadonlyArray<Uint8Array> => [Buffer.from(text)]

const factsOf = (chunks: ReadonlyArray<Uint8Array>, given: Partial<FileFacts> = {}): FileFacts => {
  const bytes = Buffer.concat(chunks)
  return {
    name: "picture.png",
    purpose: null,
    media_type: "image/png",
    bytes: bytes.length,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    width: 3,
    height: 4,
    pages: 2,
    created_at: Given.at,
    expires_at: until,
    ...given
  }
}

const newFile = Effect.map(UuidGenerator, (uuid) => FileId.make(`file_${uuid()}`))

/** An upload of which these chunks have come. */
const begin = Effect.fnUntraced(function* (owner: CallerName, chunks: ReadonlyArray<Uint8Array>) {
  const store = yield* FileStore
  const file_id = yield* newFile
  yield* store.begin({ file_id, owner, until })
  for (const [seq, chunk] of chunks.entries()) yield* store.append(file_id, seq, chunk, until)
  return file_id
})

const add = Effect.fnUntraced(function* (
  owner: CallerName,
  chunks: ReadonlyArray<Uint8Array>,
  given: Partial<FileFacts> = {}
) {
  return yield* (yield* FileStore).keep(yield* begin(owner, chunks), factsOf(chunks, given), quota)
})

const namesOf = ({ items }: Page<StoredFile>) => items.map(({ name }) => name)

const referenceTo = ({ bytes, file_id, height, media_type, name, width }: StoredFile) =>
  ({ type: "file", file_id, media_type, name, bytes, width, height }) as const

/** A plan that has the file in its question. */
const ask = (owner: CallerName, file: StoredFile, given: Given.GivenPlan = {}) =>
  Given.createHeld({ ...given, owner, question_parts: [referenceTo(file)] })

/** Sweeps until nothing is left to do. */
const sweepAll = (now: string) =>
  Effect.flatMap(FileStore, (store) => Effect.repeat(store.sweep(now), { until: (isMore) => !isMore }))

export const fileCases: ReadonlyArray<StoreCase> = [
  {
    title: "keeps a file with its chunks, and shows it to its owner alone",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const chunks = [new Uint8Array(chunkBytes).fill(200), Uint8Array.of(0, 1, 2)]
      const file_id = yield* begin(owner, chunks)
      assert.equal((yield* Given.failureOf(store.find(owner, file_id)))?._tag, "NotFound")
      assert.deepEqual((yield* store.list(owner, { limit: 10 })).items, [])
      const { file, isNew } = yield* store.keep(file_id, factsOf(chunks), quota)
      assert.equal(isNew, true)
      assert.deepEqual(file, { file_id, ...factsOf(chunks) })
      assert.deepEqual(yield* store.find(owner, file_id), file)
      const read = yield* Effect.all([store.chunk(file_id, 0), store.chunk(file_id, 1)])
      assert.deepEqual(Buffer.concat(read), Buffer.concat(chunks))
      const other = yield* Given.newOwner
      assert.equal((yield* Given.failureOf(store.find(other, file_id)))?._tag, "NotFound")
      assert.equal((yield* Given.failureOf(store.delete(other, file_id)))?._tag, "NotFound")
      assert.equal((yield* Given.failureOf(store.find(owner, "file_\0")))?._tag, "NotFound")
      assert.deepEqual(yield* store.find(owner, file_id), file)
    })
  },
  {
    title: "does not keep the memory in which a chunk came",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const file_id = yield* newFile
      const memory = Buffer.from("one")
      yield* store.begin({ file_id, owner, until })
      yield* store.append(file_id, 0, memory, until)
      memory.write("two")
      yield* store.keep(file_id, factsOf(contentOf("one")), quota)
      assert.equal(Buffer.from(yield* store.chunk(file_id, 0)).toString(), "one")
    })
  },
  {
    title:
      "takes the same bytes of one owner for the same file, which keeps its name, and stays as long as the later one",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const first = yield* add(owner, contentOf("same"), { expires_at: Given.later })
      const again = yield* begin(owner, contentOf("same"))
      const second = yield* store.keep(again, factsOf(contentOf("same"), { name: "copy.png" }), quota)
      assert.deepEqual(second, { file: { ...first.file, expires_at: until }, isNew: false })
      assert.equal((yield* Given.failureOf(store.chunk(again, 0)))?._tag, "NotFound")
      const third = yield* add(owner, contentOf("same"), { expires_at: Given.later })
      assert.equal(third.file.expires_at, until)
      assert.deepEqual((yield* store.list(owner, { limit: 10 })).items, [third.file])
      const others = yield* add(yield* Given.newOwner, contentOf("same"))
      assert.equal(others.isNew, true)
      assert.notEqual(others.file.file_id, first.file.file_id)
    })
  },
  {
    title: "keeps one file of two uploads of the same bytes that end at once",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const uploads = yield* Effect.all([begin(owner, contentOf("twin")), begin(owner, contentOf("twin"))])
      const kept = yield* Effect.forEach(uploads, (id) => store.keep(id, factsOf(contentOf("twin")), quota), {
        concurrency: "unbounded"
      })
      assert.equal(kept.filter(({ isNew }) => isNew).length, 1)
      assert.equal(new Set(kept.map(({ file }) => file.file_id)).size, 1)
    })
  },
  {
    title: "refuses a file that would be too much for its owner, and counts files that end at once together",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const ten = { caller: 10 }
      const [one, two] = yield* Effect.all([begin(owner, contentOf("123456")), begin(owner, contentOf("654321"))])
      const kept = yield* Effect.forEach(
        [
          [one, "123456"],
          [two, "654321"]
        ] as const,
        ([id, text]) => Given.failureOf(store.keep(id, factsOf(contentOf(text)), ten)),
        { concurrency: "unbounded" }
      )
      const refused = kept.filter((failure) => failure !== undefined)
      assert.deepEqual(
        refused.map((failure) => failure._tag === "FileRefused" && failure.code),
        ["quota_exceeded"]
      )
      assert.equal((yield* store.list(owner, { limit: 10 })).items.length, 1)
      yield* store.discard(kept[0] === undefined ? two : one)
      yield* store.keep(yield* begin(owner, contentOf("1234")), factsOf(contentOf("1234")), ten)
      const [newest] = (yield* store.list(owner, { limit: 1 })).items
      assert(newest !== undefined)
      yield* store.delete(owner, newest.file_id)
      yield* store.keep(yield* begin(owner, contentOf("4321")), factsOf(contentOf("4321")), ten)
    })
  },
  {
    title: "lists the files of an owner in pages, newest first, and those of a purpose or behind one of them",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const ids = new Map<string, FileId>()
      for (const name of ["a", "b", "c"]) {
        const { file } = yield* add(owner, contentOf(name), { name, purpose: name === "b" ? "vision" : null })
        ids.set(name, file.file_id)
      }
      const other = yield* Given.newOwner
      const { file: theirs } = yield* add(other, contentOf("a"))
      const first = yield* store.list(owner, { limit: 2 })
      assert.deepEqual(namesOf(first), ["c", "b"])
      assert(first.next !== null)
      const second = yield* store.list(owner, { limit: 2, cursor: first.next })
      assert.deepEqual([namesOf(second), second.next], [["a"], null])
      const namesBehind = (after: FileId | undefined, purpose?: string) =>
        Effect.map(
          store.list(
            owner,
            { limit: 2 },
            { ...(after !== undefined && { after }), ...(purpose !== undefined && { purpose }) }
          ),
          namesOf
        )
      assert.deepEqual(yield* namesBehind(ids.get("c")), ["b", "a"])
      assert.deepEqual(yield* namesBehind(undefined, "vision"), ["b"])
      assert.deepEqual(yield* namesBehind(ids.get("b"), "vision"), [])
      assert.deepEqual(yield* namesBehind(theirs.file_id), [])
    })
  },
  {
    title: "deletes a file with its chunks, and takes the same bytes as a new one then",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const chunks = Array.from({ length: 70 }, (_, index) => Uint8Array.of(index))
      const { file } = yield* add(owner, chunks)
      yield* store.delete(owner, file.file_id)
      assert.equal((yield* Given.failureOf(store.find(owner, file.file_id)))?._tag, "NotFound")
      assert.equal((yield* Given.failureOf(store.delete(owner, file.file_id)))?._tag, "NotFound")
      for (const seq of [0, 69]) {
        assert.equal((yield* Given.failureOf(store.chunk(file.file_id, seq)))?._tag, "NotFound")
      }
      const again = yield* add(owner, chunks)
      assert.equal(again.isNew, true)
    })
  },
  {
    title: "leaves nothing of an upload that is discarded, and takes no more of it",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const file_id = yield* begin(owner, contentOf("cut"))
      yield* store.discard(file_id)
      yield* store.discard(file_id)
      assert.equal((yield* Given.failureOf(store.chunk(file_id, 0)))?._tag, "NotFound")
      assert.equal((yield* Given.failureOf(store.append(file_id, 1, Uint8Array.of(1), until)))?._tag, "NotFound")
      const kept = yield* Given.failureOf(store.keep(file_id, factsOf(contentOf("cut")), quota))
      assert.equal(kept?._tag, "NotFound")
    })
  },
  {
    title: "does not discard an upload that has become a file",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const { file } = yield* add(owner, contentOf("kept"))
      yield* store.discard(file.file_id)
      assert.deepEqual(yield* store.find(owner, file.file_id), file)
    })
  },
  {
    title: "sweeps files that are kept no longer, and uploads that were silent for too long, and no others",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const old = yield* add(owner, contentOf("old"), { expires_at: past })
      const fresh = yield* add(owner, contentOf("fresh"))
      const silent = yield* begin(owner, [])
      yield* store.append(silent, 0, Uint8Array.of(1), past)
      const busy = yield* begin(owner, contentOf("busy"))
      yield* sweepAll("1970-01-03T00:00:00.000Z")
      assert.deepEqual((yield* store.list(owner, { limit: 10 })).items, [fresh.file])
      for (const id of [old.file.file_id, silent]) {
        assert.equal((yield* Given.failureOf(store.chunk(id, 0)))?._tag, "NotFound")
      }
      yield* store.append(busy, 1, Uint8Array.of(1), until)
      assert.equal((yield* Given.failureOf(store.append(silent, 1, Uint8Array.of(1), until)))?._tag, "NotFound")
    })
  },
  {
    title: "gives a session the files of its questions: they stay as long as it does, and go with the last one",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const sessions = yield* SessionStore
      const owner = yield* Given.newOwner
      const { file } = yield* add(owner, contentOf("asked"), { expires_at: past })
      const first = yield* ask(owner, file)
      const second = yield* ask(owner, file)
      const session = yield* sessions.find(owner, first.session_id)
      assert.equal((yield* store.find(owner, file.file_id)).expires_at, session.expires_at)
      for (const held of [first, second]) yield* Given.finish(held)
      yield* sweepAll("1970-01-03T00:00:00.000Z")
      yield* sessions.delete(first.session_id)
      yield* sweepAll("1970-01-03T00:00:00.000Z")
      assert.equal((yield* store.list(owner, { limit: 10 })).items.length, 1)
      yield* sessions.delete(second.session_id)
      yield* sweepAll("1970-01-03T00:00:00.000Z")
      assert.deepEqual((yield* store.list(owner, { limit: 10 })).items, [])
    })
  },
  {
    title:
      "deletes no file while a plan that has it is not over, and creates no plan with a file that is gone or another owner's",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const { file } = yield* add(owner, contentOf("in use"))
      const held = yield* ask(owner, file)
      const failure = yield* Given.failureOf(store.delete(owner, file.file_id))
      assert.equal(failure?._tag === "FileRefused" && failure.code, "file_in_use")
      yield* Given.finish(held)
      yield* store.delete(owner, file.file_id)
      assert.equal((yield* Given.failureOf(store.find(owner, file.file_id)))?._tag, "NotFound")
      assert.equal((yield* Given.failureOf(ask(owner, file)))?._tag, "InvalidRequest")
      const others = yield* add(yield* Given.newOwner, contentOf("in use"))
      assert.equal((yield* Given.failureOf(ask(owner, others.file)))?._tag, "InvalidRequest")
    })
  },
  {
    title: "refuses a plan whose files would be too much for its session, and counts each file once",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const session = { external_session_id: yield* Given.newName, filesQuota: 10 }
      const { file: one } = yield* add(owner, contentOf("123456"))
      const { file: two } = yield* add(owner, contentOf("654321"))
      yield* Given.finish(yield* ask(owner, one, session))
      yield* Given.finish(yield* ask(owner, one, session))
      const failure = yield* Given.failureOf(ask(owner, two, session))
      assert.equal(failure?._tag === "InvalidRequest" && failure.code, "quota_exceeded")
      yield* Given.finish(yield* ask(owner, two, { filesQuota: 10 }))
    })
  },
  {
    title: "gives a session files that come later, of its owner only and within its quota, and lists the newest ones",
    test: Effect.gen(function* () {
      const store = yield* FileStore
      const owner = yield* Given.newOwner
      const { session_id } = yield* Given.createHeld({ owner })
      const files: Array<StoredFile> = []
      for (const name of ["1234", "5678", "90"]) files.push((yield* add(owner, contentOf(name), { name })).file)
      const ids = files.map(({ file_id }) => file_id)
      yield* store.attach(session_id, ids.slice(0, 1), 10)
      // A file that the session has counts once.
      yield* store.attach(session_id, ids.slice(0, 2), 10)
      const full = yield* Given.failureOf(store.attach(session_id, [...ids.slice(2), ...ids], 9))
      assert.equal(full?._tag === "FileRefused" && full.code, "quota_exceeded")
      const { file: others } = yield* add(yield* Given.newOwner, contentOf("o"))
      assert.equal((yield* Given.failureOf(store.attach(session_id, [others.file_id], 99)))?._tag, "NotFound")
      assert.deepEqual(namesOf({ items: yield* store.ofSession(session_id, 5), next: null }), ["5678", "1234"])
      yield* store.attach(session_id, ids, 10)
      assert.deepEqual(namesOf({ items: yield* store.ofSession(session_id, 2), next: null }), ["90", "5678"])
      // A plan of the session is not over.
      const inUse = yield* Given.failureOf(store.delete(owner, files[0]?.file_id ?? ""))
      assert.equal(inUse?._tag === "FileRefused" && inUse.code, "file_in_use")
    })
  }
]
