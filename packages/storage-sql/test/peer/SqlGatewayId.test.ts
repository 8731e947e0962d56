import { GatewayId } from "@bowline/runtime/unstable/config/GatewayId"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as SqlStore from "../../src/SqlStore.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"

describe("the id of a gateway", () => {
  it.live("is the same for all replicas on one database, however often they start, and another one on another", () =>
    Effect.gen(function* () {
      const url = yield* freshDatabase
      const idOn = (url: Redacted.Redacted) =>
        Effect.provide(GatewayId, Layer.fresh(SqlStore.layerPostgres({ url, maxConnections: 2, sessionTtl })))
      const ids = yield* Effect.all([idOn(url), idOn(url), idOn(url)], { concurrency: 2 })
      assert.match(ids[0], /^[0-9a-f-]{36}$/)
      assert.deepStrictEqual(new Set(ids).size, 1)
      assert.notStrictEqual(yield* idOn(yield* freshDatabase), ids[0])
    }).pipe(Effect.scoped)
  )

  it.live("is in the stored route of a plan", () =>
    Effect.gen(function* () {
      const url = yield* freshDatabase
      yield* Effect.gen(function* () {
        const route = { hops: 2, via: ["a", yield* GatewayId] }
        const { plan } = yield* Given.create({ route })
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`select route from plans where id = ${plan.plan_id}`, [{ route }])
      }).pipe(
        Effect.provide(
          SqlStore.layerNoDeps({ sessionTtl, isShared: true }).pipe(
            Layer.provideMerge(PgClient.layer({ url, maxConnections: 2 }))
          )
        )
      )
    }).pipe(Effect.scoped)
  )
})
