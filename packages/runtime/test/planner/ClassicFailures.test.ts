import { cut } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { noFinish, say } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { askBob, bob } from "../plan/Bob.ts"

/** Asks with retries off. Nobody moves the clock: a plan that waits for anything never ends. */
const ask = (script: Script) => {
  let calls = 0
  const call = () =>
    Effect.sync(() => {
      calls++
      return { state: "failed" as const, content: "out of rope", verified: "unknown" as const }
    })
  return Effect.gen(function* () {
    const { frames, session_id } = yield* post({ question: "?", agents: [bob] })
    const events = yield* readAll(frames)
    assert.strictEqual(yield* Clock.currentTimeMillis, 0)
    const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
    const asked = yield* (yield* ScriptedProvider).asked.all
    return { events, asked: asked.length, calls, history: items.map(({ parts }) => parts) }
  }).pipe(Effect.provide(layer({ script, peers: { call }, config: { maxRetries: 0 } })), Effect.scoped)
}

const ends = [
  ["cut", cut, "transport"],
  ["closed without a finish", noFinish, "stream_truncated"]
] as const

describe("with retries off, the plan fails at once and says why", () => {
  it.effect.each(ends)("where its connection is %s in mid-answer", ([, end, reason]) =>
    Effect.gen(function* () {
      const { asked, events, history } = yield* ask([[say("Half an "), say("answer"), end]])
      const error = single(events, "error")
      assert.deepInclude(error, { code: `provider_${reason}`, retryable: true, stage: "provider" })
      assert.notStrictEqual(error.message, "")
      assert.deepStrictEqual(error.data, { attempts: 1, reasons: [reason], credential: "scripted-1", partial: true })
      assert.strictEqual(asked, 1)
      assert.deepStrictEqual(history.at(-1), [{ type: "text", text: "Half an answer", partial: true }])
    })
  )

  it.effect.each(ends)("where its connection is %s in mid tool call, which is never made", ([, end, reason]) =>
    Effect.gen(function* () {
      const { asked, calls, events, history } = yield* ask([[say("Let me ask"), ...askBob, end]])
      assert.deepInclude(single(events, "error"), { code: `provider_${reason}`, retryable: true, stage: "provider" })
      assert.deepStrictEqual([asked, calls, all(events, "task.started").length], [1, 0, 0])
      assert.notInclude(JSON.stringify(history), "tool_call")
    })
  )

  it.effect("where the same call keeps failing, after exactly three provider calls", () =>
    Effect.gen(function* () {
      const { asked, calls, events, history } = yield* ask(() => askBob)
      assert.deepInclude(single(events, "error"), { code: "loop_detected", retryable: false })
      assert.deepStrictEqual([asked, calls], [3, 3])
      const states = history.flat().flatMap((part) => (part.type === "tool_result" ? [part.state] : []))
      assert.deepStrictEqual(states, ["failed", "failed", "failed"])
    })
  )
})
