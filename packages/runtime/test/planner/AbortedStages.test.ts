import { anonymous } from "@bowline/domain/caller/CallerName"
import type { Stage } from "@bowline/domain/plan/Outcome"
import { stall } from "@bowline/testing/http/Move"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, error, say, type Turn } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope, Stream } from "effect"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import type { PlansConfig } from "../../src/config/PlansConfig.ts"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { notMade, unknownEffect } from "../../src/provider/LegalHistory.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { isSummary, small, words } from "../compaction/LongSession.ts"
import { bob, names } from "../plan/Bob.ts"

/** A plan that comes to a stage and stays there. */
interface Scene {
  readonly stage: Stage
  readonly turn: (asked: Asked) => Turn
  readonly fields?: object
  readonly config?: Partial<PlansConfig["Service"]>
  /** How many calls the plan waits for, and how many the model has asked for. */
  readonly calls?: readonly [open: number, asked: number]
  /** Whether another plan has the session. */
  readonly isBehind?: boolean
}

const history = [0, 1, 2].flatMap(() => [
  { role: "user", content: words(850) },
  { role: "assistant", content: "noted" }
])
const skills = [{ id: "ask" }, { id: "pay", approval: "always" }]
const called = (...tools: ReadonlyArray<string>) => tools.map((tool) => callTool(tool, { input: "hi" }))

const scenes: Readonly<Record<string, Scene>> = {
  "the queue": { stage: "queue", turn: () => [stall], isBehind: true },
  "an answer": { stage: "provider", turn: () => [say("half"), stall] },
  "a back-off": { stage: "backoff", turn: () => [error(503, {}, { "retry-after": "50" })] },
  "two tools": {
    stage: "tool",
    turn: () => called("bob_ask", "bob_ask"),
    fields: { agents: [{ ...bob, skills }] },
    calls: [2, 2]
  },
  "a tool beside an approval": {
    stage: "tool",
    turn: () => called("bob_ask", "bob_pay"),
    fields: { agents: [{ ...bob, skills }] },
    calls: [1, 2]
  },
  "an agent's card": { stage: "tool", turn: () => [], fields: { agents: [{ name: "bob", endpoint: bob.endpoint }] } },
  "an approval": {
    stage: "approval",
    turn: () => called("bob_pay"),
    fields: { agents: [{ ...bob, skills }] },
    calls: [0, 1]
  },
  "a compaction": { stage: "compaction", turn: () => [stall], fields: { history }, config: small }
}

const reasons = ["deadline", "cancelled", "disconnect"] as const
type Reason = (typeof reasons)[number]

/** A wait that would go beyond the deadline is never begun. */
const canEnd = ({ stage }: Scene, reason: Reason) => stage !== "backoff" || reason !== "deadline"

const timeout_ms = 60_000

/** Brings a plan into its stage, and ends it after ten seconds, or at its deadline. */
const abort = Effect.fnUntraced(function* ({ fields, isBehind }: Scene, reason: Reason) {
  const plans = yield* Plans
  const pool = yield* CredentialPool
  const inSession = { session_id: "s", preferences: { timeout_ms } }
  const ahead = isBehind === true ? yield* post({ ...inSession, question: "ahead", preferences: {} }) : undefined
  const connection = yield* Scope.make()
  const { plan_id, session_id } = yield* Scope.provide(post({ ...inSession, question: "?", ...fields }), connection)
  yield* pass("10 seconds", "1 second")
  const before = yield* pool.list
  if (reason === "deadline") yield* pass("50 seconds", "1 second")
  if (reason === "cancelled") yield* plans.cancel(anonymous, plan_id)
  if (reason === "disconnect") yield* Scope.close(connection, Exit.void)
  yield* pass("100 millis")
  assert.deepStrictEqual(yield* pool.list, before)
  if (ahead !== undefined) yield* plans.cancel(anonymous, ahead.plan_id)
  const plan = yield* plans.get(anonymous, plan_id)
  const events = yield* Stream.runCollect(plans.events(anonymous, plan_id))
  const messages = yield* (yield* SessionStore).history(session_id)
  return { plan, events, parts: messages.flatMap(({ parts }) => parts) }
})

type Aborted = Effect.Success<ReturnType<typeof abort>>

/** The error names the stage and its open calls, and every call has its one end in the stream and in the history. */
const checkEnd = ({ events, parts, plan }: Aborted, { calls = [0, 0], stage }: Scene, reason: Reason) => {
  const [open, asked] = calls
  assert.strictEqual(plan.state, "aborted")
  const failure = single(events, "error")
  assert.deepStrictEqual(plan.error, failure)
  assert.deepInclude(failure, { code: "aborted", reason, stage, retryable: reason === "deadline" })
  assert.deepStrictEqual(names(events).slice(-2), ["error", "done"])
  const elapsed_ms = reason === "deadline" ? timeout_ms : 10_000
  const tools = all(events, "task.started").map(({ task_id, tool }) => ({ tool, task_id, elapsed_ms }))
  assert.deepStrictEqual(failure.data, open === 0 ? undefined : { ...tools.at(-1), tools })
  assert.lengthOf(tools, open)
  assert.deepStrictEqual(
    all(events, "task.finished").map(({ task_id, state, error }) => [task_id, state, error?.code]),
    tools.map(({ task_id }) => [task_id, "interrupted", "interrupted"])
  )
  if (reason === "deadline") assert.strictEqual(plan.finished_at, plan.deadline_at)
  const owed = parts.flatMap((part) => (part.type === "tool_call" ? [part.task_id] : []))
  const results = parts.flatMap((part) => (part.type === "tool_result" ? [part] : []))
  assert.lengthOf(owed, asked)
  const started = new Set(tools.map(({ task_id }) => task_id))
  assert.deepStrictEqual(
    owed.map((task_id) =>
      results.filter((result) => result.task_id === task_id).map(({ content, state }) => [state, content])
    ),
    owed.map((task_id) => [["interrupted", started.has(task_id) ? unknownEffect : notMade]])
  )
  assert.lengthOf(results, asked)
}

/** The session is free at once, and nothing of the plan runs: the gateway may end without a wait. */
const checkFree = Effect.gen(function* () {
  const events = yield* readAll((yield* post({ question: "And now?", session_id: "s" })).frames)
  assert.notInclude(names(events), "queued")
  assert.strictEqual(single(events, "final").text, "next")
  const { asked } = yield* ScriptedProvider
  assert.strictEqual(yield* asked.open, 0)
  yield* (yield* Plans).drain
})

for (const [what, scene] of Object.entries(scenes)) {
  describe(`a plan that waits for ${what}`, () => {
    it.effect.each(reasons.filter((reason) => canEnd(scene, reason)))(
      "ends in the stage that was running, and leaves nothing behind: %s",
      (reason) => {
        let isOver = false
        let running = 0
        const call: PeerClient["Service"]["call"] = () =>
          Effect.acquireUseRelease(
            Effect.sync(() => void running++),
            () => Effect.never,
            () => Effect.sync(() => void running--)
          )
        const discover: PeerClient["Service"]["discover"] = ({ skills }) =>
          skills === undefined ? Effect.never : Effect.succeed({ skills: [], did: null })
        const script = (asked: Asked) => (isOver ? [say(isSummary(asked) ? "FACT" : "next")] : scene.turn(asked))
        return Effect.gen(function* () {
          checkEnd(yield* abort(scene, reason), scene, reason)
          assert.strictEqual(running, 0)
          isOver = true
          yield* checkFree
        }).pipe(Effect.provide(layer({ script, peers: { call, discover }, config: scene.config ?? {} })), Effect.scoped)
      }
    )
  })
}
