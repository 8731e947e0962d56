import { BowlineError, createBowline } from "@bowline/client"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { start } from "../http/RunningGateway.ts"

const morning = { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin" }

const failureOf = (promise: Promise<unknown>): Promise<BowlineError> =>
  promise.then(
    () => assert.fail("It resolves"),
    (error: unknown) => (error instanceof BowlineError ? error : assert.fail(String(error)))
  )

describe("the schedules of the client", () => {
  it.live("are made, listed over pages, looked at, changed and deleted", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const { schedules } = createBowline({ baseUrl: url })
      yield* Effect.promise(async () => {
        for (const name of ["one", "two", "three"]) {
          await schedules.create({ name, when: morning, plan: { question: "Which knot?", session: "same" } })
        }
        const names: Array<string> = []
        for await (const { name } of schedules.list({ limit: 2 })) names.push(name)
        assert.deepStrictEqual(names, ["three", "two", "one"])
        const { next_cursor, schedules: page } = await schedules.list({ limit: 1 }).page()
        assert.isString(next_cursor)
        const [three] = page
        assert(three !== undefined)
        assert.deepStrictEqual(await schedules.get(three.schedule_id), three)
        assert.deepStrictEqual(three.when, morning)
        const changed = await schedules.update(three.schedule_id, { paused: true, overlap: "queue" })
        assert.deepInclude(changed, { paused: true, overlap: "queue", next_at: null, name: "three" })
        await schedules.delete(three.schedule_id)
        assert.deepInclude(await failureOf(schedules.get(three.schedule_id)), { code: "not_found", status: 404 })
        assert.deepInclude(await failureOf(schedules.create({ name: "two", when: morning, plan: { question: "?" } })), {
          code: "name_taken",
          status: 409
        })
        const { issues } = await failureOf(
          schedules.create({ name: "four", when: { every_ms: 1 }, plan: { question: "Which knot?" } })
        )
        assert.deepStrictEqual(
          issues?.map(({ path }) => path),
          ["when.every_ms"]
        )
      })
    })
  )

  it.live("fire a plan that is read as any other, and that runs on when its reader leaves", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("A bowline.")], [callTool("wait", { seconds: 1 })], [say("Still a bowline.")]])
      const { attach, schedules } = createBowline({ baseUrl: url })
      yield* Effect.promise(async () => {
        const { schedule_id } = await schedules.create({ name: "a", when: morning, plan: { question: "Which knot?" } })
        const plan = schedules.fire(schedule_id, { idempotencyKey: "once" })
        assert.strictEqual((await plan.result()).text, "A bowline.")
        assert.strictEqual(plan.view().state, "completed")
        const again = schedules.fire(schedule_id, { idempotencyKey: "once" })
        assert.strictEqual((await again.result()).text, "A bowline.")
        assert.strictEqual(await again.planId, await plan.planId)

        const leaving = new AbortController()
        const left = schedules.fire(schedule_id, { signal: leaving.signal })
        const id = await left.planId
        leaving.abort()
        assert.strictEqual((await attach(id).result()).text, "Still a bowline.")
        const outcomes: Array<string | null> = []
        for await (const { outcome, plan_id } of schedules.firings(schedule_id, { limit: 1 }))
          outcomes.push(outcome, plan_id)
        assert.deepStrictEqual(outcomes, ["started", id, "started", await plan.planId])
        assert.strictEqual((await schedules.get(schedule_id)).last_plan_id, id)
      })
    })
  )
})
