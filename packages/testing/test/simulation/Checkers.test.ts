import { assert, describe, it } from "@effect/vitest"
import { check } from "../../src/simulation/check/Checkers.ts"
import type { Observed } from "../../src/simulation/Observed.ts"
import { events, framesOf, sound } from "./Sound.ts"

/** The run with its only member of a list changed, or the first one. */
const first =
  <Key extends "plans" | "sessions" | "readers" | "calls" | "attempts" | "replicas">(
    key: Key,
    change: (one: Observed[Key][number]) => Partial<Observed[Key][number]>
  ) =>
  (run: Observed): Observed => ({
    ...run,
    [key]: run[key].map((one, index) => (index === 0 ? { ...one, ...change(one) } : one))
  })

const frames = (change: (all: typeof events) => typeof events) =>
  first("plans", () => ({ frames: framesOf(change([...events])) }))

const plan = (change: (one: Observed["plans"][number]["plan"]) => object) =>
  first("plans", (one) => ({ plan: { ...one.plan, ...change(one.plan) } }))

const aborted = (reason: "disconnect" | "deadline" | "cancelled") => (run: Observed) => {
  const outcome = {
    state: "aborted",
    error: { code: "aborted", message: "", retryable: false, stage: null, reason }
  } as const
  const end = first("plans", (one) => ({
    plan: { ...one.plan, state: "aborted" as const, final: null, error: outcome.error },
    frames: framesOf([...events.slice(0, -2), { event: "error", data: outcome.error }, ...events.slice(-1)])
  }))
  return {
    ...end(run),
    readers: [],
    commits: run.commits.map((commit) => ({
      ...commit,
      changes: commit.changes.map((change) => (change._tag === "Settled" ? { ...change, outcome } : change))
    }))
  }
}

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
  ["a lease that is left", "oneEnd", (run) => ({ ...run, left: [{ what: "lease", replica: "a", detail: "s" }] })],
  [
    "an answer that the provider has not said",
    "trueEnd",
    (run) => ({
      ...run,
      attempts: run.attempts.map((attempt) => ({ ...attempt, said: "else" }))
    })
  ],
  ["a deadline before its time", "trueEnd", aborted("deadline")],
  ["a cancel that nobody asked for", "trueEnd", aborted("cancelled")],
  [
    "a disconnect of a plan that is read",
    "trueEnd",
    (run) => ({ ...aborted("disconnect")(run), readers: run.readers })
  ],
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
      readers: run.readers.map((one) => ({ ...one, ended: { at: -1_000, order: 3, how: "left" } }))
    })
  ],
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
    first("calls", () => ({ replica: "", ended: undefined, named: { at: 220, order: 22, replica: "a" } }))
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
    "a plan whose process is dead, and that nobody takes over",
    "inTime",
    (run) => ({
      ...first("replicas", () => ({ ended: { at: 300, order: 31, how: "killed" as const } }))(run),
      commits: run.commits.slice(0, 2)
    })
  ],
  [
    "a session that does not take the next question",
    "inTime",
    first("plans", (one) => ({
      isProbe: true,
      plan: { ...one.plan, state: "failed" as const }
    }))
  ],
  [
    "a credential that is put aside for another one's fault",
    "spending",
    (run) => ({
      ...run,
      attempts: run.attempts.map((attempt) => ({ ...attempt, result: "rate_limited" })),
      windows: [{ at: 110, order: 21, credential: "key-2", model: null, reason: "rate_limited", until: 30_000 }]
    })
  ],
  [
    "a credential that is put aside for what is nobody's fault",
    "spending",
    (run) => ({
      ...run,
      attempts: run.attempts.map((attempt) => ({ ...attempt, result: "server_error" })),
      windows: [{ at: 110, order: 21, credential: "key-1", model: null, reason: "server_error", until: 30_000 }]
    })
  ],
  ["usage that the stream does not tell", "spending", plan(() => ({ usage: sound.attempts[0]?.usage }))],
  ["usage that no provider has reported", "spending", first("attempts", () => ({ usage: undefined }))],
  [
    "more steps than allowed",
    "spending",
    first("plans", (one) => ({
      request: { ...one.request, preferences: { ...one.request.preferences, max_steps: 1 } }
    }))
  ],
  ["a plan that never ends", "liveness", plan(() => ({ state: "running" }))],
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

  for (const [what, rule, spoil] of violations) {
    it(`find ${what}`, () => {
      const found = check(spoil(sound)).map((violation) => violation.rule)
      assert.include(found, rule)
    })
  }
})
