import { PgClient } from "@effect/sql-pg"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Config, ConfigProvider, Effect, Layer, Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as EmbeddedDatabase from "../../src/embedded/EmbeddedDatabase.ts"
import * as SqlStore from "../../src/SqlStore.ts"
import { migratedDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl, temporaryFolder } from "../stores.ts"

const kills = Effect.orDie(
  Config.Int("BOWLINE_FILE_KILLS").pipe(
    Config.withDefault(2),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv())
  )
)

const script = fileURLToPath(import.meta.resolve("./uploadUntilKilled.ts"))

/** Has a process store and delete files, and kills it where it has told this the nth time. Returns all that it has told. */
const playUntil = (place: string, told: string, times: number) =>
  Effect.promise(async () => {
    const child = spawn(process.execPath, [script, place], { stdio: ["ignore", "pipe", "inherit"] })
    const ended = once(child, "close")
    const lines: Array<string> = []
    let left = times
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      if (line.startsWith(told) && --left === 0) child.kill("SIGKILL")
    }
    await ended
    return lines.map((line) => line.split(" "))
  })

interface Place {
  readonly place: Effect.Effect<string, never, Scope.Scope>
  readonly open: (place: string) => Layer.Layer<FileStore | SqlClient.SqlClient>
}

const databases: Readonly<Record<string, Place>> = {
  Postgres: {
    place: Effect.orDie(Effect.map(migratedDatabase, Redacted.value)),
    open: (url: string) =>
      SqlStore.layerNoDeps({ sessionTtl, isShared: true }).pipe(
        Layer.provideMerge(PgClient.layer({ url: Redacted.make(url), maxConnections: 2 })),
        Layer.orDie
      )
  },
  "the embedded database": {
    place: temporaryFolder,
    open: (folder: string) =>
      SqlStore.layerNoDeps({ sessionTtl, isShared: false }).pipe(
        Layer.provideMerge(PgClient.layerFrom(EmbeddedDatabase.make(folder))),
        Layer.orDie
      )
  }
}

/** Sweeps as a process does later, and says what there is of files, by their ids. */
const leftOf = Effect.gen(function* () {
  const store = yield* FileStore
  const sql = yield* SqlClient.SqlClient
  const later = fromMillis((yield* Clock.currentTimeMillis) + 660_000)
  yield* Effect.repeat(store.sweep(later), { until: (isMore) => !isMore })
  const orphans = yield* sql`
select f.id, f.state, c.file_id from files f full join file_chunks c on c.file_id = f.id
where f.id is null or c.file_id is null or f.state <> 'kept'`
  assert.deepStrictEqual(orphans, [])
  const found = new Map<string, string>()
  const { items } = yield* store.list(CallerName.make("ann"), { limit: 10_000 })
  for (const { bytes, file_id, sha256 } of items) {
    const chunks = yield* sql<{ readonly data: Uint8Array }>`
select data from file_chunks where file_id = ${file_id} order by seq`
    const content = Buffer.concat(chunks.map(({ data }) => data))
    assert.strictEqual(content.length, bytes)
    assert.strictEqual(createHash("sha256").update(content).digest("hex"), sha256)
    found.set(file_id, sha256)
  }
  return found
})

describe("files of a process that is killed while it stores and deletes them", () => {
  for (const [name, { open, place }] of Object.entries(databases)) {
    it.live(
      `are whole or gone, and nothing else is left of them, on ${name}`,
      () =>
        Effect.gen(function* () {
          const at = yield* place
          const kept = new Map<string | undefined, string | undefined>()
          const [deleting, deleted] = [new Set<string | undefined>(), new Set<string | undefined>()]
          for (let round = 0; round < (yield* kills); round++) {
            const told = yield* playUntil(at, round % 2 === 0 ? "chunk" : "deleting", 3 + ((round * 7) % 40))
            for (const [what, id, digest] of told) {
              if (what === "kept") kept.set(id, digest)
              if (what === "deleting") deleting.add(id)
              if (what === "deleted") deleted.add(id)
            }
            const found = yield* Effect.provide(leftOf, open(at))
            for (const [id, digest] of kept) {
              if (!deleting.has(id)) assert.strictEqual(found.get(id ?? ""), digest)
              if (deleted.has(id)) assert.isFalse(found.has(id ?? ""))
            }
          }
        }),
      3_600_000
    )
  }
})
