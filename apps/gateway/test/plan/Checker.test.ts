import type { MessagePart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import {
  callsAreOnce,
  endIsTrue as endIsTrueOf,
  historyIsLegal,
  type ObservedMessage,
  type ObservedPlan,
  seenIsStored,
  streamIsWhole
} from "./Checker.ts"
import type { RawFrame } from "./Follower.ts"

const framed = (...events: ReadonlyArray<readonly [string, object?]>): ReadonlyArray<RawFrame> =>
  events.map(([event, data = {}], index) => ({ seq: index + 1, event, data: JSON.stringify(data) }))

const attempt = { step: 1, attempt: 1 }
const task = { task_id: "t" }
const beginning = [
  ["session"],
  ["plan"],
  ["step", { step: 1 }],
  ["text.delta", { ...attempt, delta: "Hm " }],
  ["task.started", task],
  ["task.progress", task]
] as const
const finished = ["task.finished", { ...task, state: "completed" }] as const
const answer = [
  ["step", { step: 2 }],
  ["text.delta", { step: 2, attempt: 1, delta: "so" }],
  ["text.retract", { step: 2, attempt: 1 }],
  ["text.delta", { step: 2, attempt: 2, delta: "yes" }]
] as const
const final = ["final", { text: "yes" }] as const
const done = ["done"] as const
const error = ["error", { code: "interrupted" }] as const

const whole = framed(...beginning, finished, ...answer, final, done)
const plan = (given: Partial<ObservedPlan> = {}): ObservedPlan => ({
  name: "0.0",
  plan_id: "p",
  state: "completed",
  error: null,
  says: ["Hm ", "yes"],
  hasDied: true,
  resumptions: 1,
  seen: [whole],
  replay: whole,
  ...given
})
const unknown = ["task.finished", { ...task, state: "interrupted", remote_task_id: null }] as const
const interrupted = (given: Partial<ObservedPlan> = {}) =>
  plan({ state: "failed", error: "interrupted", replay: framed(...beginning, unknown, error, done), ...given })

const came = [{ key: "k", messageId: "t", isIdempotent: false }]
const endIsTrue = (observed: ObservedPlan, arrivals = came) => endIsTrueOf(observed, arrivals)

/** The problems, each shortened to its beginning. */
const starts = (problems: ReadonlyArray<string>, ...expected: ReadonlyArray<string>) =>
  assert.deepStrictEqual(
    problems.map((problem, index) => problem.slice(0, expected[index]?.length)),
    expected
  )

describe("what was seen", () => {
  const stored = (frames: ReadonlyArray<RawFrame>) => seenIsStored(plan({ seen: [frames] }))

  it("is stored, also where a reader has not come to the end", () => {
    starts(stored(whole))
    starts(stored(whole.slice(0, 4)))
    starts(stored([]))
  })

  it("is missing when a frame after the last one was seen", () => {
    starts(stored([...whole, { seq: whole.length + 1, event: "text.delta", data: "{}" }]), `seen: ${whole.length + 1}`)
  })

  it("differs when a number was given to another frame, by name or by one byte", () => {
    starts(stored(whole.map((frame) => (frame.seq === 4 ? { ...frame, data: `${frame.data} ` } : frame))), "seen: 4 ")
    starts(stored(whole.map((frame) => (frame.seq === 4 ? { ...frame, event: "usage" } : frame))), "seen: 4 ")
  })

  it("came twice, or with a gap, or out of order", () => {
    const [first, second, third] = whole
    assert.isDefined(first && second && third)
    if (first === undefined || second === undefined || third === undefined) return
    starts(stored([first, second, second]), "a reader got seq 2 as its frame 3")
    starts(stored([first, third]), "a reader got seq 3 as its frame 2")
    starts(stored([second, first]), "a reader got seq 2 as", "a reader got seq 1 as")
  })
})

describe("the stream", () => {
  const problems = (...events: ReadonlyArray<readonly [string, object?]>) =>
    streamIsWhole(plan({ replay: framed(...events) }))

  it("is whole", () => {
    starts(streamIsWhole(plan()))
    starts(streamIsWhole(interrupted()))
  })

  it("has a gap or a seq twice", () => {
    const twice = whole.map((frame) => (frame.seq === 5 ? { ...frame, seq: 4 } : frame))
    starts(streamIsWhole(plan({ replay: twice })), "seq 4 stands at place 5")
    starts(
      streamIsWhole(plan({ replay: whole.map((frame) => ({ ...frame, seq: frame.seq + 1 })).slice(0, 1) })),
      "seq 2",
      "final or error at ",
      "done at "
    )
  })

  it("has no beginning, or two", () => {
    starts(problems(...beginning.slice(1), finished, final, done), "session at  of")
    starts(problems(["session"], ...beginning, finished, final, done), "session at 0, 1 of")
  })

  it("has no end, two, or something after it", () => {
    starts(problems(...beginning, finished), "final or error at  of", "done at  of")
    starts(problems(...beginning, finished, final, error, done), "final or error at 7, 8")
    starts(problems(...beginning, finished, final, done, done), "final or error at 7 of 10", "done at 8, 9")
    starts(problems(...beginning, finished, final, done, ["text.delta"]), "final or error at 7", "done at 8")
  })

  it("has a task without an end, with two, or with one that never began", () => {
    starts(problems(...beginning, final, done), "task t has no end")
    starts(problems(...beginning, finished, finished, final, done), "task.finished of a task that is over")
    starts(problems(["session"], finished, final, done), "task.finished of a task that is unknown")
    starts(problems(...beginning, ["task.started", task], finished, final, done), "task.started of a task that is open")
    starts(
      problems(...beginning, finished, ["task.started", task], finished, final, done),
      "task.started of a task that is over"
    )
    starts(
      problems(...beginning, finished, ["task.progress", task], final, done),
      "task.progress of a task that is over",
      "task t"
    )
  })
})

describe("the end", () => {
  it("is an answer, or an interruption by a death", () => {
    starts(endIsTrue(plan()))
    starts(endIsTrue(interrupted()))
  })

  it("is an interruption that no death explains", () => {
    starts(endIsTrue(interrupted({ hasDied: false })), "interrupted, though")
  })

  it("is an interruption of a plan that could be resumed: no call is open, its peer knows it, or it may be made again", () => {
    const ending = (...events: ReadonlyArray<readonly [string, object?]>) =>
      endIsTrue(interrupted({ replay: framed(...events, error, done) }))
    starts(ending(...beginning, finished), "interrupted, though it could")
    starts(
      ending(...beginning, ["task.finished", { ...task, state: "interrupted", remote_task_id: "r" }]),
      "interrupted, though it could"
    )
    starts(ending(["task.started", { ...task, skill: "again" }], unknown), "interrupted, though it could")
    starts(ending(["task.started", { ...task, skill: "ask" }], unknown))
    starts(endIsTrue(interrupted({ replay: framed(...beginning, finished, error, done), resumptions: 2 })))
  })

  it("is none, or another one", () => {
    starts(endIsTrue(plan({ state: "running" })), "running: null")
    starts(endIsTrue(plan({ state: "aborted", error: "aborted" })), "aborted: aborted")
    starts(endIsTrue(plan({ state: "failed", error: "internal" })), "failed: internal")
  })

  it("differs from the one in the stream", () => {
    starts(endIsTrue(interrupted({ replay: whole })), "interrupted, but the stream", "interrupted, though it could")
    starts(
      endIsTrue(plan({ replay: framed(...beginning, finished, ...answer, error, done) })),
      "the answer is none, not yes"
    )
  })

  it("is not what the provider has said, or has text that was retracted or never shown", () => {
    const ending = (text: string, shown: ReadonlyArray<readonly [string, object?]>) =>
      endIsTrue(plan({ replay: framed(...beginning, finished, ...shown, ["final", { text }], done) }))
    starts(ending("soyes", answer), "the answer is soyes, not yes")
    starts(
      ending(
        "yes",
        answer.filter(([event]) => event !== "text.retract")
      ),
      "step 2 has shown soyes, not yes"
    )
    starts(ending("yes", answer.slice(0, 1)), "step 2 has shown , not yes")
    starts(
      ending("yes", [["text.delta", { step: 1, attempt: 2, delta: "Hm " }], ...answer]),
      "step 1 has shown Hm Hm , not Hm "
    )
  })

  it("is an answer without the result of a call", () => {
    const lost = ["task.finished", { ...task, state: "interrupted" }] as const
    starts(
      endIsTrue(plan({ replay: framed(...beginning, lost, ...answer, final, done) })),
      "completed with 7 task.finished"
    )
  })
})

describe("the end, where a process died that was about to make a call", () => {
  const failed = ["task.finished", { ...task, state: "failed" }] as const
  const replay = framed(...beginning, failed, ...answer, final, done)

  it("is an answer all the same", () => starts(endIsTrue(plan({ replay }), [])))

  it("is none where the call came, or nobody died", () => {
    starts(endIsTrue(plan({ replay })), "completed with 7 task.finished")
    starts(endIsTrue(plan({ replay, hasDied: false }), []), "completed with 7 task.finished")
  })
})

describe("the history", () => {
  const text: MessagePart = { type: "text", text: "?" }
  const taskId = (digit: string) => TaskId.make(`00000000-0000-4000-8000-00000000000${digit}`)
  const call = (id: string): MessagePart => ({ type: "tool_call", task_id: taskId(id), tool: "ask", input: {} })
  const result = (id: string): MessagePart => ({
    type: "tool_result",
    task_id: taskId(id),
    state: "completed",
    content: "!"
  })
  type Told = readonly [ObservedMessage["role"], ReadonlyArray<MessagePart>, string?]
  const told = (...messages: ReadonlyArray<Told>): ReadonlyArray<ObservedMessage> =>
    messages.map(([role, parts, id = "p"], index) => ({ seq: index + 1, plan_id: id, role, parts }))
  const user: Told = ["user", [text]]
  const asks: Told = ["assistant", [text, call("a"), call("b")]]
  const a: Told = ["tool", [result("a")]]
  const b: Told = ["tool", [result("b")]]

  it("is legal, whichever result came first, and with half a text at the end", () => {
    starts(historyIsLegal(told(user, asks, b, a, ["assistant", [text]])))
    starts(historyIsLegal(told(user, asks, ["tool", [result("a"), result("b")]], ["user", [text], "q"])))
    starts(historyIsLegal(told(user, ["assistant", [{ type: "text", text: "He", partial: true }]])))
  })

  it("has a call without a result, or with two", () => {
    starts(historyIsLegal(told(user, asks, a)), "calls and results", "the last call has no result")
    starts(historyIsLegal(told(user, asks, a, b, a)), "calls and results", "message 5 answers no call")
  })

  it("has a result that is not directly behind its call", () => {
    starts(historyIsLegal(told(user, asks, a, user, b)), "message 4 stands before a result")
    starts(
      historyIsLegal(told(user, a, ["assistant", [call("a")]])),
      "message 2 answers no call",
      "the last call has no result"
    )
  })

  it("has a call twice", () => {
    starts(
      historyIsLegal(told(user, ["assistant", [call("a")]], a, ["assistant", [call("a")]], a)),
      "calls and results"
    )
  })

  it("has a seq twice", () => {
    starts(
      historyIsLegal(told(user, ["assistant", [text]]).map((message) => ({ ...message, seq: 1 }))),
      "seq 1 stands behind 1"
    )
  })

  it("mixes two plans", () => {
    starts(
      historyIsLegal(told(user, ["user", [text], "q"], ["assistant", [text]], ["assistant", [text], "q"])),
      "message 3 stands behind those of another plan",
      "message 4 stands behind those of another plan"
    )
  })
})

describe("the calls", () => {
  const arrival = (key: string, messageId: string, isIdempotent = false) => ({ key, messageId, isIdempotent })

  it("came once, or again with the same id where that is allowed", () => {
    starts(callsAreOnce([arrival("a", "1"), arrival("b", "2"), arrival("c", "3", true), arrival("c", "3", true)]))
  })

  it("came twice", () => {
    starts(callsAreOnce([arrival("a", "1"), arrival("b", "2"), arrival("a", "1")]), "call a came twice as 1")
    starts(callsAreOnce([arrival("a", "1"), arrival("a", "2")]), "call a came as 1 and as 2")
    starts(callsAreOnce([arrival("a", "1", true), arrival("a", "2", true)]), "call a came as 1 and as 2")
    starts(callsAreOnce([arrival("a", "1"), arrival("b", "1")]), "call b came as 1, as did call a")
  })
})
