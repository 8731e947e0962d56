import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { TaskId, type TaskState } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { PlanTasks, type TaskStart } from "../../src/planner/PlanTasks.ts"
import { Journal } from "../../src/stream/Journal.ts"
import { LivePlan } from "../../src/stream/LivePlan.ts"

const task_id = TaskId.make("2".repeat(36))
const other = TaskId.make("4".repeat(36))
const agent = { agent_did: null, agent_did_source: null }

/** The calls of a plan whose writer has nothing else to do: it takes at once what is appended. */
const make = Effect.map(Effect.scope, (scope) => {
  const ignore = () => undefined
  const commits: Array<ReadonlyArray<string>> = []
  const journal = new Journal({
    plan: { plan_id: PlanId.make(`plan_${"1".repeat(36)}`), session_id: SessionId.make(`session_${"0".repeat(36)}`) },
    guard: { _tag: "Held", fence: 1 },
    head: { seq: 0, at: "2026-01-02T03:04:05.678Z" },
    gist: undefined,
    live: new LivePlan(scope, ignore),
    notify: (source) => {
      const taken = source.take("2026-01-02T03:04:05.679Z")
      if (taken === undefined) return
      commits.push(taken.commit.changes.map(({ _tag }) => _tag))
      taken.stored(false)
    },
    onStopped: ignore,
    seen: 0,
    onBehind: ignore
  })
  const tasks = new PlanTasks({ journal, uuid: () => "3".repeat(36), isOverdue: () => false, measureCall: ignore })
  const start = (state: TaskStart["state"]) =>
    tasks.start(
      { task_id, tool: "pay", kind: "local", agent: null, endpoint: null, skill: null, input: {}, state },
      false,
      agent,
      [],
      0
    )
  const finish = (state: TaskState) => tasks.finish(task_id, { state, result: "" }, "", 1)
  return { commits, start, finish, tasks }
})

describe("a call", () => {
  it.effect("that is refused is stored with its end: a crash leaves both or none", () =>
    Effect.gen(function* () {
      const { commits, finish, start } = yield* make
      start("rejected")
      finish("rejected")
      assert.deepStrictEqual(commits, [["TaskStarted", "TaskFinished", "MessageAppended"]])
    }).pipe(Effect.scoped)
  )

  it.effect("that is made is stored before it leaves", () =>
    Effect.gen(function* () {
      const { commits, finish, start } = yield* make
      start("running")
      assert.deepStrictEqual(commits, [["TaskStarted"]])
      finish("completed")
      assert.deepStrictEqual(commits.slice(1), [["TaskFinished", "MessageAppended"]])
    }).pipe(Effect.scoped)
  )

  it.effect("that is open ends with its plan in the order of the answer, in the next process as in its own", () =>
    Effect.gen(function* () {
      const { tasks } = yield* make
      const stored = {
        tool: "pay",
        kind: "local",
        agent: null,
        endpoint: null,
        skill: null,
        state: "running",
        started_at: "2026-01-02T03:04:05.678Z",
        remote_task_id: null,
        remote_context_id: null
      } as const
      const started = [other, task_id].map((task_id) => ({ ...stored, task_id }))
      tasks.inherit(started, [task_id, other])
      const { events } = tasks.finishAll({ state: "interrupted", result: "" }, 1)
      assert.deepStrictEqual(
        events.map(({ data }) => "task_id" in data && data.task_id),
        [task_id, other]
      )
    }).pipe(Effect.scoped)
  )
})
