import { CallerName, PlanRequest, Plans } from "@bowline/runtime"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Stream } from "effect"
import * as SqlPlans from "../src/SqlPlans.ts"
import { freshDatabase } from "./postgres/freshDatabase.ts"

const Model = ScriptedProvider.layerProvider(() => [say("It holds.")])
const plansAt = (url: Redacted.Redacted) =>
  SqlPlans.layerPostgres({ url, model: "scripted/m", maxConnections: 2 }).pipe(Layer.provide(Model))

const ask = (question: string) =>
  Effect.gen(function* () {
    const plans = yield* Plans
    const request = PlanRequest.make({ question, session_id: "knots" })
    const { events } = yield* plans.start({ caller: CallerName.make("app"), request })
    return yield* Stream.runCollect(events)
  }).pipe(Effect.scoped)

describe("plans on a Postgres server", () => {
  it.live("have their sessions there, for the next process", () =>
    Effect.gen(function* () {
      const url = yield* freshDatabase
      const first = yield* Effect.provide(ask("Does it hold?"), plansAt(url))
      assert.deepInclude(first.at(-2), { event: "final" })
      const second = yield* Effect.provide(ask("And now?"), plansAt(url))
      assert.deepNestedInclude(second[0], { event: "session", "data.created": false })
    }).pipe(Effect.scoped)
  )

  it.live.each([
    ["that does not answer", "postgres://ann:planted@127.0.0.1:1/db", /: .*ECONNREFUSED.*\. Expected a Postgres server/]
  ] as const)("say in one line why they cannot use a server %s", ([, url, line]) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.provide(ask("?"), plansAt(Redacted.make(url))))
      assert.strictEqual(error._tag, "DatabaseUnusable")
      assert.match(error.message, line)
      assert.notInclude(error.message, "planted")
    })
  )
})
