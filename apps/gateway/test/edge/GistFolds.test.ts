import { TaskFold } from "@bowline/a2a/unstable/server/TaskFold"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { type PlanFacts, PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import * as Usage from "@bowline/domain/plan/Usage"
import { SessionId } from "@bowline/domain/session/Session"
import { toFrame } from "@bowline/runtime/unstable/store/EventRow"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { ResponseEvents } from "../../src/edge/response/ResponseEvents.ts"
import * as Told from "./response/ToldEvents.ts"

const at = "2026-01-02T03:04:05.678Z"

const plan: PlanFacts = {
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000004"),
  external_session_id: null,
  state: "running",
  stage: null,
  model: "scripted/model",
  caller: anonymous,
  trace_id: null,
  preset: null,
  created_at: at,
  deadline_at: at,
  finished_at: null,
  steps: 0,
  tool_calls: 0,
  retries: 0,
  usage: Usage.empty,
  cost_usd: null,
  error: null,
  metadata: {},
  question: "Why?",
  final: null
}

const resolved: PlanEvent = {
  event: "approval.resolved",
  data: { task_id: Told.task_id, decision: "approve", by: anonymous }
}

/** What a plan may tell, in whatever order. */
const vocabulary: ReadonlyArray<PlanEvent> = [
  Told.session,
  Told.queued,
  Told.planned,
  Told.step(1),
  Told.step(2),
  Told.say("a"),
  Told.say("b"),
  Told.say("c", 1, 2),
  Told.say("d", 2),
  Told.think("e"),
  Told.think("f", 2),
  Told.retract(1),
  Told.retract(2),
  Told.used,
  Told.started,
  Told.artifact("{}"),
  Told.finished(),
  Told.finished({ code: "tool_timeout", message: "late" }),
  Told.requested("weather_forecast"),
  resolved
]

const Sequence = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: vocabulary.length - 1 }))).check(
  Schema.isMaxLength(40)
)

/** The gist of the events, as the next process reads it. */
const gistOf = (events: ReadonlyArray<PlanEvent>) =>
  Option.getOrThrow(
    PlanGist.decode(
      JSON.parse(JSON.stringify(PlanGist.add(PlanGist.upTo(0), events, "2026-01-02T03:04:05.678Z"))) as Schema.Json
    )
  )

describe("the gist of a plan tells what its events tell", () => {
  it.prop("as a response", { sequence: Sequence }, ({ sequence }) => {
    const events = sequence.flatMap((index) => vocabulary[index] ?? [])
    const ref = { plan_id: plan.plan_id, leg: 1 }
    const [whole, short] = [new ResponseEvents(ref, Told.echo), new ResponseEvents(ref, Told.echo)]
    for (const [index, event] of events.entries()) whole.next(toFrame(index + 1, at, event))
    for (const event of gistOf(events).events) short.tell(event)
    assert.deepStrictEqual(short.response, whole.response)
    whole.tell(Told.final())
    short.tell(Told.final())
    assert.deepStrictEqual(short.response, whole.response)
  })

  it.prop("as a task", { sequence: Sequence }, ({ sequence }) => {
    const events = sequence.flatMap((index) => vocabulary[index] ?? [])
    const begin = () => {
      const task = { plan, message: null, cancelled_at: null }
      const fold = new TaskFold(plan.plan_id, plan.session_id, task)
      fold.begin(task)
      return fold
    }
    const [whole, short] = [begin(), begin()]
    for (const [index, event] of events.entries()) whole.next(toFrame(index + 1, at, event))
    for (const event of gistOf(events).events) short.tell(event, event.seq)
    assert.deepStrictEqual(short.task, whole.task)
  })
})
