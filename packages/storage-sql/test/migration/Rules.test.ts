import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Migrations from "../../src/migration/Migrations.ts"
import { runSteps } from "../../src/migration/MigrationStep.ts"
import { freshDatabase } from "../postgres/freshDatabase.ts"
import { breachesOf, tableNames } from "./breachesOf.ts"
import { written } from "./written.ts"

/** No version has served with fewer. */
const firstVersion = 6

const all = Object.entries(Migrations.migrations)

/** A database of the first version, with rows. */
const ofFirstVersion = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* Migrations.runOf(Object.fromEntries(all.slice(0, firstVersion)))
  for (const statement of written) yield* sql.unsafe(statement)
})

const onDatabase = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(freshDatabase, (url) =>
    Effect.provide(Effect.andThen(ofFirstVersion, effect), PgClient.layer({ url, maxConnections: 1 }))
  ).pipe(Effect.scoped)

describe("a migration", () => {
  it.live("keeps the rules in each of its steps, and can be run again from its first one", () =>
    onDatabase(
      Effect.gen(function* () {
        for (const [name, steps] of all.slice(firstVersion)) {
          const used = yield* tableNames
          for (const step of steps) {
            assert.deepStrictEqual([step, yield* breachesOf(step, used)], [step, []])
            // As after a start that was killed behind this step.
            yield* runSteps(name, [step])
            yield* runSteps(name, [step])
          }
        }
      })
    )
  )

  const refused: ReadonlyArray<readonly [step: string, breaches: ReadonlyArray<string>]> = [
    ["create index if not exists plans_by_model on plans (model)", ["reads plans, which nobody may write meanwhile"]],
    [
      "create index concurrently plans_by_model on plans (model)",
      ["fails in a transaction: an index of a table with rows is a step of its own kind"]
    ],
    [
      "do $$ begin alter table plans add column if not exists a int; alter table sessions add column if not exists a int; end $$",
      ["locks plans and sessions at once"]
    ],
    [
      "create table if not exists links (plan text references plans, session text references sessions)",
      ["locks plans and sessions at once"]
    ],
    ["alter table plans add column if not exists a float8 not null default random()", ["rewrites plans"]],
    [
      "alter table plans alter column steps type bigint",
      ["rewrites plans", "takes plans.steps away as the version before knows it"]
    ],
    ["alter table plans alter column stage set not null", ["reads plans, which nobody may write meanwhile"]],
    [
      "alter table plans add constraint steps_positive check (steps >= 0)",
      ["reads plans, which nobody may write meanwhile", "fails when it is run again"]
    ],
    ["alter table plans drop column if exists model", ["takes plans.model away as the version before knows it"]],
    [
      "alter table leases add column if not exists a int not null",
      ["reads leases, which nobody may write meanwhile", "needs leases.a, which the version before does not write"]
    ],
    ["update plans set stage = null where state = 'failed'", ["changes rows of plans: that is a backfill"]],
    ["delete from plans where id = 'plan_2'", ["changes rows of plans: that is a backfill"]],
    ["alter table plans add column a int", ["fails when it is run again"]],
    ["set lock_timeout = 0", ["sets what all steps have"]]
  ]
  for (const [step, breaches] of refused) {
    it.live(`is refused with the step: ${step}`, () =>
      onDatabase(
        Effect.gen(function* () {
          assert.deepStrictEqual(yield* breachesOf(step, yield* tableNames), breaches)
        })
      )
    )
  }
})
