import { leftOut, unknownEffect } from "@bowline/runtime/unstable/provider/LegalHistory"
import { assert, describe, it } from "@effect/vitest"
import { check } from "../../src/simulation/check/Checkers.ts"
import { histories } from "../../src/simulation/check/Histories.ts"
import { streams } from "../../src/simulation/check/Streams.ts"
import type { Observed } from "../../src/simulation/scenario/Observed.ts"
import { sound } from "./Sound.ts"
import { first, frames, lastAttempt, plan, unfinished } from "./Spoil.ts"

/** The answer of an attempt that failed. */
const half = { event: "text.delta", data: { step: 2, attempt: 0, delta: "to" } } as const

const moving = {
  event: "task.progress",
  data: { task_id: sound.calls[0]?.task_id ?? ("" as never), state: "working" }
} as const

/** A run whose first prompt has a mark in place of what another plan has said, whose budget is this. */
const marked =
  (max_total_tokens: number, mark = leftOut) =>
  (run: Observed): Observed => {
    const said = { seq: 0, role: "user", plan_id: "before", parts: [fact] }
    const withSaid = first("sessions", ({ messages }) => ({
      messages: [said as never, ...messages],
      summary: { text: null, covered_seq: -1, priors: [], prior_seq: 0 }
    }))
    const withMark = first("attempts", ({ asked }) => ({
      asked: { ...asked, messages: [{ role: "user" as const, text: mark }, ...asked.messages] }
    }))
    const spoilt = withMark(withSaid(first("plans", () => ({ budget: { max_total_tokens } }))(run)))
    return { ...spoilt, attempts: spoilt.attempts.slice(0, 1) }
  }

/** Faults that were over before the run. */
const longAgo = [{ from: -90_000, to: -60_000 }]

const fact = { type: "text", text: "FACT-p9" } as const

const violations: ReadonlyArray<readonly [string, string, (run: Observed) => Observed]> = [
  [
    "a plan with two ends",
    "oneEnd",
    (run) => ({
      ...run,
      commits: [
        ...run.commits,
        ...run.commits.slice(-1).map((commit) => ({
          ...commit,
          order: 52,
          changes: commit.changes.map((change) => (change._tag === "Settled" ? { ...change, at: "later" } : change))
        }))
      ]
    })
  ],
  [
    "a write behind the end",
    "oneEnd",
    (run) => ({
      ...run,
      commits: [...run.commits, ...run.commits.slice(0, 1).map((commit) => ({ ...commit, order: 52 }))]
    })
  ],
  ["a stream without done", "oneEnd", frames((all) => all.slice(0, -1))],
  ["a call that runs on behind the end", "oneEnd", first("calls", () => ({ ended: { at: 700, order: 90 } }))],
  ...(["fiber", "socket", "timer", "lease", "task", "reader"] as const).map(
    (what) =>
      [
        `a ${what} that is left`,
        "oneEnd",
        (run: Observed) => ({ ...run, left: [{ what, replica: "a", detail: "" }] })
      ] as const
  ),
  [
    "a request to a provider that runs on behind the end",
    "oneEnd",
    first("attempts", () => ({ ended: { at: 700, order: 90 } }))
  ],
  ["a stream that ends otherwise than its plan", "oneEnd", plan(() => ({ state: "failed" }))],
  ["a stream that begins twice", "oneEnd", frames((all) => [...all.slice(0, 1), ...all])],
  [
    "a frame that is seen before it is stored",
    "streams",
    first("readers", (one) => ({
      frames: one.frames.map((frame) => ({ ...frame, order: frame.order - 20 }))
    }))
  ],
  [
    "a frame that is seen twice",
    "streams",
    first("readers", (one) => ({
      frames: [...one.frames.slice(0, 4), ...one.frames.slice(3)]
    }))
  ],
  ["a frame that is missing", "streams", first("readers", (one) => ({ frames: one.frames.slice(1) }))],
  [
    "a frame with other bytes",
    "streams",
    first("readers", (one) => ({
      frames: one.frames.map((seen) => ({ ...seen, frame: { ...seen.frame, payload: `${seen.frame.payload} ` } }))
    }))
  ],
  [
    "a connection that is silent",
    "readers",
    first("readers", () => ({ frames: [], ended: { at: 12_000, order: 80, how: "broken" as const } }))
  ],
  [
    "a plan that runs on without its last reader",
    "readers",
    (run) => ({
      ...first("plans", (one) => ({
        request: { ...one.request, preferences: { ...one.request.preferences, on_disconnect: "cancel" as const } }
      }))(run),
      requests: [],
      replicas: run.replicas.map((one) => ({ ...one, deaf: longAgo })),
      readers: run.readers.map((one) => ({ ...one, ended: { at: -1_000, order: 3, how: "left" } }))
    })
  ],
  ["a frame that is not stored", "streams", first("plans", ({ frames: all }) => ({ frames: all.toSpliced(3, 1) }))],
  [
    "a frame that is older than the one before",
    "streams",
    first("plans", ({ frames: all }) => ({
      frames: all.map((frame, index) => (index === 3 ? { ...frame, at: "2025-12-31T00:00:00.000Z" } : frame))
    }))
  ],
  ["an answer that repeats what was not retracted", "streams", frames((all) => all.toSpliced(7, 0, half))],
  [
    "a plan that runs on behind a caller that left before its answer",
    "readers",
    (run) => ({
      ...first("plans", (one) => ({
        request: { ...one.request, preferences: { ...one.request.preferences, on_disconnect: "cancel" as const } }
      }))(run),
      requests: run.requests.map((one) => ({ ...one, ended: { at: -1_000, order: 3 }, hasLeft: true })),
      readers: []
    })
  ],
  ["an answer that is not what was shown", "streams", frames((all) => all.filter((_, index) => index !== 8))],
  ["a task without an end", "calls", frames((all) => all.filter(({ event }) => event !== "task.finished"))],
  ["a task that goes on behind its end", "calls", frames((all) => all.toSpliced(6, 0, moving))],
  [
    "a task that is stored as running",
    "calls",
    first("plans", ({ tasks }) => ({ tasks: [...tasks, { task_id: "t", state: "running" }] as never }))
  ],
  [
    "two calls with one id",
    "calls",
    (run) => ({ ...run, calls: [...run.calls, ...run.calls.map((call) => ({ ...call, key: "else" }))] })
  ],
  ["a call that comes twice", "calls", (run) => ({ ...run, calls: [...run.calls, ...run.calls] })],
  [
    "one call with two ids",
    "calls",
    (run) => ({
      ...run,
      calls: [...run.calls, ...run.calls.map((call) => ({ ...call, isIdempotent: true, task_id: "else" as never }))]
    })
  ],
  ["a call before its intent", "calls", first("calls", () => ({ began: { at: 100, order: 11 } }))],
  ["a peer that is not told", "calls", first("calls", () => ({ replica: "", ended: undefined, remote_task_id: "r" }))],
  [
    "a peer that is not told, though it has named its task",
    "calls",
    (run) =>
      first("calls", () => ({ replica: "", ended: undefined, named: { at: 220, order: 22, replica: "a" } }))(
        unfinished(run)
      )
  ],
  [
    "a server that is not told of a lost connection",
    "calls",
    (run) => ({
      ...first("calls", () => ({ ended: undefined, named: { at: 220, order: 22, replica: "a" } }))(run),
      resets: [{ at: 250, order: 25, replica: "a", plan: "p0", call: "p0.0" }]
    })
  ],
  [
    "a result before its call",
    "histories",
    first("sessions", ({ messages }) => ({
      messages: [...messages.slice(0, 1), ...messages.slice(2)]
    }))
  ],
  ["a call without a result", "histories", first("sessions", ({ messages }) => ({ messages: messages.slice(0, 2) }))],
  [
    "two plans that interleave",
    "histories",
    first("sessions", ({ messages }) => ({
      messages: [...messages, { ...messages[3], seq: 5, plan_id: "other" }, { ...messages[3], seq: 6 }] as never
    }))
  ],
  [
    "a summary that lacks a fact",
    "histories",
    first("sessions", () => ({
      summary: { text: "FACT-p9", covered_seq: 1, priors: [], prior_seq: 0 }
    }))
  ],
  ["a prompt that lacks a fact", "histories", first("attempts", (one) => ({ asked: { ...one.asked, messages: [] } }))],
  [
    "a prompt that a provider refuses",
    "histories",
    lastAttempt(({ asked }) => ({ asked: { ...asked, messages: asked.messages.slice(0, -1) } }))
  ],
  [
    "a prompt that lacks a result that is known",
    "histories",
    lastAttempt(({ asked }) => ({
      asked: {
        ...asked,
        messages: asked.messages.map((message) =>
          message.role === "tool" ? { ...message, content: unknownEffect } : message
        )
      }
    }))
  ],
  [
    "messages that are out of order",
    "histories",
    first("sessions", ({ messages }) => ({ messages: messages.map((one, index) => ({ ...one, seq: 10 - index })) }))
  ],
  [
    "a prompt that lacks a fact, though the summary of another one has failed",
    "histories",
    (run) => ({
      ...first("sessions", ({ messages }) => ({
        messages: messages.map((one) => (one.seq === 1 ? { ...one, parts: [...one.parts, fact] } : one))
      }))(run),
      attempts: run.attempts.flatMap((one) => [
        { ...one, plan: "", began: { at: 0, order: 3 }, result: "server_error" },
        one
      ])
    })
  ],
  ["a mark in place of a fact, though the budget pays a summary", "histories", marked(100_000)],
  ["a prompt that lacks a fact, and has no mark", "histories", marked(1_000, "Well?")],
  [
    "a prompt that knows what comes later",
    "histories",
    first("attempts", (one) => ({
      asked: { ...one.asked, system: "FACT-p7" }
    }))
  ],
  [
    "a cut through a turn",
    "histories",
    (run) => ({
      ...run,
      commits: run.commits.map((commit) => ({
        ...commit,
        changes: [
          {
            _tag: "Compacted",
            compaction: {
              id: "c",
              summary: "",
              through: run.sessions[0]?.messages[1]?.message_id as never,
              covered_seq: 0,
              prior_seq: 0
            }
          }
        ]
      }))
    })
  ],
  ["an end behind the deadline", "inTime", first("plans", () => ({ deadline: -600 }))],
  [
    "an end later behind the deadline than the answer to a slow take-over was on its way",
    "inTime",
    (run) => ({
      ...first("plans", () => ({ deadline: -600 }))(run),
      replicas: run.replicas.map((one) => ({
        ...one,
        started: { at: -60_000, order: 0 },
        cutOff: [{ from: -40_010, to: -39_940 }]
      })),
      takeOvers: run.plans.map(({ plan: { plan_id } }) => ({
        at: -40_000,
        order: 0,
        replica: "b",
        plan_id,
        heard: -39_950
      }))
    })
  ],
  [
    "a cancel that comes late",
    "inTime",
    (run) => ({
      ...run,
      replicas: run.replicas.map((one) => ({ ...one, deaf: longAgo })),
      requests: run.requests.map((one) => ({ ...one, what: "cancel", began: { at: -1_000, order: 0.5 } }))
    })
  ],
  [
    "a plan whose process is dead, and that nobody takes over",
    "inTime",
    (run) => ({
      ...first("replicas", () => ({ ended: { at: 300, order: 31, how: "killed" as const } }))(run),
      commits: run.commits.slice(0, 2)
    })
  ],
  [
    "a cancel that does not reach its plan",
    "inTime",
    (run) => ({
      ...run,
      requests: [
        ...run.requests,
        ...run.requests.map((one) => ({ ...one, what: "cancel" as const, began: { at: -100, order: 0 } }))
      ]
    })
  ],
  ["a session that refuses the next question", "inTime", (run) => ({ ...run, probes: [...run.probes, "probe1"] })],
  [
    "a session that does not answer the next question",
    "inTime",
    first("plans", (one) => ({
      plan: { ...one.plan, state: "failed" as const }
    }))
  ],
  ["a plan that never ends", "liveness", plan(() => ({ state: "running" }))],
  ["a request to a provider that never ends", "liveness", first("attempts", () => ({ ended: undefined }))],
  ["a call that never ends", "liveness", first("calls", () => ({ ended: undefined }))],
  ["a stream that never ends", "liveness", first("readers", () => ({ ended: undefined }))],
  [
    "a request that is never answered",
    "liveness",
    (run) => ({
      ...run,
      requests: run.requests.map((request) => ({ ...request, ended: undefined }))
    })
  ]
]

describe("the checkers of a simulated run", () => {
  it("find nothing in a run in which nothing is wrong", () => {
    assert.deepStrictEqual(check(sound), [])
  })

  it("find nothing in an answer that repeats what was retracted", () => {
    const retracted = { event: "text.retract", data: { step: 2, attempt: 0 } } as const
    assert.deepStrictEqual(
      streams(frames((all) => all.toSpliced(7, 0, half, retracted))({ ...sound, readers: [] })),
      []
    )
  })

  it("find nothing in a mark in place of a fact, if the budget pays no summary", () => {
    assert.deepStrictEqual(histories(marked(1_000)(sound)), [])
  })

  for (const [what, rule, spoil] of violations) {
    it(`find ${what}`, () => {
      const found = check(spoil(sound)).map((violation) => violation.rule)
      assert.include(found, rule)
    })
  }
})
