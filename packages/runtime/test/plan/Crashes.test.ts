import { anonymous } from "@bowline/domain/caller/CallerName"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { wait } from "@bowline/testing/http/Move"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { all, pass, post } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Stream } from "effect"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { legalHistory } from "../../src/provider/LegalHistory.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import type { PlanFrame } from "../../src/store/EventRow.ts"
import { bob } from "./Bob.ts"
import { type Mortal, mortal, replayed, stays } from "./Mortal.ts"

const agents = [bob, { ...bob, name: "eve", skills: [{ id: "ask", idempotent: true }] }]

/** Two steps of calls, then an answer: what comes next is what the history says. */
const script: Script = ({ messages }) => {
  const results = messages.filter(({ role }) => role === "tool").length
  const moves = [say("a"), wait("100 millis"), say("b"), usage({ input_tokens: 1 }), wait("100 millis")]
  if (results === 0) return [...moves, callTool("bob_ask", { input: "1" }), callTool("eve_ask", { input: "2" })]
  return results === 2 ? [...moves, callTool("bob_ask", { input: "3" })] : [...moves, say("end")]
}

/** Peers that outlive the processes: what was sent, and what waits for a task that was sent before. */
const world = () => {
  const sent: Array<{ readonly agent: string; readonly taskId: TaskId }> = []
  const cancelled: Array<string> = []
  const peers: Partial<PeerClient["Service"]> = {
    call: Effect.fnUntraced(function* ({ agent, resumes, taskId }, onEvent) {
      if (resumes === undefined) {
        sent.push({ agent: agent.name, taskId })
        yield* Effect.sleep("100 millis")
        yield* onEvent({ _tag: "Accepted", remoteTaskId: `remote-${taskId}`, remoteContextId: null })
      } else assert.strictEqual(resumes.taskId, `remote-${taskId}`)
      yield* onEvent({ _tag: "Progress", state: "working" })
      yield* Effect.sleep("100 millis")
      yield* onEvent({ _tag: "Artifact", content: "hi", mediaType: "text/plain", verified: "unknown" })
      return { state: "completed", content: "hi", verified: "unknown" }
    }),
    cancel: ({ taskId }) => Effect.sync(() => void cancelled.push(taskId))
  }
  return { sent, cancelled, peers }
}

/** Asks, and remembers every frame that came through before the process was gone. */
const ask = Effect.fnUntraced(function* (process: Mortal) {
  const frames: Array<PlanFrame> = []
  const { frames: reader, ...ids } = yield* process.on(post({ question: "?", session_id: "s", agents, ...stays }))
  const keep = (item: string | PlanFrame) => Effect.sync(() => void (typeof item === "string" || frames.push(item)))
  yield* Effect.forkChild(Stream.runForEach(reader, keep))
  return { ...ids, frames }
})

/** What must hold of a plan however it was disturbed. */
const check = Effect.fnUntraced(function* (
  survivor: Mortal,
  { plan_id, session_id, frames }: Effect.Success<ReturnType<typeof ask>>,
  { sent }: ReturnType<typeof world>
) {
  const events = yield* replayed(survivor, plan_id)
  const stored = yield* Stream.runCollect((yield* survivor.streams.read(anonymous, plan_id, 0)).frames)
  const rows = stored.filter((item) => typeof item !== "string")
  assert.deepStrictEqual(
    rows.map(({ seq }) => seq),
    rows.map((_, index) => index + 1)
  )
  assert.deepStrictEqual(rows.slice(0, frames.length), frames)
  assert.strictEqual(rows.at(-1)?.event, "done")
  const started = all(events, "task.started").map(({ task_id }) => task_id)
  assert.sameMembers(
    all(events, "task.finished").map(({ task_id }) => task_id),
    started
  )
  assert.strictEqual(new Set(started).size, started.length)
  assert.isAtMost(all(events, "task.artifact").length, started.length)
  const once = sent.filter(({ agent }) => agent === "bob").map(({ taskId }) => taskId)
  assert.strictEqual(new Set(once).size, once.length)
  const history = yield* (yield* SessionStore).history(session_id)
  const parts = legalHistory(history).flatMap((entry) => entry.parts)
  assert.strictEqual(parts.filter(({ type }) => type === "tool_call").length, started.length)
  assert.strictEqual(history.filter(({ role }) => role === "user").length, 1)
  const retracted = new Set(all(events, "text.retract").map(({ step, attempt }) => `${step} ${attempt}`))
  const shown = (of: number) =>
    all(events, "text.delta").flatMap(({ step, attempt, delta }) =>
      step === of && !retracted.has(`${step} ${attempt}`) ? [delta] : []
    )
  const [final] = all(events, "final")
  for (const step of final === undefined ? [] : [1, 2, 3]) {
    assert.strictEqual(shown(step).join(""), step === 3 ? "abend" : "ab")
  }
  if (final !== undefined) assert.deepInclude(final, { text: "abend", steps: 3, tool_calls: 3 })
  else assert.deepStrictEqual(all(events, "error")[0]?.code, "interrupted")
  return final !== undefined
})

const runs = (most: number) => Array.from({ length: most }, (_, index) => index + 1)

describe("a plan", () => {
  it.effect.each(["before", "behind"] as const)(
    "is finished or settled by the next process, whichever of its commits its process dies %s",
    (when) =>
      Effect.gen(function* () {
        const ends = yield* Effect.forEach(runs(30), (fatal) =>
          Effect.gen(function* () {
            const peers = world()
            let commits = 0
            const dies = () => (++commits === fatal ? when : undefined)
            const first = yield* mortal({ script, dies, peers: peers.peers })
            const asked = yield* ask(first)
            yield* pass("3 seconds", "50 millis")
            const isDead = commits >= fatal
            first.kill()
            const next = yield* mortal({ script, peers: peers.peers })
            const isFinished = yield* check(next, asked, peers)
            next.kill()
            return isDead ? isFinished : undefined
          }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
        )
        // Both happen, and one of the runs has been left alone.
        assert.includeMembers(ends, [true, false, undefined])
      }),
    60_000
  )

  it.effect("is finished by the next process, or aborted, whenever its own one is shut down", () =>
    Effect.gen(function* () {
      const ends = yield* Effect.forEach(runs(20), (instant) =>
        Effect.gen(function* () {
          const peers = world()
          const config = { shutdownGrace: Duration.zero }
          const first = yield* mortal({ script, config, peers: peers.peers })
          const asked = yield* ask(first)
          yield* pass(Duration.millis(instant * 50), "50 millis")
          yield* Effect.forkChild(first.plans.drain)
          yield* pass("1 second")
          first.kill()
          const next = yield* mortal({ script, peers: peers.peers })
          const { state } = yield* next.plans.get(anonymous, asked.plan_id)
          if (state === "aborted") return false
          const isFinished = yield* check(next, asked, peers)
          next.kill()
          assert.isTrue(isFinished)
          assert.lengthOf(peers.cancelled, 0)
          return true
        }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
      )
      assert.includeMembers(ends, [true, false])
    })
  )
})
