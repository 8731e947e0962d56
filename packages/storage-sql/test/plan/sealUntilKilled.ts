// A process that seals what is left in the database of its argument, over and over, until it is killed. It prints a line before each sweep.
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Clock, Effect, Redacted } from "effect"
import * as SqlStore from "../../src/SqlStore.ts"
import { sessionTtl } from "../stores.ts"

const program = Effect.gen(function* () {
  const store = yield* PlanStore
  for (;;) {
    yield* Effect.sync(() => process.stdout.write("sweep\n"))
    yield* store.sealLeft(fromMillis(yield* Clock.currentTimeMillis))
  }
})

const url = Redacted.make(process.argv[2] ?? "")
await Effect.runPromise(program.pipe(Effect.provide(SqlStore.layerPostgres({ url, maxConnections: 1, sessionTtl }))))
