import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { type QuestionPart, textOf } from "@bowline/domain/unstable/file/QuestionPart"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { recordsOf } from "@bowline/runtime/unstable/record/PlanExport"
import { PlanStore, questionId } from "@bowline/runtime/unstable/store/PlanStore"
import { Cause, Effect, Exit, Layer, Schema, Scope, Stream } from "effect"
import { Loop } from "../simulation/process/Loop.ts"
import { Process } from "../simulation/process/Process.ts"
import * as RealWorld from "../simulation/process/RealWorld.ts"
import { SeededRandom } from "../simulation/scenario/SeededRandom.ts"
import * as Given from "../store/Given.ts"
import { Comparison, type Difference } from "./Comparison.ts"
import { type Answers, differenceIn } from "./ToolAnswers.ts"
import { RecordedCallers } from "./RecordedCallers.ts"
import { fileObstacle, isUnsure, storeFiles } from "./RecordedFiles.ts"
import { toldTo } from "./RecordedFork.ts"
import { graphOf, listOf, withoutAuth } from "./RecordedGraph.ts"
import { ReplayedPlan } from "./RecordedStore.ts"
import { fieldsOf } from "./RecordedWorld.ts"
import { type PlanRecording, read, written } from "./RecordFile.ts"

export type { Answers, Difference, PlanRecording }
export { read }

/** What became of a plan that was run again: the same, the first difference, or why it cannot be run again. */
export type Replayed =
  | { readonly _tag: "Same" }
  | ({ readonly _tag: "Different" } & Difference)
  | { readonly _tag: "Impossible"; readonly why: string }

/** What a record does not have that this plan depended on; undefined if it can be run again. */
const obstacleOf = ({
  begins,
  calls,
  claims,
  frames,
  givens,
  messages,
  ofEdge,
  plan,
  texts,
  version
}: PlanRecording): string | undefined => {
  const own = new Set<unknown>(calls.map(({ task_id }) => task_id))
  const repeats = new Map(
    frames.map(({ data }) => [
      fieldsOf(data)["task_id"],
      ofEdge.fork === undefined ? fieldsOf(data)["repeat_of"] : undefined
    ])
  )
  const [begin] = begins
  const end = frames.findLast(({ event }) => event === "final" || event === "error")
  if (plan.request === null) return "its request was not stored"
  if (end === undefined) return "it is not over"
  if (begin === undefined) {
    const hasBegun = frames.some(({ event }) => event === "plan")
    return hasBegun ? `the version that has run it kept no record of it (exported by ${version})` : undefined
  }
  if (!texts.has(begin.environment)) return "the settings with which it ran are not in the record"
  const woken = frames.filter(({ event }) => event === "woken").length
  if (begins.length - 1 > woken) return "another process has taken it over in the middle"
  if (begin.summary !== undefined && begin.summary.priors.length + (begin.summary.text === null ? 0 : 1) > 1) {
    return "its session had several summaries"
  }
  const given = new Set(givens.map(({ entry, round }) => `${entry.task_id} ${round}`))
  const ended = new Map(calls.map(({ state, task_id }): [unknown, string] => [task_id, state]))
  const isLost = frames.some(({ data, event }) => {
    const { kind, round, task_id } = fieldsOf(data)
    if (event !== "waiting" || kind !== "answer" || given.has(`${String(task_id)} ${String(round)}`)) return false
    return ended.get(task_id) !== "timed-out" && ended.get(task_id) !== "interrupted"
  })
  if (isLost) return "what its peers or servers have asked was answered, and this version kept no answers"
  if (frames.some(({ data, event }) => event === "waiting" && fieldsOf(data)["kind"] === "account")) {
    return "it waited for an account of its caller, and what was granted there is not on record"
  }
  const isOfOther = calls.some(
    ({ error, task_id }) =>
      error?.code === "effect_unknown" || (repeats.get(task_id) !== undefined && !own.has(repeats.get(task_id)))
  )
  const hasFirst = messages.some(({ message_id }) => message_id === begin.history?.first)
  if (begin.history !== null && !hasFirst) return "what stood in its session was reverted since then"
  if (plan.error?.code === "interrupted") return "the process that ran it died"
  if (isOfOther && claims.length === 0)
    return "another plan had the effect of one of its calls, and this version kept no claims"
  return undefined
}

/** Whether nothing but the tools of a prompt differs, of a plan whose client may bring others with each of its results. */
const hasOtherTools = ({ calls }: PlanRecording, { came, recorded, what }: Difference): boolean =>
  what === "prompt" &&
  calls.some(({ kind }) => kind === "client") &&
  JSON.stringify({ ...fieldsOf(came), tools: "" }) === JSON.stringify({ ...fieldsOf(recorded), tools: "" })

const decodeRequest = Schema.decodeUnknownSync(PlanRequest)

/** The request as it was, asked by somebody who needs no secret. */
const requestOf = ({ messages, ofEdge, plan }: PlanRecording) => {
  const { webhooks: _, ...asked } = fieldsOf(plan.request)
  // The request has the ids of files, the message what they are.
  const told = messages.find(({ message_id }) => message_id === questionId(plan.plan_id))?.parts
  const parts = Array.isArray(asked["question"]) ? written<ReadonlyArray<QuestionPart>>(told ?? []) : undefined
  const question = parts === undefined ? {} : { question: textOf(parts), question_parts: parts }
  const request = { ...asked, ...question, agents: listOf(asked["agents"]).map(withoutAuth) }
  const servers = listOf(asked["mcp_servers"]).map(withoutAuth)
  return decodeRequest(
    JSON.parse(JSON.stringify({ ...request, ...ofEdge, ...(servers.length > 0 && { mcp_servers: servers }) }))
  )
}

/** The session as the plan found it: a plan before it has left what it says. */
const seed = Effect.fnUntraced(function* ({ begins, frames, messages, plan }: PlanRecording) {
  const [begin] = begins
  const before = messages.filter(({ plan_id }) => plan_id !== plan.plan_id)
  const summary = begin?.summary?.priors[0] ?? begin?.summary?.text ?? ""
  const wasThere = frames.some(({ data, event }) => event === "session" && fieldsOf(data)["created"] === false)
  // A new session has what the request itself brings.
  if (!wasThere) return undefined
  const name = plan.external_session_id ?? ExternalSessionId.make("the session on record")
  const held = yield* Given.createHeld({
    owner: plan.caller,
    external_session_id: name,
    messages: before.map(({ message_id, parts, role }) => ({
      message_id,
      role,
      parts
    })),
    ...(summary !== "" && { prior_summary: summary })
  })
  yield* Given.finish(held)
  return name
})

/** Compares what the models were asked, as far as the plan has come. */
const comparePrompts = Effect.fnUntraced(function* (recording: PlanRecording, comparison: Comparison, plan_id: PlanId) {
  const rows = yield* (yield* PlanStore).events(plan_id, 0, 100_000)
  const attempts = rows.flatMap(recordsOf).filter((record) => record.type === "attempt")
  for (const [index, { prompt, step }] of attempts.entries()) {
    const recorded = recording.attempts[index]
    if (recorded === undefined || JSON.stringify(recorded.prompt) === JSON.stringify(prompt)) continue
    const { difference } = comparison
    if (difference !== undefined && difference.step < step) return
    comparison.difference = { step, what: "prompt", recorded: recorded.prompt, came: prompt }
    return
  }
})

/** Starts the plan again, and stays its reader until it is over, or is not the same. */
const run = Effect.fnUntraced(function* (
  recording: PlanRecording,
  comparison: Comparison,
  replayed: ReplayedPlan,
  isByTime: boolean,
  withUnsure: boolean
) {
  const streams = yield* PlanStreams
  const { caller } = recording.plan
  yield* storeFiles(recording, withUnsure)
  const told = toldTo(recording)
  const name = told === undefined ? yield* seed(recording) : undefined
  const request = { ...requestOf(recording), ...(name !== undefined && { session_id: name }) }
  replayed.isNext = true
  const reading = yield* streams.start({ caller, request, told })
  const { plan_id } = reading
  replayed.callers = yield* RecordedCallers.of(recording, comparison, plan_id, isByTime)
  yield* Effect.forkScoped(replayed.callers.acts)
  const reads = Effect.gen(function* () {
    yield* Stream.runDrain(reading.frames)
    // It is parked now, or runs again.
    while (!comparison.isOver) yield* Stream.runDrain((yield* streams.read(caller, plan_id, 0)).frames)
  })
  yield* Effect.forkScoped(reads)
  yield* comparison.over
  yield* comparePrompts(recording, comparison, plan_id)
}, Effect.scoped)

/** Loaded before a run: its first compaction would read it from the disk. */
let tokenizer: Promise<unknown> | undefined

/**
 * Runs a plan again on its record: the planner of this version, with providers, agents, servers, tools and callers that give what they gave, a clock of its own, stores in memory, and no
 * socket. Only one run at a time.
 *
 * @example
 * ```ts
 * import { type PlanRecording, read, replay } from "@bowline/testing/replay/Replay"
 * import { readFileSync } from "node:fs"
 *
 * export const isSame = async (recording: PlanRecording): Promise<boolean> => (await replay(recording))._tag === "Same"
 *
 * // What `bowline export` has written.
 * export const recordings = (path: string): ReadonlyArray<PlanRecording> => read(readFileSync(path))
 *
 * // The app's own tool is called, too, and has to give what is on record.
 * export const isAsBefore = async (recording: PlanRecording): Promise<boolean> =>
 *   (await replay(recording, { answers: { find_order: () => "It arrives on Friday." } }))._tag === "Same"
 * ```
 */
export const replay = async (
  recording: PlanRecording,
  { answers = {} }: { readonly answers?: Answers | undefined } = {}
): Promise<Replayed> => {
  const isByTime = recording.plan.error?.reason === "deadline"
  const first = await replayAlone(recording)
  // A deadline that passes while something else happens ends the plan at an instant that only its frames tell.
  const timed = isByTime && first._tag === "Different" ? await replayAlone(recording, false) : first
  const replayed = timed._tag === "Different" && isUnsure(recording) ? await withoutUnsure(recording, timed) : timed
  if (replayed._tag === "Impossible") return replayed
  if (replayed._tag === "Different" && hasOtherTools(recording, replayed)) {
    return { _tag: "Impossible", why: "its client has given other tools with a result, and they are not in the record" }
  }
  const answered = await differenceIn(recording, answers)
  if (answered === undefined || (replayed._tag === "Different" && replayed.step < answered.step)) return replayed
  return { _tag: "Different", ...answered }
}

/** A plan that may have found files of its session deleted: if it is the same without them, it has. */
const withoutUnsure = async (recording: PlanRecording, before: Replayed): Promise<Replayed> => {
  const replayed = await replayAlone(recording, true, false)
  return replayed._tag === "Same" ? replayed : before
}

const replayAlone = async (recording: PlanRecording, isByTime = true, withUnsure = true): Promise<Replayed> => {
  const why = obstacleOf(recording) ?? fileObstacle(recording)
  if (why !== undefined) return { _tag: "Impossible", why }
  await (tokenizer ??= Promise.all([
    import("gpt-tokenizer/bpeRanks/o200k_base"),
    import("gpt-tokenizer/encoding/o200k_base")
  ]))
  const comparison = new Comparison(recording, isByTime)
  const random = new SeededRandom(recording.plan.plan_id)
  const loop = new Loop(random.of("order"))
  const process = new Process("replay", loop, random.of("process"), () => undefined)
  const misuse: Array<string> = []
  let exit: Exit.Exit<void, unknown> | undefined
  const restore = RealWorld.watch((what) => void misuse.push(what), loop)
  try {
    const scope = Scope.makeUnsafe()
    const whole = Effect.gen(function* () {
      const replayed = new ReplayedPlan(recording, comparison)
      const context = yield* Layer.buildWithScope(graphOf(recording, comparison, replayed, isByTime), scope)
      yield* Effect.provideContext(run(recording, comparison, replayed, isByTime, withUnsure), context)
    })
    process.fork(
      Effect.map(Effect.exit(whole), (ended) => {
        exit = ended
      })
    )
    await loop
      .run(() => exit !== undefined)
      .catch((error: unknown) => comparison.differ("nothing more", nextOf(comparison), String(error)))
    process.kill()
  } finally {
    restore()
  }
  if (misuse.length > 0) comparison.differ("outside", "nothing outside of the record", misuse)
  if (exit !== undefined && Exit.isFailure(exit))
    comparison.differ("start", "a plan that runs", Cause.pretty(exit.cause))
  const { difference } = comparison
  return difference === undefined ? { _tag: "Same" } : { _tag: "Different", ...difference }
}

const nextOf = ({ came, expected }: Comparison) => expected[came.length] ?? null
