import * as MemoryDatabase from "@bowline/storage-sql/unstable/embedded/MemoryDatabase"
import * as SqlStore from "@bowline/storage-sql/SqlStore"
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Exit, Layer, Scope } from "effect"

/** Every run has this one: a migration draws it. */
const gatewayId = "simulation"

const layerOn = (client: MemoryDatabase.MemoryDatabase["client"]) =>
  SqlStore.layerNoDeps({ sessionTtl: Duration.days(30), isShared: true }).pipe(
    Layer.provideMerge(PgClient.layerFrom(client))
  )

/** A database with all tables, and nothing in them. Its statements can draw nothing: no seed would repeat that. */
const makeImage = Effect.gen(function* () {
  const database = yield* MemoryDatabase.open()
  const prepare = Effect.gen(function* () {
    const sql = Context.get(yield* Layer.build(layerOn(database.client)), PgClient.PgClient)
    yield* sql`update gateway set id = ${gatewayId}`
    yield* sql`alter function gen_random_uuid() rename to uuid_of_no_seed`
    yield* sql`alter function random() rename to number_of_no_seed`
  })
  yield* Effect.scoped(prepare)
  return yield* database.dump
})

/** Made once in a process. */
let image: Promise<Blob> | undefined

/**
 * The SQL stores on a Postgres of their own, in memory. It starts in real time: before a run begins. `change` is what a test puts in the place of
 * its client.
 */
export const open = async (change: (client: PgClient.PgClient) => PgClient.PgClient = (client) => client) => {
  image ??= Effect.runPromise(Effect.scoped(makeImage))
  const scope = Scope.makeUnsafe()
  const { client } = await Effect.runPromise(Scope.provide(MemoryDatabase.open(await image), scope))
  return {
    layer: Layer.orDie(layerOn(Effect.map(client, change))),
    close: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
}
