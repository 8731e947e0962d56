// Records the statements of two plans of this version, for tests of the migrations of later ones: to the file that it is given, in an empty database at the URL
// that it is given.
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { writeFileSync } from "node:fs"
import * as Migrations from "../../src/migration/Migrations.ts"
import * as SqlPlanStore from "../../src/plan/SqlPlanStore.ts"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import * as Publisher from "../../src/notice/Publisher.ts"
import * as SqlLeaseStore from "../../src/session/SqlLeaseStore.ts"
import * as SqlSessionStore from "../../src/session/SqlSessionStore.ts"

const [url = "", to = ""] = process.argv.slice(2)

const recorded: Array<{ readonly statement: string; readonly parameters: ReadonlyArray<unknown> }> = []

const recording = (connection: Connection): Connection => {
  const note = (statement: string, parameters: ReadonlyArray<unknown>) =>
    void recorded.push({ statement: statement.trim(), parameters })
  return {
    ...connection,
    execute: (statement, parameters, transform) => {
      note(statement, parameters)
      return connection.execute(statement, parameters, transform)
    },
    executeUnprepared: (statement, parameters, transform) => {
      note(statement, parameters)
      return connection.executeUnprepared(statement, parameters, transform)
    }
  }
}

/** All that goes through `withTransaction` and through a statement by itself. */
const client = Effect.gen(function* () {
  const real = yield* PgClient.make({ url: Redacted.make(url), maxConnections: 1 })
  const acquirer = Effect.map(real.reserve, recording)
  const recorder = yield* SqlClient.make({
    acquirer,
    compiler: PgClient.makeCompiler(),
    driver: real.driver,
    spanAttributes: []
  })
  return Object.assign(recorder, {
    [PgClient.TypeId]: PgClient.TypeId,
    config: real.config,
    json: real.json,
    listen: real.listen,
    notify: real.notify
  })
})

const twoPlans = Effect.gen(function* () {
  const plans = yield* PlanStore
  const leases = yield* LeaseStore
  const sessions = yield* SessionStore
  const owner = yield* Given.newOwner
  const given = { replica: yield* Given.newReplica, owner }
  const named = { ...given, external_session_id: yield* Given.newName, agents: [Given.agent("bob")] }
  const a = yield* Given.createHeld(named)
  const b = yield* Given.createHeld(given)
  const [askOfA, askOfB] = [yield* Given.newTask, yield* Given.newTask]
  // Not in the order of the locks.
  yield* plans.commit([
    Given.commitOf(b, [yield* Given.appended("What?"), Given.started(askOfB, "ask_bob")], [Given.row(2, "step")]),
    Given.commitOf(a, [yield* Given.appended("What?"), Given.started(askOfA, "ask_bob")], [Given.row(2, "step")])
  ])
  yield* plans.commit([
    Given.commitOf(a, [], [Given.row(3, "text.delta", "{}", 3)]),
    Given.commitOf(b, [], [Given.row(3, "text.delta", "{}", 3)])
  ])
  yield* leases.renew(given.replica, Given.ttl)
  yield* Given.get(a)
  yield* Given.eventsOf(a)
  yield* plans.list(owner, {}, { limit: 10 })
  yield* sessions.history(a.session_id)
  yield* Given.create(named)
  yield* plans.abortRequests(given.replica)
  yield* plans.takeOver(yield* Given.newReplica, Given.ttl, 10)
  const done = (task_id: typeof askOfA) =>
    ({ _tag: "TaskFinished", task_id, state: "completed", result: "Done", error: null, at: Given.later }) as const
  yield* plans.commit([
    Given.commitOf(a, [done(askOfA), yield* Given.appended("Done")], [Given.row(6, "step")]),
    Given.commitOf(b, [done(askOfB), Given.settled()], [Given.row(6, "done")])
  ])
  yield* plans.commit([Given.commitOf(a, [Given.settled(), { _tag: "Released" }], [Given.row(7, "done")])])
  yield* leases.release(b.session_id, b.fence)
})

const program = Effect.gen(function* () {
  yield* Migrations.run
  recorded.length = 0
  yield* twoPlans
})

const stores = Layer.mergeAll(
  SqlPlanStore.layer({ sessionTtl: Duration.days(30) }),
  SqlLeaseStore.layer({ isShared: false }),
  SqlSessionStore.layer
).pipe(Layer.provide([Publisher.layerAlone, Notices.layerMemory]), Layer.provideMerge(PgClient.layerFrom(client)))
await Effect.runPromise(Effect.provide(program, stores))

/** Whoever plays the story puts ids of their own there. */
const ids = new Map<string, string>()
const withoutIds = (value: unknown) =>
  JSON.stringify(value).replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
    const known = ids.get(id) ?? `{${ids.size}}`
    ids.set(id, known)
    return known
  })
const statements = Array.from(new Set(recorded.map(({ statement }) => statement)))
const lines = (list: ReadonlyArray<string>) => `[\n${list.join(",\n")}\n]`
const story = recorded.map(({ statement, parameters }) => withoutIds([statements.indexOf(statement), parameters]))
writeFileSync(
  to,
  `{ "statements": ${lines(statements.map((statement) => JSON.stringify(statement)))}, "story": ${lines(story)} }\n`
)
