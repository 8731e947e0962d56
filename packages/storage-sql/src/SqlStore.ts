import type { StorageError } from "@bowline/domain/storage/StorageError"
import type * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { gauge, observe } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { PgClient } from "@effect/sql-pg"
import { Config, Duration, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as RateLimiter from "effect/persistence/RateLimiter"
import * as SqlAccountStore from "./caller/SqlAccountStore.ts"
import * as SqlKeyStore from "./caller/SqlKeyStore.ts"
import * as SqlLoginStore from "./caller/SqlLoginStore.ts"
import * as SqlRateLimiterStore from "./caller/SqlRateLimiterStore.ts"
import type { DataDirInUse } from "./embedded/DataDir.ts"
import * as EmbeddedDatabase from "./embedded/EmbeddedDatabase.ts"
import { boundTransactions } from "./internal/BoundTransactions.ts"
import { translateErrors } from "./internal/StorageErrors.ts"
import * as Migrations from "./migration/Migrations.ts"
import type { MigrationBlocked } from "./migration/MigrationStep.ts"
import * as SqlGatewayId from "./peer/SqlGatewayId.ts"
import * as Publisher from "./notice/Publisher.ts"
import * as SqlNotices from "./notice/SqlNotices.ts"
import * as SqlInboxStore from "./plan/SqlInboxStore.ts"
import * as SqlOverviewStore from "./plan/SqlOverviewStore.ts"
import * as SqlPlanStore from "./plan/SqlPlanStore.ts"
import * as SqlEffectStore from "./plan/SqlEffectStore.ts"
import * as SqlFeedbackStore from "./plan/SqlFeedbackStore.ts"
import * as SqlFileStore from "./file/SqlFileStore.ts"
import * as SqlPushStore from "./plan/SqlPushStore.ts"
import * as SqlTaskStore from "./plan/SqlTaskStore.ts"
import * as SqlCredentialStore from "./provider/SqlCredentialStore.ts"
import * as SqlScheduleStore from "./schedule/SqlScheduleStore.ts"
import * as SqlLeaseStore from "./session/SqlLeaseStore.ts"
import * as SqlSessionStore from "./session/SqlSessionStore.ts"

export type { MigrationBlocked }

interface Options {
  /** How long a session is kept after its last plan. */
  readonly sessionTtl: Duration.Duration
  /** How long the events of a plan are kept after its end: 30 days, or as long as its session if that is shorter, unless it is given. */
  readonly eventsTtl?: Duration.Duration | undefined
  /** Whether other processes may use the same database. */
  readonly isShared: boolean
}

/**
 * Ends all leases, and leaves them where take-overs find what is under them, and discards uploads. No other process can have the database, so the one that had them is dead.
 */
const endLeases = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* translateErrors(
    sql.withTransaction(
      Effect.all([
        sql`update leases set replica = '', expires_at = '-infinity'`,
        sql`delete from replicas`,
        sql`update files set expires_at = '-infinity' where state = 'uploading'`
      ])
    )
  )
})

/** The stores of `@bowline/runtime`, and what replicas share besides. */
export type Stores = MemoryStore.Stores | RateLimiter.RateLimiterStore

/** Why there are no stores: the database does not answer or refuses a statement, or a migration waits for others. */
export type StoresError = MigrationBlocked | StorageError

/**
 * The stores on a database. Brings its tables up to date first and, if the database is not shared, ends the leases of the
 * previous process.
 *
 * @example
 * ```ts
 * import * as SqlStore from "@bowline/storage-sql/SqlStore"
 * import { PgClient } from "@effect/sql-pg"
 * import { Duration, Layer, Redacted } from "effect"
 *
 * // On a client that the app has anyway.
 * export const Stores = SqlStore.layerNoDeps({ sessionTtl: Duration.days(30), isShared: true }).pipe(
 *   Layer.provide(PgClient.layer({ url: Redacted.make("postgres://bowline@127.0.0.1/bowline") }))
 * )
 * ```
 */
export const layerNoDeps = (
  options: Options
): Layer.Layer<Stores, StoresError, PgClient.PgClient | SqlClient.SqlClient> =>
  (options.isShared ? Layer.empty : wakesHeard).pipe(
    Layer.provideMerge(allStores(options)),
    Layer.provide(Layer.effectDiscard(options.isShared ? Migrations.run : Effect.andThen(Migrations.run, endLeases)))
  )

/** A notice that the embedded database sends itself reaches nobody: who asks for the abort of a parked plan wakes it. */
const wakesHeard = Layer.effect(
  PlanStore,
  Effect.gen(function* () {
    const store = yield* PlanStore
    const notices = yield* Notices
    const requestAbort: typeof store.requestAbort = (...given) =>
      Effect.andThen(store.requestAbort(...given), notices.publish([{ _tag: "PlansLeft" }]))
    return { ...store, requestAbort }
  })
)

const allStores = (options: Options) =>
  Layer.mergeAll(
    SqlPlanStore.layer(options),
    SqlTaskStore.layer,
    SqlPushStore.layer,
    SqlEffectStore.layer,
    SqlFeedbackStore.layer,
    SqlFileStore.layer,
    SqlOverviewStore.layer,
    SqlInboxStore.layer,
    SqlScheduleStore.layer,
    SqlSessionStore.layer,
    SqlLeaseStore.layer(options),
    Layer.provideMerge(SqlCredentialStore.layer, SqlGatewayId.layer),
    SqlAccountStore.layer,
    SqlKeyStore.layer,
    SqlLoginStore.layer,
    options.isShared ? SqlRateLimiterStore.layer : RateLimiter.layerStoreMemory
  ).pipe(
    // No other process could receive notices, and the one connection of the embedded database cannot wait for them.
    Layer.provideMerge(options.isShared ? SqlNotices.layer : Layer.merge(Notices.layerMemory, Publisher.layerAlone))
  )

const connections = gauge({
  name: "bowline.database.connections",
  description:
    "Connections for statements that this process may open; where more `bowline.database.operations` are open, they wait"
})
const showConnections = (count: number) => Layer.effectDiscard(observe(connections.of({}), () => count))

/** How long a connection is idle before the system asks whether the server is still there. */
const keepAlive = "10 seconds"

/** A Postgres server. */
export interface PostgresOptions {
  /** With `?sslmode=verify-full` the server has to show a certificate of its name. */
  readonly url: Redacted.Redacted
  /** For statements: 10, unless it is given. Leases have one more, notices two. */
  readonly maxConnections?: number
  /** How long a session is kept after its last plan: 30 days, unless it is given. */
  readonly sessionTtl?: Duration.Duration
  /** How long the events of a plan are kept after its end: 30 days, or as long as its session if that is shorter, unless it is given. */
  readonly eventsTtl?: Duration.Duration | undefined
}

/** A database inside this process. */
export interface EmbeddedOptions {
  /** The folder with its files. No other process may use it. */
  readonly dataDir: string
  /** How long a session is kept after its last plan: 30 days, unless it is given. */
  readonly sessionTtl?: Duration.Duration
  /** How long the events of a plan are kept after its end: 30 days, or as long as its session if that is shorter, unless it is given. */
  readonly eventsTtl?: Duration.Duration | undefined
}

const defaultTtl = Duration.days(30)

/**
 * The stores on a Postgres server, which any number of processes share. Fails if it does not answer, or refuses the migrations.
 *
 * @example
 * ```ts
 * import { layerPostgres } from "@bowline/storage-sql/SqlStore"
 * import { Redacted } from "effect"
 *
 * export const Stores = layerPostgres({ url: Redacted.make("postgres://bowline@127.0.0.1/bowline"), maxConnections: 20 })
 * ```
 */
export const layerPostgres = ({
  url,
  maxConnections = 10,
  sessionTtl = defaultTtl,
  eventsTtl
}: PostgresOptions): Layer.Layer<Stores, StoresError> =>
  layerNoDeps({ sessionTtl, eventsTtl, isShared: true }).pipe(
    Layer.provide(
      PgClient.layerFrom(
        PgClient.make({ url, maxConnections, keepAlive, applicationName: "bowline" }).pipe(
          Effect.map(boundTransactions),
          translateErrors
        )
      )
    ),
    Layer.merge(showConnections(maxConnections))
  )

/** As `layerPostgres`, with options that are read from the configuration. */
export const layerPostgresConfig = (
  options: Config.Wrap<PostgresOptions>
): Layer.Layer<Stores, StoresError | Config.ConfigError> =>
  Layer.unwrap(Effect.map(Config.unwrap(options), layerPostgres))

/** The stores on a Postgres inside this process, with its files in `dataDir`. Fails with `DataDirInUse` if another process uses it. */
export const layerEmbedded = ({
  dataDir,
  sessionTtl = defaultTtl,
  eventsTtl
}: EmbeddedOptions): Layer.Layer<Stores, StoresError | DataDirInUse> =>
  layerNoDeps({ sessionTtl, eventsTtl, isShared: false }).pipe(
    Layer.provide(PgClient.layerFrom(EmbeddedDatabase.make(dataDir))),
    Layer.merge(showConnections(1))
  )
