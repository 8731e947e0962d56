import { anonymous } from "@bowline/domain/caller/CallerName"
import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ClientTool, ForkTools, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { LocalTools, type Tool } from "@bowline/runtime/tool/LocalTools"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { referenceOf } from "@bowline/runtime/unstable/file/QuestionFiles"
import * as Forks from "@bowline/runtime/unstable/plan/Forks"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import * as PlanExport from "@bowline/runtime/unstable/record/PlanExport"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { PlanReading } from "@bowline/runtime/unstable/stream/PlanFollower"
import { inPlace, SchemaChecks } from "@bowline/runtime/unstable/tool/SchemaChecks"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import { cut, wait } from "../../src/http/Move.ts"
import { callTool, error, say, think, usage } from "../../src/provider/Turn.ts"
import { question, results, type Script } from "../../src/provider/Script.ts"
import { type PlanRecording, read, replay } from "../../src/replay/Replay.ts"
import * as Given from "../../src/store/Given.ts"
import * as TestKit from "../../src/TestKit.ts"

const look: Tool = {
  name: "look",
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description: "Looks",
  inputSchema: { type: "object", properties: { at: { type: "string" } }, required: ["at"] },
  timeoutMs: undefined,
  identify: Effect.succeed(null),
  isIdempotent: true,
  isPolling: false,
  approval: undefined,
  call: ({ input }) =>
    Effect.as(Effect.sleep(input["at"] === "slow" ? 2_000 : 500), {
      state: "completed",
      content: `Saw ${JSON.stringify(input["at"])}`
    })
}

interface Kind {
  readonly script: Script
  readonly asked: Omit<PlanRequest, "agents" | "mcp_servers" | "tools" | "history" | "metadata" | "preferences"> &
    Partial<PlanRequest>
  /** Said once so many of these events have come. */
  readonly says?: (task: TaskId) => NewEntry
  readonly at?: string
  /** Come with what is said. */
  readonly tools?: ReadonlyArray<ClientTool>
  readonly config?: NonNullable<Parameters<typeof TestKit.layer>[0]["config"]>
  readonly before?: string
  /** It is asked once for each of these, with what they bring. */
  readonly earlier?: ReadonlyArray<Partial<PlanRequest>>
  /** Its session is reverted to its first message, once the plan is over. */
  readonly isReverted?: boolean
  /** The question has this file. */
  readonly file?: string
  /** The question before has these files, of which the first is deleted then. */
  readonly gone?: ReadonlyArray<string>
  /** The plan is a fork of the one that is asked, from this step on. */
  readonly fork?: { readonly step: number; readonly tools: ForkTools }
}

const after =
  (count: number, turns: ReadonlyArray<ReturnType<typeof say>>, last: ReadonlyArray<ReturnType<typeof say>>): Script =>
  (asked) =>
    results(asked).length < count ? turns : last

const looks = (at: string) => callTool("look", { at })

const knots = { type: "json_schema", schema: { type: "object", required: ["knot"] } } as const

const kinds: Readonly<Record<string, Kind>> = {
  "answers in pieces": {
    script: [[think("Hm."), say("A bow"), wait("1 second"), say("line."), usage({ output_tokens: 3 })]],
    asked: { question: "Which?" }
  },
  "retries, and retracts": {
    script: [[say("Wrong"), cut], [error(429, {}, { "retry-after": "2" })], [say("Right.")]],
    asked: { question: "Which?" }
  },
  "fails for good": { script: [[error(400)]], asked: { question: "Which?" } },
  "calls tools side by side": {
    script: after(2, [say("Let me see. "), looks("slow"), looks("fast")], [say("Seen.")]),
    asked: { question: "Look!" }
  },
  "calls what there is not, and with what does not match": {
    script: after(2, [callTool("none", {}), callTool("look", { at: 7 })], [say("Nothing.")]),
    asked: { question: "Look!" }
  },
  "waits for an approval": {
    script: after(1, [callTool("look", { at: "far" })], [say("Seen.")]),
    asked: { question: "Look!", preferences: { approval: "always" } },
    at: "approval.requested",
    says: (task_id) => ({ type: "decision", task_id, decision: "approve", note: "Go" })
  },
  "hears a text while it works": {
    script: (asked) =>
      question(asked).includes("harbour")
        ? [say("In the harbour.")]
        : results(asked).length === 0
          ? [callTool("look", { at: "slow" })]
          : [say("Seen.")],
    asked: { question: "Look!" },
    at: "task.started",
    says: () => ({ type: "text", text: "Only the harbour.", when: "boundary", else: "ask" })
  },
  "waits for a tool of the client": {
    script: after(1, [callTool("mine", { a: 1 })], [say("Done.")]),
    asked: { question: "Mine?", tools: [{ name: "mine", input_schema: { type: "object" } }] },
    at: "waiting",
    says: (task_id) => ({ type: "result", task_id, content: "42" })
  },
  "waits until a time": {
    script: after(1, [callTool("wait", { until: "1970-01-01T00:00:20Z", why: "It opens then" })], [say("Open.")]),
    asked: { question: "Is it open?", preferences: { may_wait: true } }
  },
  "gets other tools from its client, with a result": {
    script: after(1, [callTool("mine", { a: 1 })], [say("Done.")]),
    asked: { question: "Mine?", tools: [{ name: "mine", input_schema: { type: "object" } }] },
    at: "waiting",
    says: (task_id) => ({ type: "result", task_id, content: "42" }),
    tools: [{ name: "yours", input_schema: { type: "object" } }]
  },
  "is parked while it waits for an approval, and rejected with the note of a wait that is over": {
    script: after(1, [callTool("look", { at: "far" })], [say("Seen.")]),
    asked: { question: "Look!", preferences: { approval: "always", on_disconnect: "continue" } },
    at: "parked",
    says: (task_id) => ({ type: "decision", task_id, decision: "reject", note: "expired" })
  },
  "has instructions and sampling of another protocol": {
    script: [[say("A bowline.")]],
    asked: { question: "Which?", instructions: "Be brief.", sampling: { temperature: 0.5 } }
  },
  "has nothing left of the budget of its day": {
    script: after(2, [callTool("look", { at: "far" }), callTool("look", { at: "near" })], [say("Seen.")]),
    asked: { question: "Look!" },
    config: { budgetOf: () => ({ tokens: 1_000_000, tool_calls: 1 }) }
  },
  "is approved with other arguments": {
    script: after(1, [callTool("look", { at: "far" })], [say("Seen.")]),
    asked: { question: "Look!", preferences: { approval: "always" } },
    at: "approval.requested",
    says: (task_id) => ({ type: "decision", task_id, decision: "approve", input: { at: "near" } })
  },
  "has a file in its question, which it looks at again": {
    script: after(1, [callTool("view_file", { file_id: "file_none" })], [say("Seen.")]),
    asked: { question: "What is this?" },
    file: "A bowline is a knot."
  },
  "goes on in a session": {
    script: (asked) => [say(`You asked ${question(asked)}`)],
    asked: { question: "And then?", session_id: "s" },
    before: "First?"
  },
  "goes on in a session of which a file was deleted": {
    script: (asked) => [say(`You asked ${question(asked)}`)],
    asked: { question: "And then?", session_id: "s" },
    before: "What is this?",
    gone: ["A bowline is a knot."]
  },
  "goes on in a session of which one of two files was deleted": {
    script: (asked) => [say(`You asked ${question(asked)}`)],
    asked: { question: "And then?", session_id: "s" },
    before: "What are these?",
    gone: ["A bowline is a knot.", "A hitch is another one."]
  },
  "goes on in a session with several summaries, which is reverted since then, and repairs its answer": {
    script: (asked) => [say(question(asked) === "And then?" ? "A bowline" : `{"knot":"bowline"}`)],
    asked: { question: "And then?", session_id: "s", preferences: { response_format: knots } },
    before: "First?",
    earlier: [{ prior_summary: "A bowline was tied." }, { prior_summary: "A sheet bend was tied." }],
    isReverted: true
  },
  "is a fork whose calls get what was recorded": {
    script: after(1, [callTool("look", { at: "far" })], [say("Seen.")]),
    asked: { question: "Look!" },
    fork: { step: 1, tools: "recorded" }
  },
  "is a fork from its second step on, with a call that is not on record": {
    script: (asked) =>
      results(asked).length < 2 ? [callTool("look", { at: `place ${results(asked).length}` })] : [say("Seen.")],
    asked: { question: "Look!", preferences: { max_steps: 2 } },
    fork: { step: 2, tools: "recorded" }
  },
  "is a fork that calls tools side by side": {
    script: after(
      3,
      [callTool("look", { at: "slow" }), callTool("look", { at: "fast" }), callTool("look", { at: "slow" })],
      [say("Seen.")]
    ),
    asked: { question: "Look!" },
    fork: { step: 1, tools: "recorded" }
  },
  "is a fork whose calls wait for a decision": {
    script: after(1, [callTool("look", { at: "far" })], [say("Seen.")]),
    asked: { question: "Look!" },
    fork: { step: 1, tools: "ask" },
    at: "approval.requested",
    says: (task_id) => ({ type: "decision", task_id, decision: "approve" })
  },
  "is a fork whose calls are made": {
    script: after(1, [callTool("look", { at: "far" })], [say("Seen.")]),
    asked: { question: "Look!" },
    fork: { step: 1, tools: "live" }
  },
  "summarises what was before": {
    script: (asked) => [
      say(
        asked.system.includes("ummar") && !question(asked).startsWith("And")
          ? "## Goal\nKnots\n## Facts\n- 7"
          : "Long ".repeat(50)
      )
    ],
    asked: { question: `And then? ${"more ".repeat(900)}`, session_id: "s" },
    before: "knots ".repeat(1_200),
    config: { contextWindow: 4_000 }
  }
}

/** Reads the plan to its end, and says to it what is to be said. */
const hearing = Effect.fnUntraced(function* (
  reading: PlanReading,
  { at, says, tools }: Pick<Kind, "at" | "says" | "tools">
) {
  const inbox = yield* Inbox
  const { plan_id } = reading
  let isSaid = false
  let task = yield* Given.newTask
  const hear = (frames: typeof reading.frames) =>
    Stream.runForEach(frames, (frame) => {
      if (typeof frame === "string") return Effect.void
      task = TaskId.make(/"task_id":"([^"]+)"/.exec(frame.payload)?.[1] ?? task)
      if (frame.event !== at || isSaid || says === undefined) return Effect.void
      isSaid = true
      return Effect.orDie(inbox.accept({ caller: anonymous, isAdmin: false }, plan_id, says(task), undefined, tools))
    })
  yield* hear(reading.frames)
  const { state } = yield* (yield* PlanStore).get(anonymous, plan_id)
  if (state === "waiting" || state === "running")
    yield* hear((yield* (yield* PlanStreams).read(anonymous, plan_id, 0)).frames)
  return plan_id
})

const post = (asked: unknown, kind: Pick<Kind, "at" | "says" | "tools"> = {}) =>
  Effect.flatMap(TestKit.post(asked), (reading) => hearing(reading, kind))

const readFork = Effect.fnUntraced(function* (first: PlanId, { fork, ...kind }: Kind) {
  const makeFork = yield* Forks.make
  const forked = yield* makeFork(anonymous, first, { ...fork, preferences: { max_steps: 25 } })
  return yield* hearing(yield* (yield* PlanStreams).start({ caller: anonymous, ...forked }), kind)
})

const knotFile = { name: "knot.txt", type: "text/plain" }

/** A question with files that its caller has uploaded. */
const withFiles = Effect.fnUntraced(function* (text: string, contents: ReadonlyArray<string>) {
  const files = yield* Files
  const stored = yield* Effect.forEach(contents, (content) =>
    files.upload({ caller: anonymous, said: () => knotFile, content: Stream.succeed(Buffer.from(content)) })
  )
  return { question_parts: [{ type: "text" as const, text }, ...stored.map(({ file }) => referenceOf(file))] }
})

/** Runs a plan of this kind, and gives its record as it is exported. */
const recorded = Effect.fnUntraced(function* (kind: Kind) {
  const { asked, before, config = {}, script } = kind
  return yield* Effect.gen(function* () {
    if (before !== undefined) {
      const parts = kind.gone === undefined ? undefined : yield* withFiles(before, kind.gone)
      for (const earlier of kind.earlier ?? [{}])
        yield* Effect.orDie(running(post({ question: before, session_id: "s", ...parts, ...earlier })))
      const [, file] = parts?.question_parts ?? []
      if (file !== undefined && "file_id" in file) yield* (yield* FileStore).delete(anonymous, file.file_id)
    }
    const parts = kind.file === undefined ? {} : yield* withFiles(asked.question, [kind.file])
    const first = yield* running(post({ ...asked, ...parts }, kind.fork === undefined ? kind : {}))
    const plan = kind.fork === undefined ? first : yield* running(readFork(first, kind))
    if (kind.isReverted === true) {
      const { session_id } = yield* (yield* SessionStore).find(anonymous, "s")
      const [first] = yield* (yield* SessionStore).history(session_id)
      yield* running((yield* Sessions).revert(anonymous, "s", first?.message_id ?? assert.fail()))
    }
    const [store, sessions] = [yield* PlanStore, yield* SessionStore]
    const stores = { store, sessions, inboxes: yield* InboxStore, files: yield* FileStore }
    const lines = yield* PlanExport.linesOf(stores, anonymous, plan)
    const [recording] = read(Buffer.from(lines.map((line) => JSON.stringify(line)).join("\n")))
    return recording ?? assert.fail()
  }).pipe(
    Effect.scoped,
    Effect.provide(
      TestKit.layer({ script, config, disturb: () => ({ isDurable: true }) }).pipe(
        Layer.provide([Layer.succeed(LocalTools, [look]), Layer.succeed(SchemaChecks, inPlace)])
      )
    )
  )
})

const running = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestKit.pass("40 seconds", "250 millis")
    return yield* Fiber.join(fiber)
  })

const replayed = (recording: PlanRecording) => Effect.promise(() => replay(recording))

describe("a plan that is run again", () => {
  it.effect.each(Object.entries(kinds))("is the same: it %s", ([, kind]) =>
    Effect.gen(function* () {
      const recording = yield* recorded(kind)
      assert.isAbove(recording.frames.length, 3)
      assert.deepStrictEqual(yield* replayed(recording), { _tag: "Same" })
    })
  )

  const kindOf = (name: string): Kind => kinds[name] ?? assert.fail(name)

  it.effect("is named at its first step where this version asks something else", () =>
    Effect.gen(function* () {
      const recording = yield* recorded(kindOf("calls tools side by side"))
      const other = (text: string) => text.replace('"description":"Looks"', '"description":"Looks far"')
      const texts = new Map(Array.from(recording.texts, ([digest, text]) => [digest, other(text)]))
      const changed = yield* replayed({ ...recording, texts })
      assert(changed._tag === "Different")
      assert.deepStrictEqual([changed.step, changed.what], [1, "prompt"])
      assert.deepStrictEqual(changed.recorded, recording.attempts[0]?.prompt)
    })
  )

  it.effect("is named where it makes other calls, obeys another limit, or ends otherwise", () =>
    Effect.gen(function* () {
      const recording = yield* recorded(kindOf("calls tools side by side"))
      const calls = recording.attempts.map((attempt) => ({
        ...attempt,
        parts: attempt.parts.filter(
          (part) => typeof part === "number" || part._tag !== "ToolCall" || !part.arguments.includes("fast")
        )
      }))
      const fewer = yield* replayed({ ...recording, attempts: calls })
      assert(fewer._tag === "Different")
      assert.deepStrictEqual([fewer.step, fewer.what], [1, "task.finished"])

      const retrying = yield* recorded(kindOf("retries, and retracts"))
      const texts = new Map(
        Array.from(retrying.texts, ([digest, text]) => [digest, text.replace('"max_retries":3', '"max_retries":1')])
      )
      const limited = yield* replayed({ ...retrying, texts })
      assert(limited._tag === "Different")
      assert.deepStrictEqual([limited.step, limited.what], [1, "error"])

      const frames = retrying.frames.map((frame) =>
        frame.event === "final" ? { ...frame, data: { ...frame.data, text: "Left." } } : frame
      )
      const ended = yield* replayed({ ...retrying, frames })
      assert(ended._tag === "Different")
      assert.strictEqual(ended.what, "final")
    })
  )

  it.effect("starts calls side by side in the order on record, and makes those that the model has made", () =>
    Effect.gen(function* () {
      const recording = yield* recorded(kindOf("calls tools side by side"))
      const starts = recording.frames.flatMap(({ event }, index) => (event === "task.started" ? [index] : []))
      const [first = 0, second = 0] = starts
      assert.lengthOf(starts, 2)
      const swapped = recording.frames.with(first, recording.frames[second] ?? assert.fail())
      const frames = swapped.with(second, recording.frames[first] ?? assert.fail())
      assert.deepStrictEqual(yield* replayed({ ...recording, frames }), { _tag: "Same" })

      const attempts = recording.attempts.map((attempt) => ({
        ...attempt,
        parts: attempt.parts.map((part) =>
          typeof part !== "number" && part._tag === "ToolCall"
            ? { ...part, arguments: part.arguments.replace(/slow|fast/, (at) => (at === "slow" ? "fast" : "slow")) }
            : part
        )
      }))
      const reversed = yield* replayed({ ...recording, attempts })
      assert(reversed._tag === "Different")
      assert.deepStrictEqual([reversed.step, reversed.what], [1, "task.started"])
    })
  )

  it.effect("depends on what is on record of its caller's budget", () =>
    Effect.gen(function* () {
      const recording = yield* recorded(kindOf("has nothing left of the budget of its day"))
      assert.isNotEmpty(recording.allowances)
      const lost = yield* replayed({ ...recording, allowances: [] })
      assert(lost._tag === "Different")
      assert.deepStrictEqual([lost.step, lost.what], [1, "call"])
    })
  )

  it.effect("is refused where the bytes of a file are others than those of its digest", () =>
    Effect.gen(function* () {
      const recording = yield* recorded(kindOf("has a file in its question, which it looks at again"))
      const part = recording.messages.flatMap(({ parts }) => parts).find(({ type }) => type === "file")
      assert(part?.type === "file" && "file_id" in part)
      const content = Buffer.from("A bowline is a knot.")
      const sha256 = createHash("sha256").update(content).digest("hex")
      const times = { created_at: recording.plan.created_at, expires_at: recording.plan.created_at }
      const file = { ...part, ...times, type: "file" as const, sha256, data: content.toString("base64") }
      assert.deepStrictEqual(yield* replayed({ ...recording, files: [file] }), { _tag: "Same" })
      const other = yield* replayed({ ...recording, files: [{ ...file, data: "AAAA" }] })
      assert.strictEqual(other._tag, "Impossible")
    })
  )

  it.effect("is refused where nobody can know which of many files were deleted before it", () =>
    Effect.gen(function* () {
      const gone = Array.from({ length: 5 }, (_, index) => `Knot ${index}`)
      const recording = yield* recorded({ ...kindOf("goes on in a session of which a file was deleted"), gone })
      assert.deepStrictEqual(yield* replayed(recording), { _tag: "Same" })
      // As the versions before have exported it.
      assert.match(JSON.stringify(yield* replayed({ ...recording, named: [] })), /Impossible.*which: knot\.txt/)
    })
  )

  it.effect("is refused where its record lacks what it depended on", () =>
    Effect.gen(function* () {
      const recording = yield* recorded(kindOf("answers in pieces"))
      const impossible = yield* replayed({ ...recording, begins: [] })
      assert.strictEqual(impossible._tag, "Impossible")
      assert.strictEqual((yield* replayed({ ...recording, texts: new Map() }))._tag, "Impossible")
    })
  )
})
