import type * as SqlStore from "@bowline/storage-sql/SqlStore"
import { unpack } from "@bowline/storage-sql/unstable/plan/SealedEvents"
import { PgClient } from "@effect/sql-pg"
import { Effect, type Layer, Redacted, type Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inject } from "vitest"
import * as KeptRecords from "./KeptRecords.ts"

declare module "vitest" {
  interface ProvidedContext {
    readonly postgresUrl: string
    readonly postgresTemplate: string
  }
}

/** When a database goes, nothing of its gateways is left that could change it. */
const keepRecords = <E>(stores: (sql: typeof SqlStore) => Layer.Layer<SqlStore.Stores, E>) =>
  KeptRecords.whenStoreIsLeft((folder) =>
    Effect.flatMap(
      Effect.promise(() => import("@bowline/storage-sql/SqlStore")),
      (sql) => Effect.provide(KeptRecords.keep(folder), stores(sql))
    )
  )

const embedded = Effect.gen(function* () {
  const dataDir = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-gateway-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  yield* keepRecords(({ layerEmbedded }) => layerEmbedded({ dataDir }))
  return { BOWLINE_DATA_DIR: dataDir }
})

const databaseLike = Effect.fnUntraced(function* (template: string) {
  const url = new URL(inject("postgresUrl"))
  const name = `bowline_gateway_${randomBytes(8).toString("hex")}`
  const sql = yield* PgClient.makeClient({ url: Redacted.make(url.toString()) })
  yield* Effect.acquireRelease(sql`create database ${sql(name)} template ${sql(template)} strategy file_copy`, () =>
    Effect.orDie(sql`drop database ${sql(name)} with (force)`)
  )
  url.pathname = `/${name}`
  yield* keepRecords(({ layerPostgres }) => layerPostgres({ url: Redacted.make(url.toString()) }))
  return { DATABASE_URL: url.toString() }
}, Effect.provide(Reactivity.layer))

/** The settings for each kind of storage, without a row of ours, and gone with the scope. Postgres has all tables. */
export const databases = {
  memory: Effect.succeed({ BOWLINE_DATA_DIR: "memory:" }),
  embedded,
  postgres: Effect.suspend(() => databaseLike(inject("postgresTemplate")))
}

/** Those of a copy of a database, which nothing is connected to, as of a backup that is restored. */
export const restored = ({ DATABASE_URL }: { readonly DATABASE_URL: string }) =>
  databaseLike(new URL(DATABASE_URL).pathname.slice(1))

/** Those of a Postgres in which a first start makes the tables. */
export const newPostgres = databaseLike("template1")

/** The rows of a sealed plan, as they were before they were compressed. */
const unsealed = ({ body, ends }: { readonly body: Uint8Array; readonly ends: ReadonlyArray<number> }) =>
  ends
    .flatMap((end, block) => unpack(body.subarray(ends[block - 1] ?? 0, end)))
    .map(({ payload, record = "" }) => `${payload}\n${record}`)
    .join("\n")

/** Every row of every table of ours, as text, by the names of the tables; what is sealed is with the events. */
export const dump = Effect.fnUntraced(function* (url: string) {
  const sql = yield* PgClient.makeClient({ url: Redacted.make(url) })
  const tables = yield* sql<{ readonly name: string }>`
select table_name as name from information_schema.tables where table_schema = 'public'`
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    Effect.map(
      sql<{ readonly row: string }>`select t::text as row from ${sql(name)} t`,
      (rows) => [name, rows.map(({ row }) => row).join("\n")] as const
    )
  )
  const sealed = yield* sql<{
    readonly body: Uint8Array
    readonly ends: ReadonlyArray<number>
  }>`select body, ends from sealed`
  const texts = new Map(rows)
  return texts.set("events", [texts.get("events"), ...sealed.map(unsealed)].join("\n").trim())
}, Effect.provide(Reactivity.layer))

/** What is kept of the requests of plans, those first that came first. */
export const keptRequests = Effect.fnUntraced(function* (url: string) {
  const sql = yield* PgClient.makeClient({ url: Redacted.make(url) })
  return yield* sql<{ readonly plan_id: string; readonly request: Schema.Json; readonly secrets: string | null }>`
select id as plan_id, request, request_secrets as secrets from plans order by created_at`
}, Effect.provide(Reactivity.layer))
