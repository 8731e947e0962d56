import { assert, describe, it } from "vitest"
import type { Frame } from "../../src/Bowline.ts"
import * as UiChunks from "../../src/ai-sdk/UiChunks.ts"
import {
  artifact,
  error,
  final,
  finished,
  frame,
  plan,
  requested,
  resolved,
  retract,
  say,
  started,
  step,
  think,
  usage,
  waiting
} from "../ui/Frames.ts"

const none: ReadonlySet<string> = new Set()

const fold = (frames: ReadonlyArray<Frame>, behind: ReadonlyArray<string> = []): ReadonlyArray<unknown> => {
  const chunks = UiChunks.make({ decided: behind })
  return frames.flatMap((frame) => chunks.next(frame))
}

const start = {
  type: "start",
  messageId: "plan_1",
  messageMetadata: { planId: "plan_1", sessionId: "ses_1", model: "p/m" }
} as const
const text = (id: string, ...deltas: ReadonlyArray<string>) => [
  { type: "text-start", id },
  ...deltas.map((delta) => ({ type: "text-delta", id, delta })),
  { type: "text-end", id }
]
const own = (toolCallId: string) => ({ toolCallId, providerExecuted: true, dynamic: true })
const input = (id: string) => ({
  type: "tool-input-available",
  ...own(id),
  toolName: "rigger_ask",
  input: { input: "?" },
  title: "rigger.ask"
})
const finish = (finishReason: string, stopReason = "stop") => ({
  type: "finish",
  finishReason,
  messageMetadata: { stopReason, usage }
})
const request = [
  { type: "tool-input-available", ...own("t"), toolName: "rigger_ask", input: { input: "?" } },
  {
    type: "tool-approval-request",
    approvalId: "t",
    toolCallId: "t",
    reason: "skill",
    approvalDescriptor: { expiresAt: "2026-01-01T00:30:00.000Z" }
  }
]
const response = (approved: boolean, reason?: string) => ({
  type: "tool-approval-response",
  approvalId: "t",
  approved,
  ...(reason !== undefined && { reason }),
  providerExecuted: true
})

const cases: Readonly<Record<string, readonly [ReadonlyArray<Frame>, ReadonlyArray<unknown>]>> = {
  "show reasoning and text in parts of their own": [
    [plan, step(1), think("H"), think("m"), say("Hel"), say("lo"), final("Hello")],
    [
      start,
      { type: "start-step" },
      { type: "reasoning-start", id: "1.1" },
      { type: "reasoning-delta", id: "1.1", delta: "H" },
      { type: "reasoning-delta", id: "1.1", delta: "m" },
      { type: "reasoning-end", id: "1.1" },
      ...text("1.1", "Hel", "lo"),
      { type: "finish-step" },
      finish("stop")
    ]
  ],
  "take a retracted attempt back, and say what stays of the step again": [
    [plan, step(1), say("a"), say("b", 1, 2), retract(2), say("c", 1, 3), final("ac")],
    [
      start,
      { type: "start-step" },
      ...text("1.1", "a"),
      ...text("1.2", "b"),
      { type: "reset-step" },
      ...text("1.1", "a"),
      ...text("1.3", "c"),
      { type: "finish-step" },
      finish("stop")
    ]
  ],
  "take nothing back where nothing was shown": [
    [plan, step(1), retract(1), say("a", 1, 2), step(2), retract(2, 1), final("")],
    [
      start,
      { type: "start-step" },
      ...text("1.2", "a"),
      { type: "finish-step" },
      { type: "start-step" },
      { type: "finish-step" },
      finish("stop")
    ]
  ],
  "show a call, its progress, which ends with it, and all that it gave": [
    [
      plan,
      step(1),
      say("a"),
      started("t"),
      frame("task.progress", { task_id: "t", state: "working", message: "half" }),
      artifact("t", "1"),
      artifact("t", "2"),
      finished("t", "completed"),
      started("u"),
      artifact("u", "3"),
      finished("u", "completed"),
      step(2),
      final("")
    ],
    [
      start,
      { type: "start-step" },
      ...text("1.1", "a"),
      input("t"),
      { type: "data-task", id: "t", data: { state: "working", message: "half" } },
      { type: "data-task", id: "t", data: { state: "completed" } },
      { type: "tool-output-available", ...own("t"), output: ["1", "2"] },
      input("u"),
      { type: "tool-output-available", ...own("u"), output: "3" },
      { type: "finish-step" },
      { type: "start-step" },
      { type: "finish-step" },
      finish("stop")
    ]
  ],
  "show a call that fails with what went wrong": [
    [plan, started("t"), finished("t", "failed", "No rope"), started("u"), finished("u", "timed-out")],
    [
      start,
      input("t"),
      { type: "tool-output-error", ...own("t"), errorText: "No rope" },
      input("u"),
      { type: "tool-output-error", ...own("u"), errorText: "The call is timed-out" }
    ]
  ],
  "show an approved call once": [
    [plan, requested("t"), resolved("t", "approve"), started("t"), artifact("t", "1"), finished("t", "completed")],
    [start, ...request, response(true), { type: "tool-output-available", ...own("t"), output: "1" }]
  ],
  "show a rejected call as denied": [
    [plan, requested("t"), resolved("t", "reject", "No"), started("t"), finished("t", "rejected", "No")],
    [start, ...request, response(false, "No"), { type: "tool-output-denied", toolCallId: "t" }]
  ],
  "end a call that waits when its plan ends": [
    [plan, step(1), requested("t"), error("aborted", "deadline")],
    [
      start,
      { type: "start-step" },
      ...request,
      { type: "tool-output-error", ...own("t"), errorText: "The plan ended before the call was made" },
      { type: "finish-step" },
      { type: "abort", reason: "deadline" },
      { type: "error", errorText: "aborted: It is over" }
    ]
  ],
  "end a text that is cut off, and then with the error": [
    [plan, step(1), say("a"), error("provider_overloaded"), frame("done", {})],
    [
      start,
      { type: "start-step" },
      ...text("1.1", "a"),
      { type: "finish-step" },
      { type: "error", errorText: "provider_overloaded: It is over" }
    ]
  ],
  "end a plan that its caller cancels without an error": [
    [plan, error("aborted", "cancelled")],
    [start, { type: "abort", reason: "cancelled" }]
  ],
  "begin and end a plan that never ran": [
    [error("aborted", "deadline")],
    [
      { ...start, messageMetadata: { ...start.messageMetadata, model: null } },
      { type: "abort", reason: "deadline" },
      { type: "error", errorText: "aborted: It is over" }
    ]
  ],
  "say why an answer that was cut or refused has ended": [
    [plan, final("", "max_steps")],
    [start, finish("length", "max_steps")]
  ],
  "drop events of a later version": [
    [plan, { id: 2, event: "text.shout", data: { plan_id: "plan_1", session_id: "ses_1" } }, final("")],
    [start, finish("stop")]
  ]
}

describe("chunks of the AI SDK", () => {
  it.each(Object.entries(cases))("%s", (_, [frames, chunks]) => assert.deepStrictEqual(fold(frames), chunks))

  it("end at a pause only when nothing runs, and nothing comes behind it", () => {
    const chunks = UiChunks.make()
    const waits: Array<boolean> = []
    for (const frame of [plan, step(1), started("u"), requested("t"), finished("u", "completed")]) {
      chunks.next(frame)
      waits.push(chunks.waits(none))
    }
    assert.deepStrictEqual(waits, [false, false, false, false, true])
    assert.isFalse(chunks.waits(new Set("t")))
    assert.deepStrictEqual(chunks.pause(none), [
      { type: "finish-step" },
      { type: "finish", finishReason: "tool-calls" }
    ])
    assert.deepStrictEqual(chunks.next(resolved("t", "approve")), [])
    assert.deepStrictEqual(chunks.fail("interrupted", "Gone"), [])
  })

  it("go on behind the approvals that were decided, with the message that the client has", () => {
    const before = [plan, step(1), say("a"), requested("t")]
    const behind = [
      resolved("t", "approve"),
      started("t"),
      finished("t", "completed"),
      step(2),
      say("b", 2),
      final("b")
    ]
    assert.deepStrictEqual(fold([...before, ...behind], ["t"]), [
      start,
      { type: "tool-output-available", ...own("t"), output: null },
      { type: "finish-step" },
      { type: "start-step" },
      ...text("2.1", "b"),
      { type: "finish-step" },
      finish("stop")
    ])
    assert.deepStrictEqual(fold([...before, error("storage")], ["t", "u"]), [
      start,
      { type: "tool-output-error", ...own("t"), errorText: "The plan ended before the call was made" },
      { type: "finish-step" },
      { type: "error", errorText: "storage: It is over" }
    ])
  })

  it("end with an error where the gateway ends them", () => {
    const chunks = UiChunks.make()
    for (const frame of [plan, say("a")]) chunks.next(frame)
    assert.deepStrictEqual(chunks.fail("draining", "Down"), [
      { type: "text-end", id: "1.1" },
      { type: "error", errorText: "draining: Down" }
    ])
  })
})

describe("calls of the client's own tools", () => {
  const mine = { toolCallId: "mine", toolName: "rigger_ask", input: { input: "?" } }

  it("are waited for when all other calls of the step have ended, and not where their result is given", () => {
    const frames = [
      plan,
      step(1),
      started("mine", "client"),
      waiting("mine"),
      started("other"),
      finished("other", "completed")
    ]
    const [chunks, behind] = [UiChunks.make(), UiChunks.make({ given: ["mine"] })]
    const waits = frames.map((frame) => {
      chunks.next(frame)
      behind.next(frame)
      return [chunks.waits(none), behind.waits(none)]
    })
    assert.deepStrictEqual(
      waits,
      [false, false, false, true, false, true].map((isOpen) => [isOpen, false])
    )
    assert.deepStrictEqual(
      [chunks.waitsForDecision(none), chunks.pause(none).at(-1)],
      [false, { type: "finish", finishReason: "tool-calls" }]
    )
  })

  it("have the output that somebody else has given, and are no page's where they are refused", () => {
    const calls = [started("mine", "client"), waiting("mine"), artifact("mine", "red"), finished("mine", "completed")]
    assert.deepStrictEqual(fold([plan, step(1), ...calls]).slice(2), [
      { type: "tool-input-available", ...mine },
      { type: "tool-output-available", toolCallId: "mine", output: "red" }
    ])
    assert.deepStrictEqual(
      fold([plan, step(1), started("mine", "client"), finished("mine", "invalid", "No")]).slice(2),
      [
        { type: "tool-input-available", ...own("mine"), ...mine },
        { type: "tool-output-error", ...own("mine"), errorText: "No" }
      ]
    )
  })

  it("go on where they have waited, also behind their approval", () => {
    const frames = [plan, step(1), requested("mine"), resolved("mine", "approve"), started("mine", "client")]
    assert.deepStrictEqual(fold([...frames, waiting("mine")]).at(-1), {
      type: "tool-input-available",
      ...own("mine"),
      ...mine,
      providerExecuted: false
    })
    const chunks = UiChunks.make({ given: ["mine"] })
    const rest = [...frames, waiting("mine"), finished("mine", "completed"), step(2)].flatMap((frame) =>
      chunks.next(frame)
    )
    assert.deepStrictEqual(rest, [start, { type: "finish-step" }, { type: "start-step" }])
  })
})
