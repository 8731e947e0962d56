import { assert, describe, it } from "@effect/vitest"
import type { AbortReason, StopReason } from "@bowline/domain/plan/Outcome"
import { trueEnd } from "../../src/simulation/check/TrueEnd.ts"
import { configOf } from "../../src/simulation/replica/Replica.ts"
import type { Observed } from "../../src/simulation/scenario/Observed.ts"
import { sound } from "./Sound.ts"
import { aborted, failed, first, lastAttempt, stopped } from "./Spoil.ts"

type Change = (run: Observed) => Observed

const request = (change: Partial<Observed["plans"][number]["request"]>) =>
  first("plans", (one) => ({ request: { ...one.request, ...change } }))

const preferences =
  (change: Observed["plans"][number]["request"]["preferences"]): Change =>
  (run) =>
    first("plans", (one) => ({
      request: { ...one.request, preferences: { ...one.request.preferences, ...change } }
    }))(run)

/** Replica b takes the plan over from a, which is dead, and ends it. */
const takenOver: Change = (run) => ({
  ...first("replicas", () => ({ ended: { at: 300, order: 31, how: "killed" as const } }))(run),
  takeOvers: run.plans.map(({ plan: { plan_id } }) => ({ at: 450, order: 45, replica: "b", plan_id, heard: 450 })),
  commits: run.commits.map((commit, index) => ({
    ...commit,
    replica: index === run.commits.length - 1 ? "b" : commit.replica,
    // Nobody knows how its call has ended.
    changes: commit.changes.filter(({ _tag }) => _tag !== "TaskFinished")
  }))
})

/** Its prompts say everything four times. */
const repeated: Change = (run) => ({
  ...run,
  attempts: run.attempts.map((one) => ({
    ...one,
    asked: {
      ...one.asked,
      messages: [...one.asked.messages, ...one.asked.messages, ...one.asked.messages, ...one.asked.messages]
    }
  }))
})

const longQuestion = first("sessions", ({ messages }) => ({
  messages: messages.map((message) => ({ ...message, parts: [{ type: "text" as const, text: "long ".repeat(800) }] }))
}))

const asked =
  (what: "cancel" | "drain"): Change =>
  (run) => ({
    ...run,
    requests: [...run.requests, ...run.requests.map((one) => ({ ...one, what, began: { at: 400, order: 40 } }))]
  })

const superseding: Change = (run) => ({
  ...run,
  plans: [
    ...run.plans,
    ...preferences({ on_busy: "interrupt" })(run).plans.map((one) => ({
      ...one,
      name: "p1",
      plan: { ...one.plan, plan_id: "plan_other" as never },
      created: { at: 400, order: 40 }
    }))
  ]
})

const aside =
  (reason: string): Change =>
  (run) => ({
    ...run,
    windows: ["scripted-1", "scripted-2"].map((credential) => ({
      at: 100,
      order: 20,
      credential,
      model: null,
      reason,
      until: 90_000
    }))
  })

const asksForCall = request({ call: { agent: "a", skill: "s", input: {} } })
const asksForJson = preferences({ response_format: { type: "json_schema", schema: {} } })
const failing: Change = (run) => ({
  ...run,
  commits: run.commits.map((commit) => ({
    ...commit,
    changes: commit.changes.map((change) => (change._tag === "TaskFinished" ? { ...change, state: "failed" } : change))
  }))
})

/** Replica a stands still for so long, while the store waits for it. */
const frozen = (ms: number) => first("replicas", () => ({ pauses: [{ from: 100 - ms, to: 100 }] }))

const needsServer = request({ mcp_servers: [{ name: "desk", url: "http://desk.test", required: true }] as never })
const serverAway = { fault: { _tag: "McpServer", at: 0, ms: 90, does: "silent" }, from: 0, to: 90 } as const

/** A code, and what has to have happened if a plan ends with it. */
const failures: ReadonlyArray<readonly [string, Change]> = [
  ["provider_rate_limited", lastAttempt(() => ({ result: "rate_limited" }))],
  ["provider_rate_limited", aside("rate_limited")],
  ["provider_rate_limited", aside("idle_timeout")],
  ["provider_auth", aside("auth")],
  ["provider_billing", aside("billing")],
  ["provider_model_unavailable", aside("model_unavailable")],
  ["provider_auth", lastAttempt(() => ({ result: "auth" }))],
  [
    "provider_transport",
    (run) => ({ ...run, attempts: [], resets: [{ at: 140, order: 14, replica: "a", plan: "p0", call: undefined }] })
  ],
  [
    "provider_transport",
    (run) => ({ ...run, resets: [{ at: 440, order: 44, replica: "a", plan: "p0", call: undefined }] })
  ],
  ["provider_idle_timeout", lastAttempt(() => ({ result: "cut", quiet: 120_000 }))],
  ["provider_attempt_timeout", (run) => ({ ...run, config: configOf({ attemptTimeout: 10 as never }) })],
  ["provider_empty_answer", lastAttempt(() => ({ said: "" }))],
  ["context_overflow", longQuestion],
  ["context_overflow", lastAttempt(() => ({ result: "context_overflow" }))],
  ["storage", (run) => ({ ...run, storeAway: [{ from: 100, to: 400 }] })],
  ["storage", frozen(30_000)],
  ["interrupted", takenOver],
  ["budget_exceeded", first("plans", () => ({ budget: { max_total_tokens: 1 } }))],
  ["budget_exceeded", (run) => ({ ...run, day: { tokens: 12, tool_calls: 9, lifted: undefined } })],
  ["loop_detected", repeated],
  ["output_invalid", asksForJson],
  ["tool_failed", (run) => failing(asksForCall(run))],
  ["mcp_unreachable", (run) => ({ ...needsServer(run), faults: [serverAway] })]
]

const aborts: ReadonlyArray<readonly [AbortReason, Change]> = [
  ["disconnect", preferences({ on_disconnect: "cancel" })],
  ["deadline", first("plans", () => ({ deadline: 400 }))],
  ["cancelled", asked("cancel")],
  ["superseded", superseding],
  ["shutdown", asked("drain")]
]

const finish = (reason: "length" | "content_filter" | "refusal" | "pause") => lastAttempt(() => ({ finish: reason }))

const stops: ReadonlyArray<readonly [StopReason, Change]> = [
  ["max_steps", first("plans", () => ({ budget: { max_steps: 2 } }))],
  ["max_tool_calls", first("plans", () => ({ budget: { max_tool_calls: 1 } }))],
  ["max_tool_calls", (run) => ({ ...run, day: { tokens: 1_000, tool_calls: 1, lifted: undefined } })],
  ["max_total_tokens", first("plans", () => ({ budget: { max_total_tokens: 12 } }))],
  ["max_total_tokens", (run) => ({ ...run, day: { tokens: 12, tool_calls: 9, lifted: undefined } })],
  ["max_tokens", finish("length")],
  ["content_filter", finish("content_filter")],
  ["refusal", finish("refusal")],
  ["pause", finish("pause")],
  ["loop", repeated]
]

const ends: ReadonlyArray<readonly [string, Change, Change]> = [
  ...failures.map(([code, cause]) => [code, failed(code), cause] as const),
  ...aborts.map(([reason, cause]) => [reason, aborted(reason), cause] as const),
  ...stops.map(([reason, cause]) => [reason, stopped(reason), cause] as const)
]

describe("the end of a plan", () => {
  for (const [name, end, cause] of ends) {
    it(`is not ${name} where nothing has happened that makes it so`, () => {
      assert.lengthOf(trueEnd(end(sound)), 1)
    })

    it(`may be ${name} where its cause has happened`, () => {
      assert.deepStrictEqual(trueEnd(end(cause(sound))), [])
    })
  }

  it("may be the disconnect of a slow reader, who learns behind the next frame that the network was reset", () => {
    const left = aborted("disconnect")(preferences({ on_disconnect: "cancel" })(sound))
    const broken = (readMs: number) =>
      sound.readers.map((one) => ({
        ...one,
        readMs,
        frames: [],
        ended: { at: 718, order: 99, how: "broken" as const }
      }))
    assert.deepStrictEqual(trueEnd({ ...left, readers: broken(383) }), [])
    assert.lengthOf(trueEnd({ ...left, readers: broken(1) }), 1)
  })

  for (const code of ["internal", "hops_exceeded", "provider_unknown", "provider_bad_request"]) {
    it(`is never ${code} in a world that does not cause it`, () => {
      assert.lengthOf(trueEnd(failed(code)(sound)), 1)
    })
  }

  for (const [what, spoil] of [
    ["an answer that the provider has not said", lastAttempt(() => ({ said: "else" }))],
    ["the failure of a call that was completed", (run: Observed) => failed("tool_failed")(asksForCall(run))],
    ["the absence of a server that was there", (run: Observed) => failed("mcp_unreachable")(needsServer(run))],
    [
      "JSON that is none",
      (run: Observed) => failed("output_invalid")(lastAttempt(() => ({ said: "{}" }))(asksForJson(run)))
    ],
    [
      "a store that was there, though its process was frozen for a while",
      (run: Observed) => failed("storage")(frozen(29_000)(run))
    ],
    ["an answer that another process has got", lastAttempt(() => ({ replica: "b" }))],
    ["an answer of which the provider has said less", lastAttempt(() => ({ finish: "length" }))],
    [
      "the disconnect of a reader that is there",
      (run: Observed) => ({
        ...aborted("disconnect")(preferences({ on_disconnect: "cancel" })(run)),
        readers: run.readers
      })
    ],
    [
      "a provider's failure that was another plan's",
      (run: Observed) =>
        failed("provider_auth")({
          ...run,
          attempts: [...run.attempts, ...run.attempts.map((one) => ({ ...one, plan: "p1", result: "auth" }))]
        })
    ],
    [
      "the refusal of a key that was asked to wait only",
      (run: Observed) => failed("provider_auth")(aside("rate_limited")(run))
    ],
    [
      "the storm of long ago",
      (run: Observed) => failed("provider_rate_limited")(first("attempts", () => ({ result: "rate_limited" }))(run))
    ],
    [
      "a newer plan, which it was itself",
      (run: Observed) => {
        const both = superseding(run)
        return aborted("superseded")({
          ...both,
          plans: both.plans.map((one) => ({ ...one, created: { at: 0, order: one.name === "p1" ? 0 : 1 } }))
        })
      }
    ]
  ] as const) {
    it(`is not ${what}`, () => {
      assert.lengthOf(trueEnd(spoil(sound)), 1)
    })
  }
})
