import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { empty } from "@bowline/domain/plan/Usage"
import { version } from "@bowline/protocol/api/Api"
import { toFrame } from "@bowline/runtime/unstable/store/EventRow"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { ChatChunks, type ChatOptions } from "../../../src/edge/openai/ChatChunks.ts"

const head = { plan_id: "plan_1", created: 7, model: "bowline" }
const plain: ChatOptions = { includesUsage: false, showsProgress: true, onRetract: "error" }

interface Chunk {
  readonly choices: ReadonlyArray<{ readonly delta: object; readonly finish_reason: string | null }>
  readonly usage?: object | null
  readonly error?: object
}

/** What the stream says: deltas, reasons to finish, usage, errors and `[DONE]`. */
const said = (text: string): ReadonlyArray<unknown> =>
  text
    .split("\n\n")
    .filter((line) => line !== "")
    .flatMap((line): ReadonlyArray<unknown> => {
      if (line === "data: [DONE]") return ["[DONE]"]
      const { choices = [], error, usage } = JSON.parse(line.replace(/^data: /, "")) as Partial<Chunk>
      if (error !== undefined) return [{ error }]
      if (choices.length === 0) return [{ usage }]
      return choices.map(({ delta, finish_reason }) => (finish_reason === null ? delta : { ...delta, finish_reason }))
    })

const run = (events: ReadonlyArray<PlanEvent>, options: Partial<ChatOptions> = {}) => {
  const chunks = new ChatChunks(head, { ...plain, ...options })
  const texts = events.map((event, index) => chunks.next(toFrame(index + 1, "2026-01-02T03:04:05.678Z", event)))
  return { chunks, texts, said: said(texts.join("")) }
}

const text = (delta: string, step = 1, attempt = 1): PlanEvent => ({
  event: "text.delta",
  data: { step, attempt, delta }
})
const retract = (step = 1, attempt = 1): PlanEvent => ({ event: "text.retract", data: { step, attempt } })
const step = (step: number): PlanEvent => ({ event: "step", data: { step, attempt: 1 } })
const task_id = TaskId.make("00000000-0000-4000-8000-000000000001")
const started: PlanEvent = {
  event: "task.started",
  data: {
    task_id,
    tool: "weather_forecast",
    kind: "peer",
    agent: "weather",
    skill: "forecast",
    agent_did: null,
    agent_did_source: null,
    input: {}
  }
}
const finished = (state: "completed" | "timed-out"): PlanEvent => ({
  event: "task.finished",
  data: { task_id, state, remote_task_id: null, remote_context_id: null, duration_ms: 1_249 }
})
const usage = { ...empty, input_tokens: 10, output_tokens: 4, cached_input_tokens: 3, reasoning_tokens: 1 }
const final = (stop_reason: "stop" | "loop" | "max_tokens" | "max_steps" | "pause" | "refusal" | "content_filter") =>
  ({
    event: "final",
    data: { stop_reason, text: "last", usage, steps: 1, tool_calls: 0, duration_ms: 5 }
  }) as const satisfies PlanEvent
const failed = (data: Partial<Extract<PlanEvent, { event: "error" }>["data"]>): PlanEvent => ({
  event: "error",
  data: { code: "internal", message: "why", retryable: false, stage: null, ...data }
})
const done: PlanEvent = { event: "done", data: {} }
const end = [{ finish_reason: "stop" }, "[DONE]"]

describe("the chunks of a plan", () => {
  it("begin with the role, and have the plan's id, the model and the version in each", () => {
    const { first } = new ChatChunks(head, plain)
    assert.deepStrictEqual(JSON.parse(first.replace("data: ", "")), {
      id: "chatcmpl-plan_1",
      object: "chat.completion.chunk",
      created: 7,
      model: "bowline",
      system_fingerprint: version,
      choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]
    })
    for (const chunk of run([text("a"), final("stop")])
      .texts.join("")
      .split("\n\n")
      .slice(0, 2)) {
      assert.include(chunk, first.slice(0, first.indexOf(`"choices"`)))
    }
  })

  it.each([
    [
      "deltas as they are",
      [step(1), text("a"), text("b"), final("stop"), done],
      {},
      [{ content: "a" }, { content: "b" }, ...end]
    ],
    [
      "a blank line between steps, and none where a step has no text",
      [step(1), text("a"), step(2), step(3), text("b", 3), text("c", 3), final("stop")],
      {},
      [{ content: "a" }, { content: "\n\nb" }, { content: "c" }, ...end]
    ],
    [
      "continuations of a step without a break",
      [text("a"), text("b", 1, 2), final("stop")],
      {},
      [{ content: "a" }, { content: "b" }, ...end]
    ],
    [
      "tools by their agents and skills",
      [started, finished("completed"), started, finished("timed-out"), final("stop")],
      {},
      [
        { reasoning_content: "→ weather.forecast …\n" },
        { reasoning_content: "✓ weather.forecast 1.2 s\n" },
        { reasoning_content: "→ weather.forecast …\n" },
        { reasoning_content: "✗ weather.forecast timed-out 1.2 s\n" },
        ...end
      ]
    ],
    [
      "no tools where the operator wants none",
      [started, finished("completed"), final("stop")],
      { showsProgress: false },
      end
    ],
    [
      "usage in a chunk of its own",
      [final("stop")],
      { includesUsage: true },
      [
        { finish_reason: "stop" },
        {
          usage: {
            prompt_tokens: 10,
            completion_tokens: 4,
            total_tokens: 14,
            prompt_tokens_details: { cached_tokens: 3 },
            completion_tokens_details: { reasoning_tokens: 1 }
          }
        },
        "[DONE]"
      ]
    ],
    [
      "an error behind text that is taken back, and nothing more",
      [text("a"), retract(), text("b", 1, 2), final("stop")],
      {},
      [
        { content: "a" },
        {
          error: {
            message: "The text so far is not part of the answer: ask again",
            type: "server_error",
            code: "text_retracted",
            param: null
          }
        }
      ]
    ],
    [
      "nothing of an attempt that is taken back before it showed text",
      [retract(), text("b", 1, 2), final("stop")],
      {},
      [{ content: "b" }, ...end]
    ],
    [
      "a new start behind text that is taken back",
      [text("a"), retract(), text("b", 1, 2), step(2), text("c", 2), final("stop")],
      { onRetract: "append" },
      [{ content: "a" }, { content: "\n\n⟲ starting over\n\n" }, { content: "b" }, { content: "\n\nc" }, ...end]
    ],
    [
      "no blank line behind a new start, also in the next step",
      [text("a"), retract(), step(2), text("b", 2), final("stop")],
      { onRetract: "append" },
      [{ content: "a" }, { content: "\n\n⟲ starting over\n\n" }, { content: "b" }, ...end]
    ],
    [
      "held text before the calls that the model makes with it",
      [text("a"), started, final("stop")],
      { onRetract: "hold" },
      [{ content: "a" }, { reasoning_content: "→ weather.forecast …\n" }, ...end]
    ],
    [
      "held text when the step's calls are made, or the plan ends, and never what is taken back",
      [
        text("x"),
        retract(),
        text("a", 1, 2),
        started,
        step(2),
        text("y", 2),
        retract(2),
        text("b", 2, 2),
        text("c", 2, 2),
        final("stop")
      ],
      { onRetract: "hold", showsProgress: false },
      [{ content: "a" }, { content: "\n\nbc" }, ...end]
    ],
    [
      "an error without a reason to finish and without [DONE]",
      [text("a"), failed({ code: "context_overflow" }), done],
      {},
      [
        { content: "a" },
        { error: { message: "why", type: "invalid_request_error", code: "context_length_exceeded", param: null } }
      ]
    ]
  ] as const)("have %s", (_, events, options, expected) => {
    assert.deepStrictEqual(run(events, options).said, [...expected])
  })

  it.each([
    ["stop", { finish_reason: "stop" }],
    ["pause", { finish_reason: "stop" }],
    ["max_steps", { finish_reason: "length" }],
    ["max_tokens", { finish_reason: "length" }],
    ["loop", { finish_reason: "length" }],
    ["content_filter", { finish_reason: "content_filter", refusal: "last" }],
    ["refusal", { finish_reason: "content_filter", refusal: "last" }]
  ] as const)("finish a plan that stopped with %s", (reason, expected) => {
    assert.deepStrictEqual(run([final(reason)]).said, [expected, "[DONE]"])
  })

  it("of a held answer come with no frame before they are good", () => {
    const { texts } = run([text("a"), text("b"), final("stop")], { onRetract: "hold" })
    assert.deepStrictEqual(texts.slice(0, 2), ["", ""])
  })

  it("end with an error when nobody can read the plan on, but not twice", () => {
    const { chunks } = run([text("a")])
    assert.deepInclude(said(chunks.fail("interrupted", "why"))[0], {
      error: { message: "why", type: "server_error", code: "interrupted", param: null }
    })
    assert.strictEqual(chunks.fail("interrupted", "why"), "")
    assert.strictEqual(run([final("stop")]).chunks.fail("interrupted", "why"), "")
  })
})
