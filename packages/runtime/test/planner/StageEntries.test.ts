import { anonymous } from "@bowline/domain/caller/CallerName"
import type { NewEntry, Waiting } from "@bowline/domain/plan/Inbox"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { until } from "@bowline/testing/http/Move"
import { type Asked, question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, type Turn } from "@bowline/testing/provider/Turn"
import { all, pass, post } from "@bowline/testing/unstable/TestKit"
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Latch, Layer } from "effect"
import type { PlansConfig } from "../../src/config/PlansConfig.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import { isSummary, small, words } from "../compaction/LongSession.ts"
import { bob } from "../plan/Bob.ts"
import { hi, type Mortal, mortal, peer, replayed, stays } from "../plan/Mortal.ts"

/** A plan that comes to a stage, and leaves it when the latch opens, or when what waits there is settled. */
interface Scene {
  readonly stage: Stage
  readonly first: (asked: Asked, open: Effect.Effect<void>) => Turn
  readonly fields?: object
  readonly config?: Partial<PlansConfig["Service"]>
  readonly waits?: Waiting["kind"]
}

const skills = [{ id: "ask" }, { id: "pay", approval: "always" }]
const agents = [{ ...bob, skills }]
const tools = [{ name: "pick", input_schema: {} }]
const history = [0, 1, 2].flatMap(() => [
  { role: "user", content: words(850) },
  { role: "assistant", content: "noted" }
])
const called = (...names: ReadonlyArray<string>) => names.map((name) => callTool(name, { input: "hi" }))

const scenes: Readonly<Record<string, Scene>> = {
  "the queue": { stage: "queue", first: () => [] },
  "an answer": { stage: "provider", first: (_, open) => [say("half"), until(open), say(" and whole")] },
  "a back-off": { stage: "backoff", first: () => [error(503, {}, { "retry-after": "20" })] },
  "a tool": { stage: "tool", first: () => called("bob_ask"), fields: { agents } },
  "an approval": { stage: "approval", first: () => called("bob_pay"), fields: { agents }, waits: "approval" },
  "a tool of the client": { stage: "client", first: () => called("pick"), fields: { tools }, waits: "result" },
  "a compaction": {
    stage: "compaction",
    first: (_, open) => [until(open), say("summary")],
    fields: { history },
    config: small
  }
}

const me = { caller: anonymous, isAdmin: false }
const text = (when: "boundary" | "now"): NewEntry => ({ type: "text", text: "and this", when, else: "ask" })
const nobody = TaskId.make("00000000-0000-4000-8000-000000000000")

/** What happens to the plan while it is in its stage. */
const happenings = ["boundary", "now", "result", "answer", "decision", "expiry", "cancel", "deadline", "kill"] as const
type Happening = (typeof happenings)[number]

const entryOf = (happening: Happening, task_id: TaskId): NewEntry | undefined => {
  switch (happening) {
    case "boundary":
    case "now":
      return text(happening)
    case "result":
      return { type: "result", task_id, content: "red" }
    case "answer":
      return { type: "answer", task_id, text: "yes" }
    case "decision":
      return { type: "decision", task_id, decision: "approve" }
    default:
      return undefined
  }
}

/** The kind of wait that it settles. */
const settled: Partial<Record<Happening, Waiting["kind"]>> = {
  result: "result",
  answer: "answer",
  decision: "approval"
}

const play = Effect.fnUntraced(function* ({ config, fields, first, stage, waits }: Scene, happening: Happening) {
  const latch = Latch.makeUnsafe(false)
  const script = (asked: Asked): Turn => {
    if (question(asked) === "ahead") return [until(latch.await), say("over")]
    if (isSummary(asked)) return stage === "compaction" ? first(asked, latch.await) : [say("summary")]
    const isFirst = results(asked).length === 0 && asks++ === 0
    return isFirst && stage !== "compaction" ? [...first(asked, latch.await)] : [say("done")]
  }
  let asks = 0
  const held = peer(Effect.as(latch.await, hi))
  const options = { script, peers: held.peers, ...(config && { config }) }
  const one = yield* mortal(options)
  const preferences = {
    ...stays.preferences,
    timeout_ms: happening === "deadline" ? 15_000 : 600_000,
    ...(happening === "expiry" && { wait_timeout_ms: 12_000 })
  }
  if (stage === "queue") yield* one.on(post({ question: "ahead", session_id: "s", ...stays }))
  const { plan_id, session_id } = yield* one.on(post({ question: "?", session_id: "s", ...fields, preferences }))
  yield* pass("8 seconds", "500 millis")
  assert.strictEqual((yield* one.plans.get(anonymous, plan_id)).stage, stage)
  const [wait] = (yield* one.inbox.waiting(anonymous, {}, { limit: 10 })).items
  assert.strictEqual(wait?.kind, waits)
  const other = yield* mortal(options)
  const entry = entryOf(happening, wait?.task_id ?? nobody)
  const isSettling = settled[happening] !== undefined
  const isFor = isSettling && settled[happening] === waits
  const accepted = entry && (yield* Effect.result(other.inbox.accept(me, plan_id, entry)))
  if (accepted !== undefined) assert.strictEqual(accepted._tag, isSettling && !isFor ? "Failure" : "Success")
  // What is said before the plan ends or its process dies is accounted for, too.
  const before = entry === undefined ? yield* other.inbox.accept(me, plan_id, text("boundary")) : undefined
  if (happening === "cancel") yield* other.plans.cancel(anonymous, plan_id)
  if (happening === "kill") one.kill()
  yield* pass("8 seconds", "500 millis")
  const meanwhile = yield* other.plans.get(anonymous, plan_id)
  yield* latch.open
  const [left] = (yield* other.inbox.waiting(anonymous, {}, { limit: 10 })).items
  if (left !== undefined && left.plan_id === plan_id) yield* settle(other, plan_id, left)
  const events = yield* replayed(other, plan_id)
  const { items } = yield* other.inbox.list(me, plan_id, { limit: 10 })
  const plan = yield* other.plans.get(anonymous, plan_id)
  const said = (yield* (yield* SessionStore).history(session_id)).filter(({ parts }) =>
    parts.some((part) => part.type === "text" && part.text === "and this")
  )
  return { before, events, isFor, items, meanwhile, plan, said }
})

const settle = (process: Mortal, plan_id: PlanId, { kind, task_id }: Waiting) => {
  const entry = entryOf(kind === "approval" ? "decision" : kind === "result" ? "result" : "answer", task_id)
  return entry === undefined ? Effect.void : Effect.asVoid(process.inbox.accept(me, plan_id, entry))
}

// A compaction would load it from the disk, which takes real time.
beforeAll(async () => {
  await import("gpt-tokenizer/bpeRanks/o200k_base")
  await import("gpt-tokenizer/encoding/o200k_base")
})

describe("what happens to a plan in each of its stages", () => {
  for (const [name, scene] of Object.entries(scenes)) {
    // A wait that would go beyond the deadline is never begun.
    for (const happening of happenings.filter((one) => scene.stage !== "backoff" || one !== "deadline")) {
      it.effect(`${happening} in ${name}`, () =>
        Effect.gen(function* () {
          const { before, events, isFor, items, meanwhile, plan, said } = yield* play(scene, happening)
          const isText = happening === "boundary" || happening === "now" || before !== undefined
          // The time of a plan stands still while it only waits.
          const isAborted = happening === "cancel" || (happening === "deadline" && scene.waits === undefined)
          assert.strictEqual(plan.state, isAborted ? "aborted" : "completed")
          const texts = items.filter(({ type }) => type === "text")
          assert.deepStrictEqual(
            texts.map(({ state }) => state),
            isText ? [isAborted ? "untaken" : "taken"] : []
          )
          assert.lengthOf(said, isText && !isAborted ? 1 : 0)
          assert.deepStrictEqual(plan.error?.untaken ?? [], isAborted ? texts.map(({ entry_id }) => entry_id) : [])
          if (isAborted) assert.strictEqual(plan.error?.stage, scene.stage)
          // Nothing but what settles the wait ends it; a text that counts at once ends an attempt and the wait for the next one.
          const isOver = isFor || isAborted || (happening === "expiry" && scene.waits !== undefined)
          const isSteered = happening === "now" && (scene.stage === "provider" || scene.stage === "backoff")
          if (isOver || isSteered)
            assert.notInclude([scene.stage], meanwhile.state === "running" ? meanwhile.stage : "")
          else if (happening !== "kill") assert.include([scene.stage, null], meanwhile.stage)
          assert.lengthOf(
            all(events, "text.retract").filter(({ reason }) => reason === "steered"),
            happening === "now" && scene.stage === "provider" ? 1 : 0
          )
        }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, Layer.succeed(SchemaChecks, inPlace))))
      )
    }
  }
})
