import type { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import type { PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const ask = { agent: "bob", endpoint: "http://bob.test/", skill: "ask" }

const accepted = (task_id: TaskId, remote_task_id: string): PlanChange => ({
  _tag: "TaskAccepted",
  task_id,
  remote_task_id,
  remote_context_id: `context of ${remote_task_id}`
})

const finished = (task_id: TaskId, state: TaskState): PlanChange => ({
  _tag: "TaskFinished",
  task_id,
  state,
  result: "",
  error: null,
  at: Given.later
})

/** A call of a skill from its start to its end; without a remote task it has never reached the peer. */
const call = Effect.fnUntraced(function* (
  stored: Given.Stored,
  state: TaskState,
  remote: string | null,
  called: typeof ask = ask
) {
  const task_id = yield* Given.newTask
  yield* Given.write(stored, [Given.started(task_id, "tool", called)])
  yield* Given.write(stored, [...(remote === null ? [] : [accepted(task_id, remote)]), finished(task_id, state)])
})

const handedBack = Effect.fnUntraced(function* ({ session_id }: Given.Stored) {
  return yield* (yield* SessionStore).handedBack(session_id)
})

const open = (remote: string, called: typeof ask = ask, preset: string | null = null) => ({
  ...called,
  remote_task_id: remote,
  remote_context_id: `context of ${remote}`,
  preset
})

export const handBackCases: ReadonlyArray<StoreCase> = [
  {
    title: "gives what peers have handed back to the session, whichever of its plans called them",
    test: Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const first = yield* Given.createHeld(session)
      const other = { ...ask, skill: "search" }
      yield* call(first, "input-required", "1")
      yield* call(first, "payment-required", "2", other)
      yield* Given.finish(first)
      const second = yield* Given.createHeld({ ...session, preset: "support" })
      const elsewhere = { ...ask, endpoint: "http://other.test/" }
      yield* call(second, "auth-required", "3", elsewhere)
      yield* call(second, "trust-verification-required", "4", { ...ask, agent: "eve" })
      yield* call(second, "failed", "5", { ...ask, agent: "ann" })
      assert.deepEqual(yield* handedBack(second), [
        open("1"),
        open("2", other),
        open("3", elsewhere, "support"),
        open("4", { ...ask, agent: "eve" }, "support")
      ])
      assert.deepEqual(yield* handedBack(yield* Given.create({ owner: session.owner })), [])
    })
  },
  {
    title: "lets the newest call of a remote task say whether there is something to go on with",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      for (const state of ["completed", "failed", "canceled", "timed-out", "interrupted"] as const) {
        yield* call(held, "input-required", "1")
        assert.deepEqual(yield* handedBack(held), [open("1")], state)
        yield* call(held, state, "1")
        assert.deepEqual(yield* handedBack(held), [], state)
      }
      yield* call(held, "input-required", "2")
      const task_id = yield* Given.newTask
      yield* Given.write(held, [Given.started(task_id, "tool", ask), accepted(task_id, "2")])
      assert.deepEqual(yield* handedBack(held), [])
    })
  },
  {
    title: "gives the newest remote task of a skill that still waits, whatever became of the others",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* call(held, "input-required", "1")
      yield* call(held, "completed", "2")
      assert.deepEqual(yield* handedBack(held), [open("1")])
      yield* call(held, "input-required", "3")
      assert.deepEqual(yield* handedBack(held), [open("3")])
      yield* call(held, "input-required", "1")
      assert.deepEqual(yield* handedBack(held), [open("1")])
      yield* call(held, "completed", "1")
      assert.deepEqual(yield* handedBack(held), [open("3")])
    })
  },
  {
    title: "keeps a remote task whose next call took back that it had reached the peer",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* call(held, "input-required", "1")
      const task_id = yield* Given.newTask
      yield* Given.write(held, [Given.started(task_id, "tool", ask)])
      yield* Given.write(held, [accepted(task_id, "1")])
      yield* Given.write(held, [
        { _tag: "TaskAccepted", task_id, remote_task_id: null, remote_context_id: null },
        finished(task_id, "failed")
      ])
      assert.deepEqual(yield* handedBack(held), [open("1")])
    })
  },
  {
    title: "does not count a call that never reached the peer",
    test: Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* call(held, "input-required", "1")
      yield* call(held, "failed", null)
      yield* call(held, "invalid", null)
      assert.deepEqual(yield* handedBack(held), [open("1")])
    })
  }
]
