import { GatewayId } from "@bowline/runtime/unstable/config/GatewayId"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"

/** The id of the gateway, which the migration that created the table generated. */
export const layer = Layer.effect(
  GatewayId,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const withDeadline = yield* makeWithDeadline
    const [row] = yield* withDeadline(sql<{ readonly id: string }>`select id from gateway`)
    return row === undefined ? yield* Effect.die("The gateway has no id") : row.id
  })
)
