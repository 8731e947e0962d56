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

/** A database with all tables, and nothing in them. */
const makeImage = Effect.gen(function* () {
  const database = yield* MemoryDatabase.open()
  const migrate = Effect.map(Layer.build(layerOn(database.client)), (context) =>
    Context.get(context, PgClient.PgClient)
  )
  yield* Effect.scoped(Effect.flatMap(migrate, (sql) => sql`update gateway set id = ${gatewayId}`))
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
