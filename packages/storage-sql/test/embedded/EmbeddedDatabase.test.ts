import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import type { Worker } from "node:worker_threads"
import * as SqlStore from "../../src/SqlStore.ts"
import { onEmbedded, sessionTtl, temporaryFolder } from "../stores.ts"

const open = (dataDir: string) => Layer.build(SqlStore.layerEmbedded({ dataDir, sessionTtl }))

/** The threads of the databases that were opened. */
const threads: Array<Worker> = []
process.on("worker", (thread) => threads.push(thread))

const kill = (child: ChildProcess) =>
  Effect.promise(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, "close")
    child.kill("SIGKILL")
    await ended
  })

/** Another process that writes to the folder, and what it prints. */
const startWriter = (dataDir: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [fileURLToPath(import.meta.resolve("./writeUntilKilled.ts")), dataDir], {
          stdio: ["ignore", "pipe", "inherit"]
        })
      ),
      kill
    ),
    (child) => ({
      child,
      lines: Stream.orDie(Stream.fromAsyncIterable(createInterface({ input: child.stdout }), String))
    })
  )

/** Every file and folder in the folder, and the folder itself, by its path from there, with the bits of its mode. */
const modesIn = (folder: string) =>
  ["", ...readdirSync(folder, { recursive: true, encoding: "utf8" })].map((path) => {
    const stats = statSync(join(folder, path))
    return { path, isFolder: stats.isDirectory(), mode: stats.mode & 0o7777 }
  })

/** The process gives everything to everybody until the scope closes. */
const withoutUmask = Effect.acquireRelease(
  Effect.sync(() => process.umask(0)),
  (umask) => Effect.sync(() => process.umask(umask))
)

const checkPrivate = (dataDir: string) => {
  const modes = modesIn(dataDir)
  assert.deepStrictEqual(
    modes.filter(({ isFolder, mode }) => isFolder && mode !== 0o700),
    []
  )
  // Postgres makes a few files at every start that others could read, if they could enter the folder.
  assert.deepStrictEqual(
    modes.filter(({ isFolder, mode }) => !isFolder && (mode & 0o7133) !== 0),
    []
  )
  assert.strictEqual(modes.find(({ path }) => path === "lock")?.mode, 0o600)
}

// To make a database takes seconds, on a busy machine many.
describe("an embedded database", () => {
  it.live("is for one process at a time, loses nothing that was stored when that is killed, and is free at once", () =>
    Effect.gen(function* () {
      const dataDir = yield* temporaryFolder
      const { child, lines } = yield* startWriter(dataDir)
      const seen: Array<string> = []
      yield* lines.pipe(
        Stream.take(40),
        Stream.runForEach((line) => Effect.sync(() => seen.push(line)))
      )
      const refusal = yield* Effect.flip(Effect.scoped(open(dataDir)))
      assert.strictEqual(refusal._tag, "DataDirInUse")
      yield* kill(child)

      yield* Effect.gen(function* () {
        const store = yield* PlanStore
        const [owner = "", id = "", ...seqs] = seen
        const plan_id = PlanId.make(id)
        const acknowledged = Number(seqs.at(-1))
        const rows = yield* store.events(plan_id, 0, 10_000)
        assert.deepStrictEqual(
          rows.map(({ seq }) => seq),
          rows.map((_, index) => index + 1)
        )
        assert.isAtLeast(rows.length, acknowledged)
        const plan = yield* store.get(CallerName.make(owner), plan_id)
        assert.lengthOf(yield* (yield* SessionStore).history(plan.session_id), rows.length - 1)
        // The lease of the dead process is over, though its time is not.
        const [taken] = yield* store.takeOver("replica_b", Given.ttl, 10_000)
        assert.strictEqual(taken?.plan.plan_id, plan_id)
        assert.deepStrictEqual(taken?.tail.at(-1), rows.at(-1))
      }).pipe(Effect.provide(yield* open(dataDir)))
    }).pipe(Effect.scoped)
  )

  it.live.skipIf(!existsSync("/proc/self"))("ends at once where its folder cannot be made", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(open("/proc/bowline/data"))
      assert.strictEqual(error._tag, "StorageError")
    }).pipe(Effect.scoped)
  )

  it.live(
    "keeps what it has when it is closed and opened again, and is closed to other users of the machine, also in folders that were open to them; refuses a second use in the same process",
    () =>
      Effect.gen(function* () {
        yield* withoutUmask
        const dataDir = join(yield* temporaryFolder, "new", "data")
        const held = yield* Effect.gen(function* () {
          const stores = yield* open(dataDir)
          assert.strictEqual((yield* Effect.flip(Effect.scoped(open(dataDir))))._tag, "DataDirInUse")
          const held = yield* Effect.provide(Given.createHeld(), stores)
          checkPrivate(dataDir)
          return held
        }).pipe(Effect.scoped)
        for (const { path, isFolder } of modesIn(dataDir)) chmodSync(join(dataDir, path), isFolder ? 0o755 : 0o666)
        const stores = yield* open(dataDir)
        assert.strictEqual((yield* Effect.provide(Given.get(held), stores)).state, "running")
        checkPrivate(dataDir)
      }).pipe(Effect.scoped)
  )

  it.live(
    "leaves a folder as it is that the system shares, closes what it makes there, and starts where a process has left it unfinished",
    () =>
      Effect.gen(function* () {
        const dataDir = yield* temporaryFolder
        chmodSync(dataDir, 0o1777)
        writeFileSync(join(dataDir, "other"), "", { mode: 0o644 })
        mkdirSync(join(dataDir, "postgres.new"))
        writeFileSync(join(dataDir, "postgres.new", "PG_VERSION"), "18\n")
        yield* Effect.provide(Given.create(), yield* open(dataDir))
        const modes = new Map(modesIn(dataDir).map(({ path, mode }) => [path, mode]))
        assert.deepStrictEqual(
          ["", "other", "lock", "postgres"].map((path) => modes.get(path)),
          [0o1777, 0o644, 0o600, 0o700]
        )
      }).pipe(Effect.scoped)
  )
})

layer(onEmbedded, { excludeTestServices: true })("the one connection of an embedded database", (it) => {
  it.effect("leaves nothing of its answers in the thread of the database", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const thread = threads.at(-1)
      assert(thread !== undefined)
      const used = Effect.map(
        Effect.promise(() => thread.getHeapStatistics()),
        (heap) => heap.used_heap_size
      )
      const before = yield* used
      yield* Effect.repeat(sql`select repeat('x', 1000000)`, { times: 59 })
      assert.isBelow((yield* used) - before, 20_000_000)
    })
  )

  it.effect("is usable again after a running statement was interrupted, alone and in a transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`create table users (name text)`
      let interruptions = 0
      const insert = (name: string) =>
        sql`insert into users values (${name})`.pipe(Effect.onInterrupt(() => Effect.sync(() => interruptions++)))
      const alone = yield* Effect.forkChild(insert("alone"), { startImmediately: true })
      yield* Fiber.interrupt(alone)
      yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* insert("first")
          yield* Effect.raceFirst(insert("interrupted"), Effect.void)
          yield* insert("last")
        })
      )
      const rolledBack = yield* Effect.forkChild(sql.withTransaction(insert("rolled back")), { startImmediately: true })
      yield* Fiber.interrupt(rolledBack)
      assert.isAtLeast(interruptions, 2)
      const names = (yield* sql<{ readonly name: string }>`select name from users`).map(({ name }) => name)
      assert.includeMembers(names, ["first", "last"])
      assert.notInclude(names, "rolled back")
    })
  )

  it.effect("is usable again after a transaction was interrupted between its statements", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`create table people (name text)`
      const isOpen = yield* Deferred.make<void>()
      const writing = yield* Effect.forkChild(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`insert into people values ('one')`
            yield* Deferred.succeed(isOpen, undefined)
            return yield* Effect.never
          })
        )
      )
      yield* Deferred.await(isOpen)
      const waiting = yield* Effect.forkChild(sql`select count(*)::int as people from people`, {
        startImmediately: true
      })
      const leaving = yield* Effect.forkChild(sql`insert into people values ('two')`, { startImmediately: true })
      yield* Fiber.interrupt(leaving)
      yield* Fiber.interrupt(writing)
      assert.deepStrictEqual(yield* Fiber.join(waiting), [{ people: 0 }])
    })
  )

  it.effect("runs one transaction after the other, and continues after a statement that failed", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`create table counters (n int not null)`
      yield* sql`insert into counters values (0)`
      const increment = sql.withTransaction(
        Effect.gen(function* () {
          const [row] = yield* sql<{ readonly n: number }>`select n from counters`
          yield* Effect.yieldNow
          yield* sql`update counters set n = ${(row?.n ?? 0) + 1}`
        })
      )
      const fail = Effect.flip(sql.withTransaction(sql`insert into counters values (null)`))
      yield* Effect.all([...Array.from({ length: 10 }, () => increment), fail], { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* sql`select n from counters`, [{ n: 10 }])
      assert.strictEqual((yield* fail).reason._tag, "ConstraintError")
    })
  )

  it.effect("lets the process work on while a statement runs, however long it takes", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let turns = 0
      const count = Effect.forever(Effect.promise(() => new Promise((resolve) => setImmediate(() => resolve(turns++)))))
      yield* Effect.raceFirst(sql`select pg_sleep(0.5)`, count)
      // Some turns pass before the statement begins, and after it has ended.
      assert.isAbove(turns, 100)
    })
  )

  it.effect("tells its process that somebody wants to abort a plan, which may be parked", () =>
    Effect.gen(function* () {
      const heard: Array<string> = []
      yield* (yield* Notices).subscribe(({ _tag }) => void heard.push(_tag))
      const { plan } = yield* Given.createHeld()
      yield* (yield* PlanStore).requestAbort(plan.plan_id, "cancelled")
      assert.include(heard, "PlansLeft")
    })
  )
})
