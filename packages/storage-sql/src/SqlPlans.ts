import type { StorageError } from "@bowline/domain/storage/StorageError"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { Plans, type PlanServices, type PlansOptions } from "@bowline/runtime/plan/Plans"
import type { Provider } from "@bowline/runtime/provider/Provider"
import { Providers } from "@bowline/runtime/provider/Providers"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { Data, Effect, Layer, Predicate } from "effect"
import * as SqlStore from "./SqlStore.ts"

/** The database cannot be used. The message has the cause, in one line and without the user and the password of the URL. */
export class DatabaseUnusable extends Data.TaggedError("DatabaseUnusable")<{ readonly cause: unknown }> {
  override get message(): string {
    return `The database cannot be used: ${rootOf(this.cause)}. Expected a Postgres server that answers, and a user who may create tables`
  }
}

/** The message of the first cause. */
const rootOf = (cause: unknown): string => {
  if (cause instanceof AggregateError) return cause.errors.map(rootOf).join(", ")
  if (Predicate.hasProperty(cause, "cause") && Predicate.isNotNullish(cause.cause)) return rootOf(cause.cause)
  const text = Predicate.hasProperty(cause, "message") ? cause.message : cause
  return (Predicate.isString(text) ? text : "an error without a message")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/(?<=\/\/)[^/\s]*@/g, "")
}

const toUnusable = ({ reason }: StorageError) => new DatabaseUnusable({ cause: reason.cause })

/** Where the plans are stored, and which model answers. */
export type PostgresPlans = SqlStore.PostgresOptions & PlansOptions

/**
 * Plans on a Postgres server, on one provider and without peers: as `Plans.layerMemory`, and any number of processes share them. It leaves open the
 * `Provider`. Fails with `DatabaseUnusable` if the server does not answer, or refuses the migrations.
 *
 * @example
 * ```ts
 * import { DatabaseUnusable, layerPostgres } from "@bowline/storage-sql/SqlPlans"
 * import { Console, Layer, Redacted } from "effect"
 *
 * export const App = layerPostgres({ url: Redacted.make("postgres://app@127.0.0.1/app"), model: "openai/gpt-5-mini" }).pipe(
 *   Layer.tapError((error) => (error instanceof DatabaseUnusable ? Console.error(error.message) : Console.error(error)))
 * )
 * ```
 */
export const layerPostgres = ({
  eventsTtl,
  maxConnections,
  sessionTtl,
  url,
  ...config
}: PostgresPlans): Layer.Layer<PlanServices, DatabaseUnusable | SqlStore.StoresError, Provider> => {
  const stores = SqlStore.layerPostgres({
    url,
    ...(maxConnections !== undefined && { maxConnections }),
    ...(sessionTtl !== undefined && { sessionTtl }),
    eventsTtl
  })
  return Plans.layer.pipe(
    Layer.provide(Layer.provide(CredentialPool.layer, Providers.layerProvider)),
    Layer.provide([
      Layer.catchTag(stores, "StorageError", (error) => Layer.effectContext(Effect.fail(toUnusable(error)))),
      PlansConfig.layer(config),
      PeerClient.layerNone,
      McpClient.layerNone
    ])
  )
}
