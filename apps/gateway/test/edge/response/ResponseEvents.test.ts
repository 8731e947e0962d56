import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import { toFrame } from "@bowline/runtime/unstable/store/EventRow"
import { assert, describe, it } from "@effect/vitest"
import { ResponseStream } from "openai/lib/responses/ResponseStream"
import type { Item } from "../../../src/edge/response/ResponseItems.ts"
import { ResponseEvents } from "../../../src/edge/response/ResponseEvents.ts"
import {
  approved,
  artifact,
  begin,
  called,
  echo,
  failed,
  final,
  finished,
  planned,
  queued,
  requested,
  retract,
  say,
  session,
  started,
  step,
  task_id,
  think,
  used
} from "./ToldEvents.ts"

const uuid = "00000000-0000-4000-8000-00000000000a"
const plan = PlanId.make(`plan_${uuid}`)
interface Sent {
  readonly type: string
  readonly sequence_number: number
  readonly [field: string]: unknown
}

const run = (events: ReadonlyArray<PlanEvent>, leg = 1) => {
  const fold = new ResponseEvents({ plan_id: plan, leg }, echo)
  const frames = events.map((event, index) => toFrame(index + 1, "2026-01-02T03:04:05.678Z", event))
  const sent = frames.flatMap((frame) => fold.next(frame)) as unknown as ReadonlyArray<Sent>
  return { fold, sent }
}

/** The types of the events, with what tells the story: text, and how an item ends. */
const told = (sent: ReadonlyArray<Sent>) =>
  sent.map(({ delta, item, type }) => {
    const name = type.replace("response.", "")
    if (typeof delta === "string") return `${name} ${delta}`
    if (typeof item !== "object" || item === null) return name
    const { id, status } = item as { readonly id: string; readonly status?: string }
    const [kind = "", , index = ""] = id.split("_")
    return [name, kind + (index.length === 1 ? index : ""), ...(status === undefined ? [] : [status])].join(" ")
  })

/** What the official client makes of the events. */
const assembled = (sent: ReadonlyArray<Sent>) =>
  ResponseStream.fromReadableStream(
    new ReadableStream({
      start(controller) {
        for (const event of sent) controller.enqueue(Buffer.from(`${JSON.stringify(event)}\n`))
        controller.close()
      }
    })
  ).finalResponse()

const lifecycle = ["created", "in_progress"]
const message = (index: number, ...deltas: ReadonlyArray<string>) => [
  `output_item.added msg${index} in_progress`,
  "content_part.added",
  ...deltas.map((delta) => `output_text.delta ${delta}`)
]
const messageEnd = (index: number, status = "completed") => [
  "output_text.done",
  "content_part.done",
  `output_item.done msg${index} ${status}`
]
const thought = (index: number, status: string, ...deltas: ReadonlyArray<string>) => [
  `output_item.added rs${index} in_progress`,
  "reasoning_summary_part.added",
  ...deltas.map((delta) => `reasoning_summary_text.delta ${delta}`),
  "reasoning_summary_text.done",
  "reasoning_summary_part.done",
  `output_item.done rs${index} ${status}`
]
const call = (end: "completed" | "failed") => [
  "output_item.added mcp in_progress",
  "mcp_call.in_progress",
  `mcp_call_arguments.delta {"city":"Kiel"}`,
  "mcp_call_arguments.done",
  `mcp_call.${end}`,
  `output_item.done mcp ${end}`
]

type Row = readonly [
  title: string,
  events: ReadonlyArray<PlanEvent>,
  told: ReadonlyArray<string>,
  output: Array<string | undefined>
]

const rows: ReadonlyArray<Row> = [
  [
    "deltas of one message",
    [...begin, step(1), say("a"), say("b"), used, final()],
    [...lifecycle, ...message(0, "a", "b"), ...messageEnd(0), "completed"],
    ["ab"]
  ],
  [
    "that the plan waits, once",
    [session, queued, queued, planned, step(1), final()],
    ["created", "queued", "in_progress", "completed"],
    []
  ],
  [
    "reasoning, which ends where the text begins",
    [...begin, step(1), think("x"), think("y"), say("a"), final()],
    [...lifecycle, ...thought(0, "completed", "x", "y"), ...message(1, "a"), ...messageEnd(1), "completed"],
    ["rs xy", "a"]
  ],
  [
    "a message for each step, with the calls between them",
    [
      ...begin,
      step(1),
      say("I look."),
      started,
      artifact("rain"),
      artifact({ mm: 7 }),
      finished(),
      step(2),
      say("b", 2),
      final()
    ],
    [
      ...lifecycle,
      ...message(0, "I look."),
      ...messageEnd(0),
      ...call("completed"),
      ...message(2, "b"),
      ...messageEnd(2),
      "completed"
    ],
    ["I look.", `mcp rain\n\n{"mm":7}`, "b"]
  ],
  [
    "a call that fails",
    [...begin, step(1), started, finished({ code: "timeout", message: "too late" }), step(2), final()],
    [...lifecycle, ...call("failed"), "completed"],
    ["mcp null"]
  ],
  [
    "text that is taken back as an incomplete message, which the response does not have",
    [...begin, step(1), think("x"), say("bad"), retract(1), say("good", 1, 2), final()],
    [
      ...lifecycle,
      ...thought(0, "completed", "x"),
      ...message(1, "bad"),
      ...messageEnd(1, "incomplete"),
      ...message(2, "good"),
      ...messageEnd(2),
      "completed"
    ],
    ["good"]
  ],
  [
    "reasoning that is taken back while it comes",
    [...begin, step(1), think("x"), retract(1), think("y", 1, 2), final()],
    [...lifecycle, ...thought(0, "incomplete", "x"), ...thought(1, "completed", "y"), "completed"],
    ["rs y"]
  ],
  [
    "what an earlier attempt gave again, where the next one is taken back",
    [...begin, step(1), say("one "), say("bad", 1, 2), retract(2), say("two", 1, 3), final()],
    [
      ...lifecycle,
      ...message(0, "one ", "bad"),
      ...messageEnd(0, "incomplete"),
      ...message(1, "one two"),
      ...messageEnd(1),
      "completed"
    ],
    ["one two"]
  ],
  [
    "what an earlier attempt gave again, where nothing follows",
    [...begin, step(1), say("one "), say("bad", 1, 2), retract(2), step(2), say("x", 2), final()],
    [
      ...lifecycle,
      ...message(0, "one ", "bad"),
      ...messageEnd(0, "incomplete"),
      ...message(1, "one "),
      ...messageEnd(1),
      ...message(2, "x"),
      ...messageEnd(2),
      "completed"
    ],
    ["one ", "x"]
  ],
  [
    "an approval, and the call that follows it",
    [...begin, step(1), say("May I?"), requested("weather_forecast"), started, finished(), step(2), final()],
    [
      ...lifecycle,
      ...message(0, "May I?"),
      ...messageEnd(0),
      "output_item.added mcpr",
      "output_item.done mcpr",
      ...call("completed"),
      "completed"
    ],
    ["May I?", "mcpr", "mcp "]
  ]
]

const textOf = (parts: ReadonlyArray<object>) => parts.map((part) => (part as { readonly text: string }).text).join("")

const outputOf = (output: ReadonlyArray<Item>) =>
  output.map((item) => {
    const [kind] = item.id.split("_")
    if (item.type === "message") return textOf(item.content)
    if (item.type === "reasoning") return `${kind} ${textOf(item.summary)}`
    return item.type === "mcp_call" ? `${kind} ${item.output}` : kind
  })

describe("the events of a response", () => {
  it.each(rows)("tell %s", async (_, events, expected, output) => {
    const { fold, sent } = run(events)
    assert.deepStrictEqual(told(sent), expected)
    assert.deepStrictEqual(outputOf(fold.response.output), output)
    assert.deepStrictEqual(
      sent.map(({ sequence_number }) => sequence_number),
      sent.map((_, index) => index)
    )
    const last = await assembled(sent)
    assert.deepStrictEqual(
      last.output.map(({ id }) => id),
      fold.response.output.map(({ id }) => id)
    )
  })

  it("are the same at every cut, and so is the response", () => {
    for (const [, events] of rows) {
      const whole = run(events)
      for (let cut = 0; cut <= events.length; cut++) {
        const { fold, sent } = run(events.slice(0, cut))
        assert.deepStrictEqual(sent, whole.sent.slice(0, fold.last + 1))
      }
    }
  })

  it("show text in a response that still runs", () => {
    const { fold } = run([...begin, step(1), think("x"), say("half")])
    const { output, status } = fold.response
    assert.strictEqual(status, "in_progress")
    assert.deepStrictEqual(outputOf(output), ["rs x", "half"])
    assert.deepNestedInclude({ output }, { "output[1].status": "in_progress" })
  })

  it("name the agent and the skill of a call, and its approval request", () => {
    const { fold } = run([...begin, step(1), requested("weather_station_read"), started])
    const [request, made] = fold.response.output
    assert.deepStrictEqual(request, {
      id: `mcpr_${uuid}_${task_id}`,
      type: "mcp_approval_request",
      server_label: "weather_station",
      name: "read",
      arguments: `{"a":1}`
    })
    assert.deepStrictEqual(made, {
      id: `mcp_${task_id}`,
      type: "mcp_call",
      server_label: "weather",
      name: "forecast",
      arguments: `{"city":"Kiel"}`,
      status: "in_progress",
      output: null,
      error: null,
      approval_request_id: `mcpr_${uuid}_${task_id}`
    })
  })

  it("of a response behind a decision leave out what the earlier one has shown, and count from 0", async () => {
    const events = [
      ...begin,
      step(1),
      say("May I?"),
      requested("weather_forecast"),
      approved,
      started,
      finished(),
      step(2),
      say("b", 2),
      final()
    ]
    assert.strictEqual(run(events).fold.legBehind([task_id]), 2)
    const { fold, sent } = run(events, 2)
    assert.deepStrictEqual(told(sent), [
      ...lifecycle,
      ...call("completed"),
      ...message(3, "b"),
      ...messageEnd(3),
      "completed"
    ])
    assert.deepStrictEqual(
      sent.map(({ sequence_number }) => sequence_number),
      sent.map((_, index) => index)
    )
    assert.deepInclude(fold.response, { id: `resp_${plan}_2`, previous_response_id: `resp_${plan}` })
    const { output } = await assembled(sent)
    assert.deepStrictEqual(
      output.map(({ id }) => id),
      fold.response.output.map(({ id }) => id)
    )
    assert.deepStrictEqual(outputOf(fold.response.output), ["mcp ", "b"])
  })

  it("end where the plan waits for the client: what follows its result is another response", () => {
    const rest = [finished(), step(2), used, say("b", 2), final()]
    const events = [...begin, step(1), say("a"), used, ...called]
    const first = run([...events, ...rest])
    assert.deepNestedInclude(first.fold.response, {
      "output[1].call_id": `call_${task_id}`,
      "output[1].name": "pick",
      "output[1].arguments": "{}",
      "output[1].status": "completed"
    })
    assert.deepNestedInclude(first.fold.response, { status: "completed", "usage.total_tokens": 14 })
    assert.deepStrictEqual(outputOf(first.fold.response.output), ["a", "fc"])
    assert.strictEqual(first.sent.at(-1)?.type, "response.completed")

    // As its client has seen it before the result.
    const live = run(events)
    assert.isTrue(live.fold.waitsForResults(new Set()))
    assert.deepStrictEqual([...live.sent, ...live.fold.call()] as unknown, first.sent)

    const second = run([...events, ...rest], 2)
    assert.strictEqual(second.fold.response.id, `resp_${plan}_2`)
    assert.deepNestedInclude(second.fold.response, { status: "completed", "usage.total_tokens": 14 })
    assert.deepStrictEqual(outputOf(second.fold.response.output), ["b"])
    assert.isFalse(run([...events, ...rest], 3).fold.exists)
  })

  it("mark text before calls as commentary, and the last text as the answer", () => {
    const { fold } = run([...begin, step(1), say("I look."), started, finished(), step(2), say("b", 2), final()])
    const phases = fold.response.output.map((item) => (item.type === "message" ? item.phase : undefined))
    assert.deepStrictEqual(phases, ["commentary", undefined, "final_answer"])
  })

  it.each([
    [final(), "completed", "completed", null, null],
    [final("pause"), "completed", "completed", null, null],
    [final("max_tokens"), "incomplete", "incomplete", "max_output_tokens", null],
    [final("loop"), "incomplete", "incomplete", "max_output_tokens", null],
    [final("max_steps"), "incomplete", "incomplete", "max_output_tokens", null],
    [final("refusal"), "incomplete", "incomplete", "content_filter", null],
    [final("content_filter"), "incomplete", "incomplete", "content_filter", null],
    [failed(), "failed", "failed", null, "internal"],
    [failed({ code: "context_overflow" }), "failed", "failed", null, "context_length_exceeded"],
    [failed({ code: "aborted", reason: "deadline" }), "failed", "failed", null, "aborted"],
    [failed({ code: "aborted", reason: "shutdown" }), "failed", "failed", null, "aborted"],
    [failed({ code: "aborted", reason: "cancelled" }), "failed", "cancelled", null, "aborted"],
    [failed({ code: "aborted", reason: "disconnect" }), "failed", "cancelled", null, "aborted"],
    [failed({ code: "aborted", reason: "superseded" }), "failed", "cancelled", null, "aborted"]
  ] as const)("end once, as the plan does: %#", (end, type, status, reason, code) => {
    const { fold, sent } = run([...begin, step(1), used, say("text"), end, { event: "done", data: {} }, say("late")])
    assert.strictEqual(sent.at(-1)?.type, `response.${type}`)
    assert.deepStrictEqual(sent.at(-1)?.["response"], fold.response)
    const { error, incomplete_details, output, usage: total, ...response } = fold.response
    assert.strictEqual(response.status, status)
    assert.deepStrictEqual(incomplete_details, reason === null ? null : { reason })
    assert.deepStrictEqual(error, code === null ? null : { code, message: "why" })
    assert.deepStrictEqual<unknown>(total, {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 3 },
      output_tokens: 4,
      output_tokens_details: { reasoning_tokens: 1 },
      total_tokens: 14
    })
    assert.deepNestedInclude({ output }, { "output[0].status": code === null ? "completed" : "incomplete" })
    assert.strictEqual(response.completed_at, status === "completed" ? 102 : null)
  })

  it("repeat the request in the response, but not its input", () => {
    const { response } = run(begin).fold
    assert.deepInclude(response, {
      id: `resp_${plan}`,
      object: "response",
      created_at: 100,
      model: "bowline",
      instructions: "Say it.",
      metadata: { k: "v" },
      store: true
    })
    for (const hidden of ["input", "labels", "type"]) assert.notProperty(response, hidden)
  })
})
