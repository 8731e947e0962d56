import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import { SqlError } from "effect/sql/SqlError"
import { translateErrors } from "../internal/StorageErrors.ts"
import { approvals } from "./internal/Approvals.ts"
import { credentials } from "./internal/Credentials.ts"
import { idempotency } from "./internal/Idempotency.ts"
import { initial } from "./internal/Initial.ts"
import { peers } from "./internal/Peers.ts"
import { questions } from "./internal/Questions.ts"
import { recovery } from "./internal/Recovery.ts"
import { sessions } from "./internal/Sessions.ts"

const migrate = Migrator.make({})({
  table: "bowline_migrations",
  loader: Migrator.fromRecord({
    "0001_initial": initial,
    "0002_credentials": credentials,
    "0003_peers": peers,
    "0004_sessions": sessions,
    "0005_idempotency": idempotency,
    "0006_recovery": recovery,
    "0007_questions": questions,
    "0008_approvals": approvals
  })
}).pipe(
  Effect.catchTag("MigrationError", (error) =>
    Effect.fail(
      error.cause instanceof SqlError ? error.cause : new StorageError({ reason: new Rejected({ cause: error }) })
    )
  )
)

/** Brings the tables up to date. When several processes start at once, one migrates and the others wait for it. */
export const run = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const lock = sql`select pg_advisory_xact_lock(hashtextextended('bowline/migrations', 0))`
  yield* translateErrors(sql.withTransaction(Effect.andThen(lock, migrate)))
})
