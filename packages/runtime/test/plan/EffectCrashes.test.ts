import { anonymous } from "@bowline/domain/caller/CallerName"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { LocalTools } from "../../src/tool/LocalTools.ts"
import { bank, checks, counting, pay, schema, skills } from "../planner/CountingBank.ts"
import { askAndKill, mortal, replayed } from "./Mortal.ts"

const noCall = (): never => assert.fail("there was no call")

describe("a call that has an effect, whose process dies", () => {
  it.effect("stays in doubt where a dead process has made it, though its repetition by the next one never left", () => {
    const before = counting("hangs")
    const behind = counting("refuses")
    const agents = [{ ...bank, skills: skills.map((skill) => ({ ...skill, idempotent: true })) }]
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [[pay("7")]], peers: before.peers })
      const second = yield* mortal({ script: [[say("done")], [pay("7")], [say("done")]], peers: behind.peers })
      const { plan_id } = yield* askAndKill(first, { agents })
      const ended = single(yield* replayed(second, plan_id), "task.finished")
      assert.strictEqual(ended.error?.code, "unreachable")
      assert.deepStrictEqual([before.paid, behind.paid], [["7"], ["7"]])
      const { frames } = yield* second.on(post({ question: "?", agents, preferences: { approval: "never" } }))
      assert.strictEqual(single(yield* readAll(frames), "task.finished").error?.code, "effect_unknown")
      assert.lengthOf(behind.paid, 1)
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  })

  it.effect("is rejected, and taken as done, also where the next process has no such tool any more", () => {
    const paid: Array<string> = []
    const tool = {
      name: "pay",
      kind: "local",
      agent: null,
      endpoint: null,
      skill: null,
      description: "Pays",
      inputSchema: schema,
      timeoutMs: 1_000,
      isIdempotent: false,
      isPolling: false,
      approval: undefined,
      effect: { key: ["/order"], scope: "caller" },
      identify: Effect.succeed(null),
      call: ({ taskId }: { readonly taskId: string }) => {
        paid.push(taskId)
        return Effect.never
      }
    } as const
    const pays = callTool("pay", { order: "7" })
    const stays = { question: "?", preferences: { on_disconnect: "continue" } }
    const done = [say("done")]
    return Effect.gen(function* () {
      const withTool = Effect.provideService(LocalTools, [tool])
      const first = yield* withTool(mortal({ script: [[pays], done, [pays]] }))
      yield* first.on(post(stays))
      yield* pass("2 seconds")
      const { plan_id } = yield* askAndKill(first)
      const second = yield* mortal({ script: [done] })
      const [asked] = (yield* second.plans.approvals(anonymous, { limit: 10 })).items
      assert.strictEqual(asked?.why, "maybe_done")
      const by = { caller: anonymous, isAdmin: false }
      yield* second.plans.decide(by, asked ?? noCall(), { decision: "reject", note: "I have looked" })
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(single(events, "task.finished"), { state: "rejected" })
      assert.match(single(events, "task.finished").error?.message ?? "", /I have looked/)
      second.kill()
      const third = yield* withTool(mortal({ script: [[pays], done] }))
      const { frames } = yield* third.on(post(stays))
      assert.strictEqual(single(yield* readAll(frames), "task.finished").repeat_of, paid[0])
      assert.lengthOf(paid, 1)
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  })
})
