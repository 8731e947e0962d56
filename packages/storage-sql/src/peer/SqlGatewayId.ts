import { GatewayId } from "@bowline/runtime/config/GatewayId"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { storageError } from "../internal/StorageErrors.ts"

/** The id that the database has been given with its tables. */
export const layer = Layer.effect(
  GatewayId,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* storageError(sql<{ readonly id: string }>`select id from gateway`)
    return row === undefined ? yield* Effect.die("The gateway has no id") : row.id
  })
)
