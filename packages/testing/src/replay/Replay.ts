import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { type QuestionPart, textOf } from "@bowline/domain/unstable/file/QuestionPart"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { recordsOf } from "@bowline/runtime/unstable/record/PlanExport"
import { isSame, type PromptDigest } from "@bowline/runtime/unstable/record/PromptDigest"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { LeaseStore, type ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import { PlanStore, questionId } from "@bowline/runtime/unstable/store/PlanStore"
import { Cause, Context, Effect, Exit, Layer, Schema, Scope, Stream } from "effect"
import { Loop } from "../simulation/process/Loop.ts"
import { epoch, Process } from "../simulation/process/Process.ts"
import * as RealWorld from "../simulation/process/RealWorld.ts"
import { SeededRandom } from "../simulation/scenario/SeededRandom.ts"
import { Comparison, type Difference } from "./Comparison.ts"
import { type Answers, differenceIn } from "./ToolAnswers.ts"
import { RecordedCallers } from "./RecordedCallers.ts"
import { deletions, fileObstacle, storeFiles, unsureObstacle } from "./RecordedFiles.ts"
import { toldTo } from "./RecordedFork.ts"
import { graphOf, withoutAuth } from "./RecordedGraph.ts"
import { deadlineOf } from "./RecordedProviders.ts"
import { isExpired } from "./RecordedErrors.ts"
import { seed, tasksOf } from "./RecordedSession.ts"
import { ReplayedPlan } from "./RecordedStore.ts"
import type { Segment } from "./RecordedTakeovers.ts"
import { failedByStore, type How } from "./RecordedEnd.ts"
import { fieldsOf, listOf, type PlanRecording, read, written } from "./RecordFile.ts"

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
  const given = new Set(givens.map(({ entry, round }) => `${entry.task_id} ${round}`))
  const ended = new Map(calls.map(({ state, task_id }): [unknown, string] => [task_id, state]))
  const isLost = frames.some(({ data, event }) => {
    const { data: schema, kind, round, task_id } = fieldsOf(data)
    if (event !== "waiting" || kind !== "answer" || given.has(`${String(task_id)} ${String(round)}`)) return false
    return schema !== undefined && ended.get(task_id) !== "timed-out" && ended.get(task_id) !== "interrupted"
  })
  if (isLost) return "what its peers or servers have asked was answered, and this version kept no answers"
  const isOfOther = calls.some(
    ({ error, task_id }) =>
      error?.code === "effect_unknown" || (repeats.get(task_id) !== undefined && !own.has(repeats.get(task_id)))
  )
  const placeOf = (id: string | undefined) => messages.findIndex(({ message_id }) => message_id === id)
  if (begin.history !== null && placeOf(begin.history.last) - placeOf(begin.history.first) + 1 !== begin.history.count)
    return "what stood in its session was reverted since then"
  if (isOfOther && claims.length === 0)
    return "another plan had the effect of one of its calls, and this version kept no claims"
  return undefined
}

/** Whether nothing but one part of a prompt differs. */
const differsIn = (part: "messages" | "tools", { came, recorded, what }: Difference): boolean =>
  what === "prompt" &&
  isSame({ ...written<PromptDigest>(came), [part]: "" }, { ...written<PromptDigest>(recorded), [part]: "" })

/** What the record does not have that the plan may have depended on where it differs so. */
const lackIn = (recording: PlanRecording, difference: Difference): string | undefined => {
  const { calls, messages, plan } = recording
  const isSlow = calls.some(
    ({ error }) => error?.message.startsWith("The schema of the tool cannot be used. It takes") === true
  )
  if (isSlow) return "the check of a schema took too long, which it may not do here"
  if (failedByStore(recording)) return "its store was away, and when is not on record"
  const hasTold = recording.sources.some(({ sources }) => sources["client"] !== undefined)
  if (!hasTold && calls.some(({ kind }) => kind === "client") && differsIn("tools", difference)) {
    return "its client has given other tools with a result, and this version kept none"
  }
  const isOfCall = (type: string) => type === "tool_call" || type === "tool_result"
  const before = messages.filter(({ plan_id }) => plan_id !== plan.plan_id).flatMap(({ parts }) => parts)
  const mayName = tasksOf(recording) === undefined && before.some(({ type }) => isOfCall(type))
  if (difference.step === 0 && mayName && differsIn("messages", difference)) {
    return "its summary names tasks of earlier plans, whose ids at their peers are not in the record"
  }
  return undefined
}

const decodeRequest = Schema.decodeUnknownSync(PlanRequest)

/** For how many milliseconds the plan ran on after its deadline, since its process had stood still. */
const lateBy = ({ frames }: PlanRecording): number => {
  const [deadline, end] = [deadlineOf(frames), frames.findLast(({ event }) => event === "error")?.at ?? ""]
  // A plan that was aborted before it began has no deadline in its frames.
  return deadline > 0 ? Math.max(Date.parse(end) - deadline, 0) : 0
}

/** The request as it was, asked by somebody who needs no secret. */
const requestOf = (recording: PlanRecording, { isByTime }: How) => {
  const { messages, ofEdge, plan, preferences } = recording
  const { webhooks: _, ...asked } = fieldsOf(plan.request)
  // The request has the ids of files, the message what they are.
  const told = messages.find(({ message_id }) => message_id === questionId(plan.plan_id))?.parts
  const parts = Array.isArray(asked["question"]) ? written<ReadonlyArray<QuestionPart>>(told ?? []) : undefined
  const question = parts === undefined ? {} : { question: textOf(parts), question_parts: parts }
  const late = plan.error?.reason === "deadline" && !isByTime ? lateBy(recording) : 0
  const timed = late > 0 && preferences !== undefined && { timeout_ms: preferences.timeout_ms + late + 1_000 }
  const preferred = timed && { preferences: { ...fieldsOf(asked["preferences"]), ...timed } }
  const request = { ...asked, ...question, ...preferred, agents: listOf(asked["agents"]).map(withoutAuth) }
  const servers = listOf(asked["mcp_servers"]).map(withoutAuth)
  return decodeRequest(
    JSON.parse(JSON.stringify({ ...request, ...ofEdge, ...(servers.length > 0 && { mcp_servers: servers }) }))
  )
}

/** Compares what the models were asked, as far as the plan has come. */
const comparePrompts = Effect.fnUntraced(function* (recording: PlanRecording, comparison: Comparison, plan_id: PlanId) {
  const rows = yield* (yield* PlanStore).events(plan_id, 0, 100_000)
  const attempts = rows.flatMap(recordsOf).filter((record) => record.type === "attempt")
  for (const [index, { prompt, step }] of attempts.entries()) {
    const recorded = recording.attempts[index]
    if (recorded === undefined || isSame(recorded.prompt, prompt)) continue
    const { difference } = comparison
    if (difference !== undefined && difference.step < step) return
    comparison.difference = { step, what: "prompt", recorded: recorded.prompt, came: prompt }
    return
  }
})

/** How often a plan is read again of which nothing more comes. */
const mostReads = 1_000

/** Starts the plan again, or goes on with it as the next process, and stays its reader until it is over, is not the same, or its process is gone. */
const run = Effect.fnUntraced(function* (
  recording: PlanRecording,
  comparison: Comparison,
  replayed: ReplayedPlan,
  how: How
) {
  const streams = yield* PlanStreams
  const { caller } = recording.plan
  const { id, segment } = replayed
  const plan_id = id ?? (yield* start(recording, replayed, how))
  replayed.callers = yield* RecordedCallers.of(recording, comparison, plan_id, how, segment)
  if (id !== undefined) {
    yield* replayed.callers.before
    replayed.mayTake = true
    yield* (yield* Notices).publish([{ _tag: "PlansLeft" }])
  }
  yield* Effect.forkScoped(replayed.callers.acts)
  const reads = Effect.gen(function* () {
    // It is parked in between, or runs elsewhere.
    for (let inVain = 0; !comparison.isOver && inVain < mostReads; inVain++) {
      const before = comparison.came.length
      yield* Stream.runDrain((yield* streams.read(caller, plan_id, 0)).frames)
      if (comparison.came.length > before) inVain = 0
      else if (!comparison.isOver) yield* Effect.sleep("1 second")
    }
    if (!comparison.isOver) comparison.differ("nothing more", nextOf(comparison), null)
  })
  yield* Effect.forkScoped(reads)
  yield* Effect.raceFirst(comparison.over, replayed.left)
  if (comparison.isOver) yield* comparePrompts(recording, comparison, plan_id)
}, Effect.scoped)

const start = Effect.fnUntraced(function* (recording: PlanRecording, replayed: ReplayedPlan, how: How) {
  const streams = yield* PlanStreams
  const { caller } = recording.plan
  yield* storeFiles(recording, how.away)
  const told = toldTo(recording)
  const name = told === undefined ? yield* seed(recording) : undefined
  const request = { ...requestOf(recording, how), ...(name !== undefined && { session_id: name }) }
  replayed.isNext = true
  const { frames, plan_id } = yield* streams.start({ caller, request, told })
  yield* Effect.forkScoped(Stream.runDrain(frames))
  return plan_id
})

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
  const replayed = await replayInWays(recording)
  if (replayed._tag === "Impossible") return replayed
  const lack = replayed._tag === "Different" ? lackIn(recording, replayed) : undefined
  if (lack !== undefined) return { _tag: "Impossible", why: lack }
  const answered = await differenceIn(recording, answers)
  if (answered === undefined || (replayed._tag === "Different" && replayed.step < answered.step)) return replayed
  return { _tag: "Different", ...answered }
}

/** Runs it in each of the ways in which it may have gone until it is the same. */
const replayInWays = async (recording: PlanRecording): Promise<Replayed> => {
  const { code = "", reason } = recording.plan.error ?? {}
  const usual: How = { isByTime: reason === "deadline", abortsLate: false, failsLate: false, away: new Set() }
  const ways = [
    usual,
    // A deadline that passes while something else happens ends the plan at an instant that only its frames tell.
    ...(usual.isByTime ? [{ ...usual, isByTime: false }] : []),
    ...(reason === undefined ? [] : [{ ...usual, isByTime: false, abortsLate: true }]),
    ...(code.startsWith("provider_") ? [{ ...usual, failsLate: true }] : []),
    // It may have found files of its session deleted.
    ...deletions(recording).map((away) => ({ ...usual, away }))
  ]
  let first: Replayed | undefined
  for (const how of ways) {
    const replayed = await replayAlone(recording, how)
    if (replayed._tag !== "Different") return replayed
    first ??= replayed
  }
  const why = first?._tag === "Different" && first.what === "prompt" ? unsureObstacle(recording) : undefined
  if (why !== undefined) return { _tag: "Impossible", why }
  return first ?? { _tag: "Same" }
}

/** When the wait was over whose end is the first thing that a process tells, by the clock of the run: it had the plan later, and other calls have no time left. 0 if there is none. */
const overAt = ({ came, expected }: Comparison, { from }: Segment): number => {
  const before = expected.slice(0, from)
  const { data, event } = expected.slice(from).find(({ event }) => event !== "task.artifact") ?? {}
  const told = fieldsOf(data)
  const { error, task_id } = told
  const isOver = event === "task.finished" ? fieldsOf(error)["code"] === "wait_expired" : isExpired(told)
  const asked = before.findLastIndex(({ data }) => fieldsOf(data)["task_id"] === task_id && "expires_at" in data)
  return isOver && asked >= 0 ? Date.parse(String(came[asked]?.data["expires_at"])) : 0
}

const replayAlone = async (recording: PlanRecording, how: How): Promise<Replayed> => {
  const why = obstacleOf(recording) ?? fileObstacle(recording)
  if (why !== undefined) return { _tag: "Impossible", why }
  await (tokenizer ??= Promise.all([
    import("gpt-tokenizer/bpeRanks/o200k_base"),
    import("gpt-tokenizer/encoding/o200k_base")
  ]))
  const comparison = new Comparison(recording, how.isByTime)
  const random = new SeededRandom(recording.plan.plan_id)
  const loop = new Loop(random.of("order"))
  const replayed = new ReplayedPlan(recording, comparison)
  const misuse: Array<string> = []
  let stores: Context.Context<MemoryStore.Stores> | undefined
  let before: ReplicaId | undefined
  /** What the process does of the plan that has it as the next one. */
  const ofProcess = Effect.fnUntraced(function* (process: Process) {
    const scope = Scope.makeUnsafe()
    stores ??= yield* Layer.buildWithScope(MemoryStore.layer, scope)
    if (before !== undefined) yield* Context.get(stores, LeaseStore).leave(before)
    const notices = Context.get(stores, Notices)
    // Those before it hear nothing any more.
    const subscribe: (typeof notices)["subscribe"] = (hear) =>
      notices.subscribe((heard) => (process.isAlive ? hear(heard) : undefined))
    const own = Context.add(stores, Notices, { ...notices, subscribe })
    const graph = graphOf(recording, comparison, replayed, how, Layer.succeedContext(own))
    const context = yield* Layer.buildWithScope(graph, scope)
    before = yield* Context.get(context, Plans).replica
    yield* Effect.provideContext(run(recording, comparison, replayed, how), context)
  })
  const restore = RealWorld.watch((what) => void misuse.push(what), loop)
  try {
    for (const [index, segment] of comparison.segments.entries()) {
      if (index > 0) replayed.leave(segment)
      const process = new Process(`replay ${index}`, loop, random.of(`process ${index}`), () => undefined)
      // A call may wait until a time of day: the clock begins when the plan began.
      const began = Date.parse(recording.plan.created_at)
      process.stepClock(Math.max(began, overAt(comparison, segment) - loop.now) - epoch)
      let exit: Exit.Exit<void, unknown> | undefined
      process.fork(
        Effect.map(Effect.exit(ofProcess(process)), (ended) => {
          exit = ended
        })
      )
      await loop
        .run(() => exit !== undefined)
        .catch((error: unknown) => comparison.differ("nothing more", nextOf(comparison), String(error)))
      process.kill()
      if (exit !== undefined && Exit.isFailure(exit))
        comparison.differ("start", "a plan that runs", Cause.pretty(exit.cause))
      if (comparison.difference !== undefined) break
    }
  } finally {
    restore()
  }
  if (misuse.length > 0) comparison.differ("outside", "nothing outside of the record", misuse)
  const { difference } = comparison
  return difference === undefined ? { _tag: "Same" } : { _tag: "Different", ...difference }
}

const nextOf = ({ came, expected }: Comparison) => expected[came.length] ?? null
