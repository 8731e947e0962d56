import { anonymous } from "@bowline/domain/caller/CallerName"
import type { NewEntry, Waiting } from "@bowline/domain/plan/Inbox"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { say } from "@bowline/testing/provider/Turn"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { layerOnStore } from "@bowline/testing/unstable/TestKit"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { DataDirInUse } from "../../src/embedded/DataDir.ts"
import * as EmbeddedDatabase from "../../src/embedded/EmbeddedDatabase.ts"
import * as Migrations from "../../src/migration/Migrations.ts"
import { makeWeeks } from "../../src/plan/internal/SealedWeeks.ts"
import * as SqlStore from "../../src/SqlStore.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl, temporaryFolder } from "../stores.ts"

const Row = Schema.Record(Schema.String, Schema.Json)
const Store = Schema.fromJsonString(
  Schema.Struct({ version: Schema.Int, at: Schema.String, tables: Schema.Record(Schema.String, Schema.Array(Row)) })
)

/** What gateways of former versions have left whose plans wait, by the number of their migrations: `recordStore.ts` has written it. */
const folder = join(import.meta.dirname, "stores")
const stores = readdirSync(folder).map((file) =>
  Schema.decodeUnknownSync(Store)(readFileSync(join(folder, file), "utf8"))
)
type StoreOf = (typeof stores)[number]

const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)/g

/** Makes the tables of that version, with its rows, as if it had been stopped just now. */
const restore = Effect.fnUntraced(function* ({ at, tables, version }: StoreOf) {
  const sql = yield* SqlClient.SqlClient
  yield* Migrations.runOf(Object.fromEntries(Object.entries(Migrations.migrations).slice(0, version)))
  const passed = (yield* Clock.currentTimeMillis) - Date.parse(at)
  for (const [table, rows] of Object.entries(tables)) {
    if (table === "sealed") yield* makeWeeks(sql, [null])
    const sorted = rows.toSorted((a, b) => Number(a["ordinal"] ?? 0) - Number(b["ordinal"] ?? 0))
    const shifted = JSON.stringify(sorted).replaceAll(time, (then) => new Date(Date.parse(then) + passed).toISOString())
    yield* sql.unsafe(
      `insert into ${table} overriding user value select * from json_populate_recordset(null::${table}, $1::json)`,
      [shifted]
    )
  }
})

type Client = Layer.Layer<
  PgClient.PgClient | SqlClient.SqlClient,
  SqlError.SqlError | SqlStore.StoresError | DataDirInUse
>
const clients: Readonly<Record<string, Client>> = {
  Postgres: Layer.unwrap(Effect.map(freshDatabase, (url) => PgClient.layer({ url, maxConnections: 5 }))),
  "the embedded database": Layer.unwrap(
    Effect.map(temporaryFolder, (folder) => PgClient.layerFrom(EmbeddedDatabase.make(folder)))
  )
}

/** What settles a wait, and what the model is told then. */
const settling = ({ kind, task_id }: Waiting): readonly [entry: NewEntry, told: RegExp] => {
  switch (kind) {
    case "approval":
      return [{ type: "decision", task_id, decision: "approve" }, /paid for hi/]
    case "result":
      return [{ type: "result", task_id, content: "the red one" }, /the red one/]
    default:
      return [{ type: "answer", task_id, text: "the blue one" }, /you said .*the blue one/]
  }
}

const script: Script = (asked) => [say(results(asked).join())]

/** A version before had no other waits than approvals. */
const waitsOf = ({ tables }: StoreOf): Array<string> =>
  (tables["waits"] ?? tables["approvals"] ?? []).map(({ kind }) => (typeof kind === "string" ? kind : "approval"))

const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

/** It asks again what it asked the gateway of that version. */
const peerOf = ({ tables }: StoreOf): Partial<PeerClient["Service"]> => {
  const mark = tables["waits"]?.find(({ kind }) => kind === "answer")?.["mark"]
  return {
    call: ({ answer, input, skill }) =>
      Effect.gen(function* () {
        const answered =
          skill.id === "pay"
            ? undefined
            : yield* answer?.({ mark: textOf(mark), message: "Which one?" }) ?? Effect.undefined
        const content =
          answered === undefined || answered === "expired"
            ? `paid for ${textOf(input["input"])}`
            : `you said ${JSON.stringify(answered.content)}`
        return { state: "completed", content, verified: "unknown" } as const
      })
  }
}

const wake = Effect.gen(function* () {
  const inbox = yield* Inbox
  const plans = yield* Plans
  const waiting = inbox.waiting(anonymous, {}, { limit: 100 })
  const { items } = yield* waiting
  for (const wait of items) {
    const { plan_id } = wait
    const [entry, told] = settling(wait)
    yield* inbox.accept({ caller: anonymous, isAdmin: false }, plan_id, entry)
    const plan = yield* Effect.repeat(plans.get(anonymous, plan_id), {
      until: ({ state }) => state !== "running" && state !== "waiting",
      schedule: Schedule.spaced("20 millis")
    })
    assert.strictEqual(plan.state, "completed")
    assert.match(plan.final?.text ?? "", told)
    const { items: entries } = yield* inbox.list({ caller: anonymous, isAdmin: false }, plan_id, { limit: 10 })
    assert.deepStrictEqual(
      entries.map(({ state, type }) => [type, state]),
      [[entry.type, "taken"]]
    )
  }
  assert.isEmpty((yield* waiting).items)
  return items.map(({ kind }) => kind)
})

describe("plans that wait in the store of a former version", () => {
  for (const store of stores) {
    for (const [name, client] of Object.entries(clients)) {
      it.live(`of ${store.version} migrations are woken and finished, on ${name}`, () =>
        Effect.gen(function* () {
          const isShared = name === "Postgres"
          const restored = Layer.provideMerge(Layer.effectDiscard(restore(store)), Layer.fresh(client))
          const migrated = Layer.provideMerge(SqlStore.layerNoDeps({ sessionTtl, isShared }), restored)
          const gateway = Layer.provideMerge(layerOnStore({ script, peers: peerOf(store) }), migrated)
          const kinds = yield* Effect.provide(wake, gateway)
          assert.sameMembers([...kinds], waitsOf(store))
        }).pipe(Effect.scoped)
      )
    }
  }
})
