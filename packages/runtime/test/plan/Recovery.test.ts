import { anonymous } from "@bowline/domain/caller/CallerName"
import { stall, wait } from "@bowline/testing/http/Move"
import type { Asked, Script } from "@bowline/testing/unstable/provider/Script"
import { errorChunk, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Logger, Option, Redacted, Scope, Stream } from "effect"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { recordsOf } from "../../src/record/PlanExport.ts"
import { SecretKey } from "../../src/store/SecretKey.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { StoresEach } from "../../src/stream/Journal.ts"
import { askBob, bob, names } from "./Bob.ts"
import { askAndKill, hi, mortal, peer, replayed, stays, watched } from "./Mortal.ts"

const history = Effect.fnUntraced(function* (session_id: Parameters<SessionStore["Service"]["history"]>[0]) {
  const messages = yield* (yield* SessionStore).history(session_id)
  return messages.map(({ role, parts }) => [role, ...parts.map((part) => ("text" in part ? part.text : part.type))])
})

describe("a plan whose process has died", () => {
  it.effect("retracts the text of the unfinished attempt, and asks again", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: () => [say("half"), stall] })
      const second = yield* mortal({ script: () => [say("whole")] })
      const { plan_id, session_id } = yield* askAndKill(first)
      const events = yield* replayed(second, plan_id)
      assert.deepStrictEqual(names(events), [
        "session",
        "plan",
        "step",
        "text.delta",
        "text.retract",
        "retry",
        "text.delta",
        "final",
        "done"
      ])
      assert.deepStrictEqual(single(events, "text.retract"), { step: 1, attempt: 1 })
      assert.deepInclude(single(events, "retry"), { step: 1, attempt: 2, delay_ms: 0 })
      assert.strictEqual(single(events, "retry").error.code, "interrupted")
      assert.deepInclude(single(events, "final"), { text: "whole", steps: 1 })
      assert.deepStrictEqual(yield* history(session_id), [
        ["user", "?"],
        ["assistant", "whole"]
      ])
      // The process before may have died with its record of why it asked this one.
      const rows = yield* (yield* PlanStore).events(plan_id, 0, 100)
      const begin = rows.flatMap(recordsOf).findLast((record) => record.type === "begin")
      assert.strictEqual(begin?.model, single(events, "plan").model)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("leaves its session the text that readers were still shown, and none that was retracted", () =>
    Effect.gen(function* () {
      let asked = 0
      const half = [say("taken back"), wait("1 second"), errorChunk({ message: "boom", code: 500 })]
      const script: Script = () => (asked++ === 0 ? half : [say("half"), stall])
      const config = { resume: false }
      const { dies, told } = watched()
      const first = yield* mortal({ script, config, dies })
      const second = yield* mortal({ script, config })
      const { plan_id, session_id } = yield* post({ question: "?", session_id: "s", ...stays }).pipe(first.on)
      yield* pass("10 seconds", "100 millis")
      first.kill()
      // No process dies between the two.
      assert.include(told, "text.retract,retry", told.join("; "))
      const events = yield* replayed(second, plan_id)
      assert.deepStrictEqual(names(events), [
        "session",
        "plan",
        "step",
        "text.delta",
        "text.retract",
        "retry",
        "text.delta",
        "error",
        "done"
      ])
      assert.deepStrictEqual(yield* history(session_id), [
        ["user", "?"],
        ["assistant", "half"]
      ])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("waits for the provider, as its stage says", () =>
    Effect.gen(function* () {
      const { plan_id } = yield* askAndKill(yield* mortal({ script: () => [stall] }))
      const second = yield* mortal({ script: () => [stall] })
      yield* pass("20 seconds", "1 second")
      assert.deepInclude(yield* second.plans.get(anonymous, plan_id), { retries: 1, stage: "provider" })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("keeps waiting for a task that its peer knows, and sends nothing again", () => {
    const stuck = peer(Effect.never)
    const ready = peer()
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [askBob], peers: stuck.peers })
      const second = yield* mortal({ script: [[say("ok")]], peers: ready.peers })
      const { plan_id, session_id } = yield* askAndKill(first, { agents: [bob] })
      const events = yield* replayed(second, plan_id)
      const { task_id } = single(events, "task.started")
      assert.deepInclude(ready.calls[0], { taskId: task_id, continues: null })
      assert.deepStrictEqual(ready.calls[0]?.resumes, { taskId: "remote-1", contextId: null })
      assert.lengthOf(all(events, "task.progress"), 1)
      assert.deepInclude(single(events, "task.finished"), { state: "completed", remote_task_id: "remote-1" })
      assert.deepInclude(single(events, "final"), { text: "ok", steps: 2, tool_calls: 1 })
      assert.deepStrictEqual(yield* history(session_id), [
        ["user", "?"],
        ["assistant", "tool_call"],
        ["tool", "tool_result"],
        ["assistant", "ok"]
      ])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("gives a task no more time than it had", () => {
    const stuck = peer(Effect.never)
    const again = peer(Effect.never)
    const agents = [{ ...bob, skills: [{ id: "ask", timeout_ms: 40_000 }] }]
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [askBob], peers: stuck.peers })
      const second = yield* mortal({ script: [[say("ok")]], peers: again.peers })
      const { plan_id } = yield* askAndKill(first, { agents })
      const events = yield* replayed(second, plan_id, "45 seconds")
      assert.deepInclude(single(events, "task.finished"), { state: "timed-out", duration_ms: 40_000 })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect(
    "ends, says that the outcome of a call that may have been made is unknown, and cancels its tasks at peers",
    () => {
      let calls = 0
      const unknown = peer(Effect.never, null)
      const known = peer(Effect.never)
      const stuck: Partial<PeerClient["Service"]> = {
        call: (call, onEvent) => (calls++ === 0 ? known : unknown).peers.call?.(call, onEvent) ?? Effect.never
      }
      const ready = peer()
      const warnings: Array<unknown> = []
      const logger = Logger.make(({ message }) => {
        if (String(message) === "remote_task_not_cancelled") warnings.push(String(message))
      })
      return Effect.gen(function* () {
        const first = yield* mortal({ script: [[...askBob, ...askBob]], peers: stuck })
        const second = yield* mortal({ script: [[say("next")]], peers: ready.peers })
        const { plan_id, session_id } = yield* askAndKill(first, { agents: [bob] })
        const events = yield* replayed(second, plan_id)
        assert.deepInclude(single(events, "error"), { code: "interrupted", retryable: true, stage: "tool" })
        assert.deepStrictEqual(
          all(events, "task.finished").map(({ state, remote_task_id }) => [state, remote_task_id]),
          [
            ["interrupted", "remote-1"],
            ["interrupted", null]
          ]
        )
        assert.lengthOf(ready.calls, 0)
        assert.deepStrictEqual(ready.cancelled, ["remote-1"])
        assert.deepStrictEqual(warnings, ["remote_task_not_cancelled"])
        assert.lengthOf(yield* history(session_id), 4)
        const next = yield* second.on(post({ question: "And now?", session_id: "s" }))
        assert.strictEqual(single(yield* readAll(next.frames), "final").text, "next")
      }).pipe(Effect.scoped, Effect.provide([MemoryStore.layer, Logger.layer([logger])]))
    }
  )

  it.effect(
    "shows what a call has made once, though the process died before its end was stored and it is repeated",
    () => {
      const agents = [{ ...bob, skills: [{ id: "ask", idempotent: true }] }]
      const artifact = {
        _tag: "Artifact",
        content: hi.content,
        mediaType: "text/plain",
        verified: hi.verified
      } as const
      const shows: Partial<PeerClient["Service"]> = {
        call: (_, onEvent) => Effect.andThen(onEvent(artifact), Effect.never)
      }
      const again = peer(Effect.succeed(hi), null)
      return Effect.gen(function* () {
        const first = yield* mortal({ script: [askBob], peers: shows })
        const second = yield* mortal({ script: [[say("ok")]], peers: again.peers })
        const { plan_id } = yield* askAndKill(first, { agents })
        const events = yield* replayed(second, plan_id)
        assert.lengthOf(again.calls, 1)
        const shown = all(events, "task.artifact").map(({ content }) => content)
        assert.deepStrictEqual(shown, ["hi"])
      }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
    }
  )

  it.effect("repeats a call with the same id, if its skill says that it may", () => {
    const stuck = peer(Effect.never, null)
    const ready = peer()
    const agents = [{ ...bob, skills: [{ id: "ask", idempotent: true }] }]
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [askBob], peers: stuck.peers })
      const { dies, told } = watched()
      const second = yield* mortal({ script: [[say("ok")]], peers: ready.peers, dies })
      const { plan_id } = yield* askAndKill(first, { agents })
      const events = yield* replayed(second, plan_id)
      // No process dies between the two.
      assert.include(told, "task.artifact,task.finished", told.join("; "))
      assert.strictEqual(single(events, "final").text, "ok")
      assert.strictEqual(ready.calls[0]?.taskId, stuck.calls[0]?.taskId)
      assert.isUndefined(ready.calls[0]?.resumes)
      assert.strictEqual(single(events, "task.finished").task_id, single(events, "task.started").task_id)
    }).pipe(Effect.scoped, Effect.provideService(StoresEach, true), Effect.provide(MemoryStore.layer))
  })

  it.effect("is not resumed where that is switched off, and after two more processes have died of it", () =>
    Effect.gen(function* () {
      const script = () => [say("half"), stall]
      const first = yield* mortal({ script })
      const off = yield* mortal({ script, config: { resume: false } })
      const { plan_id, session_id } = yield* askAndKill(first)
      const settled = single(yield* replayed(off, plan_id), "error")
      assert.deepInclude(settled, { code: "interrupted", data: { partial: true } })
      const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
      assert.deepStrictEqual(items.at(-1)?.parts, [{ type: "text", text: "half", partial: true }])
      off.kill()

      const processes = yield* Effect.forEach([1, 2, 3, 4], () => mortal({ script }))
      const [begun, ...others] = processes
      const unlucky = yield* begun === undefined ? Effect.die("none") : askAndKill(begun, { session_id: "t" })
      yield* pass("20 seconds", "1 second")
      assert.strictEqual((yield* off.plans.get(anonymous, unlucky.plan_id)).state, "running")
      const events = yield* Effect.gen(function* () {
        for (const one of others) {
          yield* pass("20 seconds", "1 second")
          if (one !== others.at(-1)) one.kill()
        }
        return yield* replayed(off, unlucky.plan_id)
      })
      assert.isAtMost(all(events, "retry").length, 2)
      assert.strictEqual(single(events, "error").code, "interrupted")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is queued again if it only waited for its session", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: () => [say("half"), stall] })
      const second = yield* mortal({ script: () => [say("whole")] })
      const ahead = yield* first.on(post({ question: "1", session_id: "s", ...stays }))
      const { plan_id, session_id } = yield* askAndKill(first, { question: "2" })
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(single(events, "final"), { text: "whole" })
      assert.strictEqual((yield* second.plans.get(anonymous, ahead.plan_id)).state, "completed")
      assert.deepStrictEqual(yield* history(session_id), [
        ["user", "1"],
        ["assistant", "whole"],
        ["user", "2"],
        ["assistant", "whole"]
      ])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("keeps its session until it is over: a new plan waits behind it", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: () => [say("half"), stall] })
      const second = yield* mortal({ script: () => [wait("10 seconds"), say("whole")] })
      const { session_id } = yield* askAndKill(first)
      const next = yield* second.on(post({ question: "And now?", session_id: "s" }))
      const reader = yield* Effect.forkChild(readAll(next.frames))
      yield* pass("1 minute", "1 second")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(all(events, "queued"), [{ position: 1, reason: "session_busy" }])
      assert.strictEqual(single(events, "final").text, "whole")
      assert.deepStrictEqual(
        (yield* history(session_id)).map(([, text]) => text),
        ["?", "whole", "And now?", "whole"]
      )
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("runs on for a minute without its caller, and for as long as somebody reads it", () =>
    Effect.gen(function* () {
      const script = () => [say("half"), stall]
      const preferences = { on_disconnect: "cancel" }
      const first = yield* mortal({ script })
      const second = yield* mortal({ script })
      const [unread, read] = yield* Effect.forEach(["s", "t"], (session_id) =>
        first.on(post({ question: "?", session_id, preferences }))
      )
      yield* pass("1 second")
      first.kill()
      yield* pass("20 seconds", "1 second")
      if (unread === undefined || read === undefined) return
      const connection = yield* Scope.make()
      yield* Scope.provide(second.streams.read(anonymous, read.plan_id, 0), connection)
      yield* pass("50 seconds", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, unread.plan_id)).state, "running")
      yield* pass("20 seconds", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, unread.plan_id)).error?.reason, "disconnect")
      assert.strictEqual((yield* second.plans.get(anonymous, read.plan_id)).state, "running")
      yield* Scope.close(connection, Exit.void)
      yield* pass("100 millis")
      assert.strictEqual((yield* second.plans.get(anonymous, read.plan_id)).error?.reason, "disconnect")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is aborted as soon as a caller who has come back to it disconnects", () =>
    Effect.gen(function* () {
      const script = () => [say("half"), stall]
      const first = yield* mortal({ script })
      const second = yield* mortal({ script })
      const { plan_id } = yield* askAndKill(first, { preferences: { on_disconnect: "cancel" } })
      yield* pass("20 seconds", "1 second")
      yield* Effect.scoped(Effect.andThen(second.streams.read(anonymous, plan_id, 0), pass("1 second")))
      yield* pass("100 millis")
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).error?.reason, "disconnect")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("ends as its caller asked while nobody ran it, or at its deadline, and cancels its task at a peer", () =>
    Effect.gen(function* () {
      const bobs = [peer(Effect.never), peer(Effect.never)] as const
      for (const reason of ["cancelled", "deadline"] as const) {
        const first = yield* mortal({ script: [askBob], peers: bobs[0].peers })
        const preferences = { on_disconnect: "continue", timeout_ms: reason === "deadline" ? 10_000 : 100_000 }
        const { plan_id } = yield* askAndKill(first, { agents: [bob], session_id: reason, preferences })
        if (reason === "cancelled") yield* (yield* PlanStore).requestAbort(plan_id, "cancelled")
        const second = yield* mortal({
          script: [[say("ok")]],
          peers: { ...bobs[1].peers, discover: () => Effect.never }
        })
        const events = yield* replayed(second, plan_id)
        assert.deepInclude(single(events, "error"), { code: "aborted", reason, stage: "tool" })
        assert.deepInclude(single(events, "task.finished"), { state: "interrupted", remote_task_id: "remote-1" })
        assert.lengthOf([...bobs[1].cancelled, ...bobs[1].left], 1)
        bobs[1].cancelled.length = bobs[1].left.length = 0
        second.kill()
      }
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is resumed by the very process that was paused for longer than its lease", () => {
    const calls = peer(Effect.delay(Effect.succeed(hi), "1 minute"))
    return Effect.gen(function* () {
      const process = yield* mortal({ script: [askBob, [say("ok")]], peers: calls.peers })
      const { plan_id, session_id } = yield* process.on(post({ question: "?", agents: [bob], ...stays }))
      yield* pass("1 second")
      yield* (yield* LeaseStore).release(session_id, 1)
      yield* pass("2 minutes", "1 second")
      const events = yield* replayed(process, plan_id, "1 second")
      assert.deepStrictEqual(calls.left, [true])
      assert.deepStrictEqual(
        calls.calls.map(({ resumes }) => resumes?.taskId),
        [undefined, "remote-1"]
      )
      assert.strictEqual(single(events, "final").text, "ok")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("asks its question in front of what is left where a compaction has covered it", () =>
    Effect.gen(function* () {
      const script: Script = () => [say("half"), stall]
      const first = yield* mortal({ script })
      const { plan_id, session_id } = yield* askAndKill(first)
      const [question] = yield* (yield* SessionStore).history(session_id)
      assert.isDefined(question)
      const through = question.message_id
      const made = { id: "c", summary: "They asked.", through, covered_seq: 0, prior_seq: 0 }
      yield* (yield* SessionStore).compact(session_id, 1, made)
      const asked: Array<Asked> = []
      const second = yield* mortal({ script: (request) => (asked.push(request), [say("whole")]) })
      assert.strictEqual(single(yield* replayed(second, plan_id), "final").text, "whole")
      assert.deepStrictEqual(asked[0]?.messages, [{ role: "user", text: "?" }])
      assert.include(asked[0]?.system, "They asked.")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("has the secrets of its request only where there is a key to keep them", () =>
    Effect.gen(function* () {
      const agents = [{ ...bob, auth: { type: "bearer", token: "secret" } }]
      for (const key of [Option.none(), Option.some(Redacted.make(new Uint8Array(32)))]) {
        const [stuck, ready] = [peer(Effect.never), peer()]
        const first = yield* mortal({ script: [askBob], peers: stuck.peers }).pipe(
          Effect.provideService(SecretKey, key)
        )
        const { plan_id } = yield* askAndKill(first, { agents, session_id: key._tag })
        const second = yield* mortal({ script: [[say("ok")]], peers: ready.peers }).pipe(
          Effect.provideService(SecretKey, key)
        )
        const events = yield* replayed(second, plan_id)
        if (Option.isNone(key)) assert.strictEqual(single(events, "error").code, "interrupted")
        else assert.deepStrictEqual(ready.calls[0]?.agent, stuck.calls[0]?.agent)
        second.kill()
      }
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})

describe("a lost lease", () => {
  it.effect("ends the stream without done, and writes nothing more", () =>
    Effect.gen(function* () {
      const { frames, session_id } = yield* post({ question: "?" })
      const reader = yield* Effect.forkChild(Stream.runCollect(frames))
      yield* pass("1 second")
      const leases = yield* LeaseStore
      yield* leases.release(session_id, 1)
      const [taken] = yield* (yield* PlanStore).takeOver("thief", Duration.days(1), 1)
      assert.deepStrictEqual(taken?.guard, { _tag: "Held", fence: 2 })
      yield* pass("30 seconds", "1 second")
      const items = yield* Effect.fromNullishOr(reader.pollUnsafe()).pipe(Effect.flatten)
      assert.strictEqual(items.at(-1), "reconnect")
      assert.notInclude(
        items.map((item) => (typeof item === "string" ? item : item.event)),
        "done"
      )
      const { items: messages } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
      assert.strictEqual(messages.length, 1)
    }).pipe(Effect.provide(layer({ script: () => [wait("20 seconds"), say("too late")] })), Effect.scoped)
  )
})
