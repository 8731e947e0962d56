import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { assert, describe, it } from "@effect/vitest"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { check } from "../../src/simulation/check/Checkers.ts"
import type { Observed } from "../../src/simulation/scenario/Observed.ts"
import * as Given from "../../src/store/Given.ts"
import { events, framesOf, gistOf, sound } from "./Sound.ts"
import { first, frames } from "./Spoil.ts"

const task_id = sound.calls[0]?.task_id ?? ("" as never)

const artifact = {
  event: "task.artifact",
  data: { task_id, content: "did p0.0", media_type: "text/plain", truncated: false }
} as const
const resolved = { event: "approval.resolved", data: { task_id, decision: "reject", by: anonymous, at: "" } } as const
const requested = {
  event: "approval.requested",
  data: { task_id, tool: "ask", agent: null, input: {}, expires_at: "2026-01-01T00:01:00.000Z", why: "always" }
} as const
const readResult = { type: "tool_result", task_id, state: "completed", content: "did p0.0" } as const

const asksAlways = first("plans", ({ request }) => ({
  request: { ...request, preferences: { ...request.preferences, approval: "always" as const } }
}))

/** The call waits for a decision in front of its start. */
const waiting = (run: Observed): Observed => {
  const tool = { tool: "ask", agent: null, input: {}, why: "always", tool_digest: null, known_tool: null } as const
  const requested = Given.waitOpened(task_id, tool)
  return {
    ...run,
    commits: run.commits.map((one, index) => (index === 0 ? { ...one, changes: [requested, ...one.changes] } : one))
  }
}

const decided =
  (asked: "approve" | "reject", order = 15) =>
  (run: Observed): Observed => ({ ...run, decisions: [{ at: 150, order, task_id, asked, stands: asked }] })

type Finished = Extract<Observed["commits"][number]["changes"][number], { readonly _tag: "TaskFinished" }>

/** The call ends otherwise. */
const finishes =
  (end: Partial<Finished>) =>
  (run: Observed): Observed => ({
    ...run,
    commits: run.commits.map((commit) => ({
      ...commit,
      changes: commit.changes.map((change) => (change._tag === "TaskFinished" ? { ...change, ...end } : change))
    }))
  })

/** Something was wrong with a peer, but not with this call. */
const struck = (run: Observed): Observed => ({
  ...run,
  faults: [{ fault: { _tag: "Peer", key: "p0.9", does: { _tag: "Refuse", status: 503 } }, from: 0, to: Infinity }]
})

/** The plan ends a minute later. */
const longWaiting = (run: Observed): Observed => ({
  ...run,
  commits: run.commits.map((one) => (one.order > 15 ? { ...one, at: one.at + 60_000 } : one))
})

/** The stream tells that the call waits, and then this; what the plan has come to stands on its row while it waits, if it is resolved later. */
const asking =
  (then: ReadonlyArray<typeof resolved>) =>
  (run: Observed): Observed => {
    const all = [...events.slice(0, 3), requested, ...then, ...events.slice(3)]
    const summed = then.length === 0 ? [] : [PlanGist.summed(PlanGist.add(PlanGist.upTo(0), all.slice(0, 4), ""))]
    const place = { 0: [2, 4], 1: [5, 6] } as Readonly<Record<number, readonly [number, number]>>
    return {
      ...first("plans", () => ({ frames: framesOf(all), gist: gistOf(all) }))(run),
      commits: run.commits.slice(0, 2).map((one, index) => {
        const [first, last] = place[index] ?? [0, 0]
        return { ...one, events: { first, last }, changes: index === 0 ? summed : [] }
      })
    }
  }

/** A peer has named the task of the call, and b takes its plan over, and ends the call so many milliseconds later. */
const resumed =
  (ms: number) =>
  (run: Observed): Observed => ({
    ...first("plans", () => ({ toolTimeoutMs: 20_000 }))(run),
    takeOvers: run.plans.map(({ plan: { plan_id } }) => ({
      at: 18_000,
      order: 30,
      replica: "b",
      plan_id,
      heard: 18_000
    })),
    commits: run.commits.map((one) => {
      if (one.order === 20) {
        const accepted = { _tag: "TaskAccepted", task_id, remote_task_id: "r", remote_context_id: null } as const
        return { ...one, changes: [...one.changes, accepted] }
      }
      return one.order > 20 ? { ...one, at: 18_000 + ms } : one
    })
  })

const violations: ReadonlyArray<readonly [string, string, (run: Observed) => Observed]> = [
  ["a call that nobody was asked to approve", "approvals", asksAlways],
  ["a call before anybody has decided", "approvals", waiting],
  ["a call that was rejected", "approvals", (run) => decided("reject")(waiting(run))],
  ["a call that was approved too late", "approvals", (run) => decided("approve", 25)(waiting(run))],
  [
    "a second decision that stands",
    "approvals",
    (run) => {
      const { decisions, ...rest } = decided("approve")(waiting(run))
      return { ...rest, decisions: [...decisions, ...decisions.map((one) => ({ ...one, stands: "reject" as const }))] }
    }
  ],
  [
    "a decision that is told otherwise",
    "approvals",
    (run) => decided("approve")(frames((all) => all.toSpliced(4, 0, resolved))(run))
  ],
  ["a decision that its plan never hears of", "approvals", (run) => longWaiting(decided("approve")(waiting(run)))],
  [
    "a row that tells another text than its events",
    "gists",
    first("plans", ({ frames: all }) => ({ frames: framesOf(events.toSpliced(7, 1)).slice(0, all.length) }))
  ],
  ["a row that does not tell the end of its plan", "gists", first("plans", () => ({ gist: null }))],
  ["a call that waits, and no row that says so", "gists", (run) => asking([])(run)],
  ["a row that says that a call waits, and none does", "gists", (run) => asking([resolved])(run)],
  ["a file that is not stored as it was sent", "wholeFiles", first("files", () => ({ sha256: "other" }))],
  ["a file that is not there", "wholeFiles", (run) => ({ ...run, files: [] })],
  [
    "a file of an upload that was cut",
    "wholeFiles",
    (run) => ({ ...run, files: run.files.map((file) => ({ ...file, isKept: true, sha256: file.sha256 ?? "half" })) })
  ],
  [
    "a chunk of an upload that was cut",
    "wholeFiles",
    (run) => ({ ...run, files: run.files.map((file) => ({ ...file, sha256: file.sha256 ?? "half" })) })
  ],
  [
    "two files of the same bytes",
    "wholeFiles",
    (run) => ({
      ...run,
      files: [...run.files, ...run.files.map((file) => ({ ...file, file_id: FileId.make(`file_${"3".repeat(36)}`) }))]
    })
  ],
  ["an end that its webhook is not told", "toldOnce", first("plans", () => ({ told: [] }))],
  ["an end that its webhook is told twice", "toldOnce", first("plans", ({ told }) => ({ told: [...told, ...told] }))],
  ["a wait that its webhook is not told", "toldOnce", (run) => asking([resolved])(run)],
  ["a call that is told as rejected, and was made", "trueCalls", finishes({ state: "rejected" })],
  ["a result that its tool has not given", "trueCalls", finishes({ result: "did p0.9" })],
  ["a failure of a tool that has not failed", "trueCalls", finishes({ state: "failed" })],
  ["a call that is over before its peer is", "trueCalls", first("calls", () => ({ ms: 60_000 }))],
  [
    "a call that has failed with the fault of another one",
    "trueCalls",
    (run) => finishes({ state: "failed" })(struck(run))
  ],
  ["a call that is told as out of time too early", "trueCalls", finishes({ state: "timed-out" })],
  [
    "a call that ends behind its time",
    "trueCalls",
    (run) => ({ ...run, commits: run.commits.map((one, index) => (index === 1 ? { ...one, at: -700_000 } : one)) })
  ],
  ["a call that has its whole time once more behind a take-over", "trueCalls", resumed(20_000)],
  ["an artifact that comes twice", "trueCalls", frames((all) => all.toSpliced(5, 0, artifact, artifact))],
  [
    "a result that the model reads otherwise",
    "trueCalls",
    first("sessions", ({ messages }) => ({
      messages: messages.map((one) =>
        one.role === "tool" ? { ...one, parts: [{ ...readResult, content: "else" }] } : one
      )
    }))
  ]
]

/** The call is one of a peer, of which its process has heard nothing while it was frozen for so long. */
const unheard =
  (ms: number) =>
  (run: Observed): Observed => {
    const fault = { _tag: "Pause", at: 0, replica: 0, ms } as const
    const toPeer = finishes({ state: "failed" })({ ...run, faults: [{ fault, from: 0, to: ms }] })
    const commits = toPeer.commits.map((one) => ({
      ...one,
      changes: one.changes.map((change) => (change._tag === "TaskStarted" ? { ...change, tool: "bindu_ask" } : change))
    }))
    return { ...toPeer, commits }
  }

/** Somebody sets the wall clock of a replica. */
const clockSet = (run: Observed): Observed => ({
  ...run,
  faults: [{ fault: { _tag: "ClockStep", at: 0, replica: 0, byMs: 900_000 }, from: 0, to: 0 }]
})

describe("the rule of single calls", () => {
  const calls = (run: Observed) =>
    check(run).filter(({ rule, what }) => rule === "trueCalls" && what.includes(": call "))

  it("lets a call have its whole time once more behind a take-over, where a clock was set", () => {
    assert.lengthOf(calls(resumed(20_000)(sound)), 1)
    assert.deepStrictEqual(calls(clockSet(resumed(20_000)(sound))), [])
    assert.lengthOf(calls(clockSet(resumed(24_000)(sound))), 1)
  })

  it("takes a peer as silent of which a frozen process has heard nothing, from 24.5 s on", () => {
    assert.lengthOf(calls(unheard(24_000)(sound)), 1)
    assert.deepStrictEqual(calls(unheard(25_000)(sound)), [])
  })
})

describe("the checkers of approvals and of single calls", () => {
  for (const [what, rule, spoil] of violations) {
    it(`find ${what}`, () => {
      const found = check(spoil(sound)).map((violation) => violation.rule)
      assert.include(found, rule)
    })
  }
})
