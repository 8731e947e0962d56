import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import * as SqlStore from "@bowline/storage-sql/SqlStore"
import { say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Redacted, Schema, Stream, Tracer } from "effect"
import { rpc } from "../../src/edge/a2a/Binding.ts"
import * as TaskCalls from "../../src/edge/a2a/TaskCalls.ts"
import { open, services as taskServices } from "../../src/edge/a2a/TaskReader.ts"
import * as StoredResponses from "../../src/edge/response/StoredResponses.ts"
import { databases } from "../plan/Databases.ts"
import { echo } from "./response/ToldEvents.ts"

/** As many statements as the effect sends to the database, and what it gives. */
const counted = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let statements = 0
    const tracer = Tracer.make({
      span: (options) => {
        if (options.kind === "client") statements++
        return new Tracer.NativeSpan(options)
      }
    })
    return Effect.map(Effect.provideService(effect, Tracer.Tracer, tracer), (given) => ({ statements, given }))
  })

/** Two logs: one of a few events, and one of some thousand. */
const lengths = [1, 3_000]

const stores = Layer.unwrap(
  Effect.map(databases.postgres, ({ DATABASE_URL }) => SqlStore.layerPostgres({ url: Redacted.make(DATABASE_URL) }))
)

const decode = Schema.decodeUnknownEffect(PlanRequest)
const binding = rpc("1.0", 1)

describe("a client that asks again and again", () => {
  for (const length of lengths) {
    const script = () => Array.from({ length }, (_, index) => say(`${index} `))

    it.live(`costs a statement each time, and a list of tasks two, behind ${length} pieces of text`, () =>
      Effect.gen(function* () {
        const streams = yield* PlanStreams
        const ask = Effect.fnUntraced(function* (fields: object) {
          const request = yield* decode({ question: "?", ...fields })
          const { frames, plan_id } = yield* streams.start({ caller: anonymous, request, echo: { ...echo } })
          yield* Stream.runDrain(frames)
          return plan_id
        })
        const id = yield* ask({ task_message: { message_id: "m", metadata: {} } })
        for (let index = 0; index < 4; index++) yield* ask({})

        // Nothing but rows of plans is read.
        const store = { ...(yield* PlanStore), events: () => Effect.die("The events are read") }
        const services = { ...(yield* taskServices), store }
        const rows = yield* services.tasks.told(anonymous, [id])
        assert.strictEqual(rows.length, 1)

        const task = yield* counted(TaskCalls.get(services, anonymous, binding, { id }))
        assert.strictEqual(task.statements, 1)
        assert.include(JSON.stringify(task.given), "0 ")

        const cancel = TaskCalls.cancel(services, yield* Sessions, anonymous, binding, { id })
        const cancelled = yield* counted(Effect.flip(cancel))
        assert.strictEqual(cancelled.statements, 1)
        assert.include(cancelled.given, { error: "TaskNotCancelable" })

        // What a message to the task, and a place that is to be notified, have to know of it.
        const opened = yield* counted(open(services, anonymous, id, {}))
        assert.strictEqual(opened.statements, 1)
        assert.deepInclude(opened.given.fold.task.status, { standing: "completed" })
        // By all of their events it is the same.
        const byEvents = yield* open({ ...services, store: yield* PlanStore }, anonymous, id, { after: "0" })
        assert.deepStrictEqual(opened.given.fold.task, byEvents.fold.task)
        assert.deepStrictEqual(opened.given.at, byEvents.at)

        const sessions = yield* SessionStore
        const list = yield* counted(
          TaskCalls.list(services, sessions, anonymous, binding, { pageSize: 50, includeArtifacts: true })
        )
        assert.strictEqual(list.statements, 2)
        assert.strictEqual(list.given.tasks.length, 5)

        const responses = yield* Effect.provideService(StoredResponses.make, PlanStore, store)
        const response = yield* counted(responses.find(anonymous, `resp_${id}`))
        assert.strictEqual(response.statements, 1)
        assert.strictEqual(response.given.events.response.status, "completed")

        // What `tasks/get` of MCP asks.
        assert.strictEqual((yield* counted(services.plans.get(anonymous, id))).statements, 1)
        assert.strictEqual((yield* counted(services.plans.approvalsOf(anonymous, id))).statements, 1)
      }).pipe(
        Effect.scoped,
        Effect.provide(TestKit.layerOnStore({ script }).pipe(Layer.provideMerge(Layer.merge(stores, Logger.layer([])))))
      )
    )
  }
})
