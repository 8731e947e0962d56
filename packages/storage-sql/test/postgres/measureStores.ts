// Compares what the stores take in two databases that `keepFilledStore` has filled, in turns. Its arguments are their URLs and how many plans each has. It
// prints the medians of each operation in milliseconds, as JSON on one line.
import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { Clock, Duration, Effect, Layer, Random, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as SqlStore from "../../src/SqlStore.ts"
import { sessionTtl } from "../stores.ts"
import { planOf } from "./filledIds.ts"

const rounds = 100

const millis = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const began = performance.now()
  yield* effect
  return performance.now() - began
})

const ended = Effect.fnUntraced(function* (held: Given.Stored) {
  const now = fromMillis(yield* Clock.currentTimeMillis)
  yield* Given.write(held, [Given.settled(Given.completed, now)], [Given.row(2, "done")])
})

const created = Effect.flatMap(Clock.currentTimeMillis, (now) => Given.createHeld({ created_at: fromMillis(now) }))

/** What each operation takes once. */
const operations = (plans: number) => ({
  insert: millis(Effect.tap(created, ended)),
  seal: Effect.gen(function* () {
    const held = yield* created
    yield* ended(held)
    return yield* millis((yield* PlanStore).seal([held.plan.plan_id]))
  }),
  "take-over": Effect.gen(function* () {
    const held = yield* created
    const sql = yield* SqlClient.SqlClient
    yield* sql`update leases set expires_at = now() - interval '1 second' where session_id = ${held.session_id}`
    const took = yield* millis((yield* PlanStore).takeOver("replica_next", Duration.minutes(1), 100))
    yield* sql`update plans set state = 'failed', finished_at = now() where id = ${held.plan.plan_id}`
    return took
  }),
  "look for plans to take over": Effect.flatMap(PlanStore, (store) => millis(store.abandoned("replica_next"))),
  list: Effect.flatMap(PlanStore, (store) => millis(store.list(anonymous, {}, { limit: 20 }))),
  replay: Effect.gen(function* () {
    const id = PlanId.make(planOf(yield* Random.nextIntBetween(0, plans)))
    return yield* millis((yield* PlanStore).events(id, 0, 500))
  })
})

type Operation = keyof ReturnType<typeof operations>

const databases = Array.from({ length: 2 }, (_, index) => ({
  url: Redacted.make(process.argv[2 + index] ?? ""),
  plans: Number(process.argv[4 + index])
}))

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const program = Effect.gen(function* () {
  const stores = yield* Effect.forEach(databases, ({ plans, url }) =>
    Effect.map(
      Layer.build(
        Layer.merge(
          Layer.fresh(SqlStore.layerPostgres({ url, maxConnections: 2, sessionTtl })),
          Layer.fresh(PgClient.layer({ url, maxConnections: 1 }))
        )
      ),
      (context) => ({ context, operations: operations(plans), times: new Map<Operation, Array<number>>() })
    )
  )
  const names = Object.keys(operations(0)) as ReadonlyArray<Operation>
  for (let round = -5; round < rounds; round++) {
    for (const name of names) {
      for (const { context, operations, times } of round % 2 === 0 ? stores : stores.toReversed()) {
        const took = yield* Effect.provideContext(operations[name], context)
        if (round >= 0) times.set(name, [...(times.get(name) ?? []), took])
      }
    }
  }
  const medians = names.map((name) => [name, stores.map(({ times }) => median(times.get(name) ?? []))])
  yield* Effect.sync(() => process.stdout.write(`${JSON.stringify(Object.fromEntries(medians))}\n`))
})
await Effect.runPromise(Effect.scoped(program))
