import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanFacts } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import * as Usage from "@bowline/domain/plan/Usage"
import { SessionId } from "@bowline/domain/session/Session"
import { TaskId, type TaskState } from "@bowline/domain/tool/TaskState"
import { toFrame } from "@bowline/runtime/unstable/store/EventRow"
import { assert, describe, it } from "@effect/vitest"
import type { ServedUpdate } from "../../src/server/ServedTask.ts"
import { type Shown, TaskFold } from "../../src/server/TaskFold.ts"

const deadline_at = "2026-01-02T03:34:05.678Z"
const plan_id = PlanId.make("plan_00000000-0000-4000-8000-000000000001")
const task_id = TaskId.make("00000000-0000-4000-8000-000000000002")
const other_id = TaskId.make("00000000-0000-4000-8000-000000000003")

const plan: PlanFacts = {
  plan_id,
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000004"),
  external_session_id: null,
  state: "running",
  stage: null,
  model: "scripted/model",
  caller: anonymous,
  trace_id: null,
  preset: null,
  created_at: "2026-01-02T03:04:05.678Z",
  deadline_at,
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

const final = { stop_reason: "stop" as const, usage: Usage.empty, steps: 1, tool_calls: 0, duration_ms: 1 }
const completed = (text: string, output?: object): PlanFacts => ({
  ...plan,
  state: "completed",
  finished_at: "2026-01-02T03:05:00.000Z",
  final: { ...final, text, ...(output !== undefined && { output: { ...output } }) }
})

const delta = (step: number, attempt: number, text: string): PlanEvent => ({
  event: "text.delta",
  data: { step, attempt, delta: text }
})
const retract = (step: number, attempt: number): PlanEvent => ({ event: "text.retract", data: { step, attempt } })
const ends: PlanEvent = { event: "final", data: { ...final, text: "" } }
const started = (id: TaskId): PlanEvent => ({
  event: "task.started",
  data: {
    task_id: id,
    tool: "bob_ask",
    kind: "peer",
    agent: "bob",
    skill: "ask",
    agent_did: null,
    agent_did_source: null,
    input: {}
  }
})
const finished = (id: TaskId, state: TaskState): PlanEvent => ({
  event: "task.finished",
  data: { task_id: id, state, remote_task_id: null, remote_context_id: null, duration_ms: 1 }
})
const artifact = (verified: "yes" | "no" | "unsigned" | "unknown"): PlanEvent => ({
  event: "task.artifact",
  data: { task_id, content: verified, media_type: "text/plain", truncated: false, verified }
})
const requested = (id: TaskId): PlanEvent => ({
  event: "approval.requested",
  data: { task_id: id, tool: "bob_ask", agent: "bob", input: { n: 1 }, expires_at: deadline_at, why: "always" }
})

const first = { plan, message: { message_id: "m", metadata: { a: 1 } }, cancelled_at: null }

const foldOf = (events: ReadonlyArray<PlanEvent>, ...shown: ReadonlyArray<Shown>) => {
  const fold = new TaskFold(plan_id, "context", first, ...shown)
  fold.begin(first)
  const updates = events.flatMap((event, index) => fold.next(toFrame(index + 1, plan.created_at, event)))
  return { fold, updates }
}

/** What a client has that follows the rules. */
const textOf = (updates: ReadonlyArray<ServedUpdate>): string => {
  let text = ""
  for (const update of updates) {
    if (update._tag === "Status" || update.artifact.artifactId !== "answer") continue
    const said = update.artifact.parts.map((part) => (part._tag === "Text" ? part.text : JSON.stringify(part))).join("")
    text = update.append ? text + said : said
  }
  return text
}

const answerOf = ({ fold }: ReturnType<typeof foldOf>) =>
  fold.task.artifacts
    .filter(({ artifactId }) => artifactId === "answer")
    .flatMap(({ parts }) => parts)
    .map((part) => (part._tag === "Text" ? part.text : JSON.stringify(part)))
    .join("")

describe("the answer of a task", () => {
  it.each([
    ["pieces", [delta(1, 1, "a"), delta(1, 1, "b")], "ab"],
    ["an attempt that is taken back", [delta(1, 1, "a"), retract(1, 1), delta(1, 2, "b")], "b"],
    ["one of two attempts that is taken back", [delta(1, 1, "a"), delta(1, 2, "b"), retract(1, 2)], "a"],
    ["an attempt of which nothing was shown", [delta(1, 1, "a"), retract(1, 2)], "a"],
    ["a later step", [delta(1, 1, "a"), delta(2, 1, "b")], "b"],
    ["an earlier step that is taken back", [delta(1, 1, "a"), delta(2, 1, "b"), retract(1, 1)], "b"]
  ] as const)("is the same for who follows it and for who comes later: %s", (_, events, text) => {
    const folded = foldOf(events)
    assert.deepStrictEqual([textOf(folded.updates), answerOf(folded)], [text, text])
    const all = [...folded.updates, ...folded.fold.end(completed(text), false)]
    assert.deepStrictEqual([textOf(all), answerOf(folded)], [text, text])
    const last = all.filter((update) => update._tag === "Artifact").at(-1)
    assert.deepInclude(last, { append: true, lastChunk: true })
  })

  it("is the plan's own, if what was shown is another one, and its data under a schema", () => {
    const folded = foldOf([delta(1, 1, "a")])
    assert.strictEqual(textOf([...folded.updates, ...folded.fold.end(completed("z"), false)]), "z")
    const structured = foldOf([delta(1, 1, "{}")])
    const updates = structured.fold.end(completed("{}", { n: 1 }), false)
    assert.deepInclude(updates[0], { append: false, lastChunk: true })
    assert.strictEqual(answerOf(structured), '{"_tag":"Data","data":{"n":1}}')
  })
})

describe("an artifact of a peer", () => {
  it("is named after its tool, and stays here unless it is verified or nobody asked for that", () => {
    const { fold, updates } = foldOf([
      started(task_id),
      artifact("no"),
      artifact("unsigned"),
      artifact("yes"),
      artifact("unknown")
    ])
    assert.deepStrictEqual<unknown>(
      fold.task.artifacts.map(({ metadata, name, parts }) => ({ metadata, name, parts })),
      ["yes", "unknown"].map((text) => ({
        metadata: { bowline: { task_id } },
        name: "bob_ask",
        parts: [{ _tag: "Text", text }]
      }))
    )
    assert.lengthOf(
      updates.filter((update) => update._tag === "Artifact"),
      2
    )
  })
})

describe("a task that waits", () => {
  it("asks for one decision after the other, the oldest first, and works again when all are made", () => {
    const { fold, updates } = foldOf([requested(task_id), requested(other_id)])
    assert.deepStrictEqual(fold.approvals, [task_id, other_id])
    assert.deepStrictEqual(
      updates.map((update) => update._tag === "Status" && [update.status.standing, update.weight]),
      [["input-required", "final"]]
    )
    assert.deepStrictEqual(fold.task.status.message?.parts[1], {
      _tag: "Data",
      data: { kind: "approval", task_id, tool: "bob_ask", input: { n: 1 }, expires_at: plan.deadline_at }
    })
    fold.decide(task_id)
    assert.deepStrictEqual([fold.standing, fold.approvals], ["input-required", [other_id]])
    fold.decide(other_id)
    assert.strictEqual(fold.standing, "working")
  })

  it("no longer waits for a call that was decided before the frame of its request is read", () => {
    const fold = new TaskFold(plan_id, "context", first)
    fold.begin(first)
    fold.decide(task_id)
    assert.deepStrictEqual([fold.next(toFrame(1, plan.created_at, requested(task_id))), fold.isWaiting], [[], false])
  })

  it("for an account says so with its link, which is good now, and continues without its client", () => {
    const wait = { round: 1, agent: "bob", input: null, expires_at: deadline_at }
    const url = "https://gateway.test/old"
    const account = (task: TaskId | null): PlanEvent => ({
      event: "waiting",
      data: { ...wait, task_id: task, kind: "account", tool: task && "bob_ask", message: "Connect books", url }
    })
    const asked: PlanEvent = { event: "waiting", data: { ...wait, task_id: other_id, kind: "result", tool: "mine" } }
    const linkOf = (url: string) => url.replace("old", "new")
    const { fold, updates } = foldOf([account(null)], { fileOf: () => undefined, linkOf })
    assert.deepStrictEqual(
      updates.map((update) => update._tag === "Status" && [update.status.standing, update.weight]),
      [["auth-required", "change"]]
    )
    assert.deepStrictEqual([fold.isWaiting, fold.isAuthorizing, fold.asks], [true, true, []])
    const [text, data] = fold.task.status.message?.parts ?? []
    assert.deepStrictEqual(text, { _tag: "Text", text: "Connect books: https://gateway.test/new" })
    assert.strictEqual(data?._tag, "Data")
    if (data?._tag === "Data") assert.deepInclude(data.data, { kind: "account", url: "https://gateway.test/new" })
    const tell = (...events: ReadonlyArray<PlanEvent>) => {
      for (const event of events) fold.tell(event, 1)
      return fold.standing
    }
    assert.strictEqual(tell({ event: "step", data: { step: 1, attempt: 1 } }), "working")
    // Another call runs still.
    assert.strictEqual(tell(started(task_id), started(other_id), account(task_id)), "working")
    assert.strictEqual(tell(asked), "input-required")
    assert.isFalse(fold.isAuthorizing)
    assert.strictEqual(tell(finished(other_id, "completed")), "auth-required")
    assert.strictEqual(tell(finished(task_id, "completed")), "working")
    const hidden = foldOf([account(null)], { fileOf: () => undefined, linkOf: () => undefined }).fold
    assert.notInclude(JSON.stringify(hidden.task), "gateway.test")
  })

  it.each([
    ["input-required", "input-required"],
    ["payment-required", "input-required"],
    ["auth-required", "auth-required"]
  ] as const)("for a peer that has handed its call back as %s", (state, standing) => {
    const { fold } = foldOf([started(task_id), finished(task_id, state), ends])
    assert.isTrue(fold.hasEnded)
    assert.deepInclude(fold.end(completed("Which one?"), false).at(-1), { weight: "final" })
    assert.strictEqual(fold.standing, standing)
    assert.deepStrictEqual(fold.task.status.message?.parts, [{ _tag: "Text", text: "Which one?" }])
  })

  it("for nobody when its client has cancelled it", () => {
    const { fold } = foldOf([started(task_id), finished(task_id, "input-required"), ends])
    fold.end(completed("Which one?"), false)
    assert.deepInclude(fold.cancel("2026-01-02T03:06:00.000Z")[0], { weight: "final" })
    assert.deepInclude(fold.task.status, { standing: "canceled", timestamp: "2026-01-02T03:06:00.000Z" })
  })

  it("for nobody whose call was continued to its end", () => {
    const events = [
      started(task_id),
      finished(task_id, "input-required"),
      started(other_id),
      finished(other_id, "completed")
    ]
    const { fold } = foldOf(events)
    fold.end(completed("Done"), false)
    assert.strictEqual(fold.standing, "completed")
  })
})

describe("a chain of plans", () => {
  it("ends where its last plan does, has the question of each in its history, and one answer", () => {
    const { fold, updates } = foldOf([delta(1, 1, "Which one?"), ends])
    const between = fold.end(completed("Which one?"), true)
    assert.isEmpty(between.filter((update) => update._tag === "Status"))
    const begun = fold.begin({ plan: { ...plan, question: "That one" }, message: null, cancelled_at: null })
    assert.deepInclude(begun[0], { weight: "change" })
    const later = [delta(1, 1, "Then so"), ends].flatMap((event, index) =>
      fold.next(toFrame(index + 1, plan.created_at, event))
    )
    const end = fold.end(completed("Then so"), false)
    assert.strictEqual(textOf([...updates, ...between, ...begun, ...later, ...end]), "Then so")
    assert.deepInclude(end.at(-1), { weight: "final" })
    const said = fold.task.history.flatMap(({ parts }) => parts.map((part) => part._tag === "Text" && part.text))
    assert.deepStrictEqual(said, ["Why?", "That one"])
    assert.deepInclude(fold.task.history[0], { messageId: "m", metadata: { a: 1 } })
  })
})
