import type { Agent } from "@bowline/domain/peer/Agent"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { ExternalSessionId } from "@bowline/domain/session/Session"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlannerText } from "@bowline/runtime/prompt/PlannerText"
import * as Recipes from "@bowline/runtime/prompt/Recipes"
import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { noPreset, type Preset, Presets } from "@bowline/runtime/unstable/config/Presets"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { recordsOf } from "@bowline/runtime/unstable/record/PlanExport"
import { pageOf } from "@bowline/runtime/unstable/store/EventRow"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Cause, Duration, Effect, Exit, Layer, Schema, Scope, Stream } from "effect"
import { Loop } from "../simulation/process/Loop.ts"
import { Process } from "../simulation/process/Process.ts"
import * as RealWorld from "../simulation/process/RealWorld.ts"
import { SeededRandom } from "../simulation/scenario/SeededRandom.ts"
import * as Given from "../store/Given.ts"
import { Comparison, type Difference } from "./Comparison.ts"
import { type Answers, differenceIn } from "./ToolAnswers.ts"
import { forkedFrom, toldTo } from "./RecordedFork.ts"
import * as RecordedWorld from "./RecordedWorld.ts"
import { type PlanRecording, read, written } from "./RecordFile.ts"

export type { Answers, Difference, PlanRecording }
export { read }

/** What became of a plan that was run again: the same, the first difference, or why it cannot be run again. */
export type Replayed =
  | { readonly _tag: "Same" }
  | ({ readonly _tag: "Different" } & Difference)
  | { readonly _tag: "Impossible"; readonly why: string }

const { fieldsOf } = RecordedWorld

/** What a record does not have that this plan depended on; undefined if it can be run again. */
const obstacleOf = ({
  begins,
  calls,
  frames,
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
  if (begin === undefined) return `the version that has run it kept no record of it (exported by ${version})`
  if (!texts.has(begin.environment)) return "the settings with which it ran are not in the record"
  if (plan.request === null) return "its request was not stored"
  if (end === undefined) return "it is not over"
  const woken = frames.filter(({ event }) => event === "woken").length
  if (begins.length - 1 > woken) return "another process has taken it over in the middle"
  if (begin.summary !== undefined && begin.summary.priors.length + (begin.summary.text === null ? 0 : 1) > 1) {
    return "its session had several summaries"
  }
  if (frames.some(({ data, event }) => event === "waiting" && fieldsOf(data)["kind"] !== "result")) {
    return "what its peers or servers have asked was answered, and answers are not in the record"
  }
  const isOfOther = calls.some(
    ({ error, task_id }) =>
      error?.code === "effect_unknown" || (repeats.get(task_id) !== undefined && !own.has(repeats.get(task_id)))
  )
  const hasFirst = messages.some(({ message_id }) => message_id === begin.history?.first)
  if (begin.history !== null && !hasFirst) return "what stood in its session was reverted since then"
  if (plan.error?.code === "interrupted") return "the process that ran it died"
  const [said, began] = ["inbox.accepted", "plan"].map((name) => frames.findIndex(({ event }) => event === name))
  if (said !== undefined && began !== undefined && said >= 0 && said < began) {
    return "something was said to it while it stood in the queue of its session"
  }
  if (isOfOther) return "another plan had the effect of one of its calls"
  const reason = fieldsOf(end.data)["reason"]
  if (reason === "shutdown" || reason === "superseded" || reason === "disconnect") {
    return `it was aborted from outside (${reason})`
  }
  return undefined
}

/** Whether calls side by side were not started in the order in which the model made them: what each of them waited for decided, by chance. */
const startsOtherwise = ({ attempts, frames }: PlanRecording, step: number): boolean => {
  const seen = new Set<unknown>()
  let at = 0
  const started = frames.flatMap(({ data, event }) => {
    const { input, task_id, tool, ...fields } = fieldsOf(data)
    if (event === "step") at = Number(fields["step"])
    if (at !== step || (event !== "task.started" && event !== "approval.requested") || seen.has(task_id)) return []
    seen.add(task_id)
    return [`${String(tool)} ${JSON.stringify(input)}`]
  })
  const made = (attempts.findLast((attempt) => attempt.step === step)?.parts ?? []).flatMap((part) =>
    typeof part === "object" && part._tag === "ToolCall" ? [`${part.name} ${compact(part.arguments)}`] : []
  )
  const places = started.map((call) => made.indexOf(call))
  return places.some((place, index) => index > 0 && place >= 0 && place < Math.max(...places.slice(0, index)))
}

/** Whether nothing but the tools of a prompt differs, of a plan whose client may bring others with each of its results. */
const hasOtherTools = ({ calls }: PlanRecording, { came, recorded, what }: Difference): boolean =>
  what === "prompt" &&
  calls.some(({ kind }) => kind === "client") &&
  JSON.stringify({ ...fieldsOf(came), tools: "" }) === JSON.stringify({ ...fieldsOf(recorded), tools: "" })

const compact = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text))
  } catch {
    return text
  }
}

type Fields = Readonly<Record<string, unknown>>

const listOf = (value: unknown): ReadonlyArray<Fields> => (Array.isArray(value) ? value.map(fieldsOf) : [])

const withoutAuth = (named: Fields): Fields => ({ ...named, auth: { type: "none" }, headers: undefined })

const decodeRequest = Schema.decodeUnknownSync(PlanRequest)

/** The request as it was, asked by somebody who needs no secret. */
const requestOf = ({ ofEdge, plan }: PlanRecording) => {
  const { webhooks: _, ...asked } = fieldsOf(plan.request)
  const request = { ...asked, agents: listOf(asked["agents"]).map(withoutAuth) }
  const servers = listOf(asked["mcp_servers"]).map(withoutAuth)
  return decodeRequest(
    JSON.parse(JSON.stringify({ ...request, ...ofEdge, ...(servers.length > 0 && { mcp_servers: servers }) }))
  )
}

const ms = (value: unknown) => (typeof value === "number" ? Duration.millis(value) : undefined)

/** The tools whose calls somebody had to decide about, for this reason. */
const askedAbout = ({ frames }: PlanRecording, why: string) =>
  new Set(
    frames
      .map(({ data, event }) => ({ event, data: fieldsOf(data) }))
      .filter(({ data, event }) => event === "approval.requested" && data["why"] === why)
      .map(({ data }) => String(data["tool"]))
  )

/** Plans are parked where what is stored outlives the process: here as it was there. A fork finds the plan that it goes on from. */
const stored = (recording: PlanRecording) => {
  const other = forkedFrom(recording)
  return Layer.effect(
    PlanStore,
    Effect.map(PlanStore, (store) => ({
      ...store,
      isDurable: recording.frames.some(({ event }) => event === "parked"),
      ...(other !== undefined && {
        recorded: (owner: typeof other.caller, id: PlanId) =>
          id === other.plan_id ? Effect.succeed(other.recorded) : store.recorded(owner, id),
        events: (id: PlanId, after: number, limit: number) =>
          id === other.plan_id ? Effect.succeed(pageOf(other.rows, after, limit)) : store.events(id, after, limit)
      })
    }))
  )
}

/** The graph of a gateway, on the record: the planner of this version, stores in memory, and nothing outside. */
const graphOf = (recording: PlanRecording, comparison: Comparison) => {
  const environment = fieldsOf(JSON.parse(recording.texts.get(recording.begins[0]?.environment ?? "") ?? "{}"))
  const settings = fieldsOf(environment["settings"])
  const models = fieldsOf(settings["models"])
  const overrides = {
    exact: new Map(Object.entries(fieldsOf(models["exact"]))),
    named: new Map(Object.entries(fieldsOf(models["named"])))
  }
  const [sensitive, always] = [askedAbout(recording, "sensitive"), askedAbout(recording, "always")]
  const first = ms(settings["first_token_timeout_ms"])
  const idle = ms(settings["idle_timeout_ms"])
  const config: Layer.Layer<PlansConfig> = PlansConfig.layer({
    model: String(settings["model"]),
    fallbackModels: written<ReadonlyArray<string>>(settings["fallback_models"]),
    ...(typeof settings["summary_model"] === "string" && { summaryModel: settings["summary_model"] }),
    allowsModel: () => true,
    models: () => written(overrides),
    contextWindow: Number(settings["context_window"]),
    ...(first && { firstTokenTimeout: first }),
    ...(idle && { idleTimeout: idle }),
    attemptTimeout: ms(settings["attempt_timeout_ms"]) ?? Duration.minutes(30),
    maxRetries: Number(settings["max_retries"]),
    retryBase: ms(settings["retry_base_ms"]) ?? Duration.seconds(1),
    parkAfter: ms(settings["park_after_ms"]),
    loop: written(settings["loop"]),
    toolConcurrency: Number(settings["tool_concurrency"]),
    toolTimeout: ms(settings["tool_timeout_ms"]) ?? Duration.hours(6),
    declareAtMost: Number(settings["declare_at_most"]),
    approvals: { isAlways: (tool) => always.has(tool), isSensitive: (tool) => sensitive.has(tool) }
  })
  const given = fieldsOf(environment["preset"])
  const preset: Preset = {
    ...noPreset,
    name: String(given["name"]),
    agents: listOf(given["agents"]).map((agent) => written<Agent>(withoutAuth(agent))),
    servers: listOf(given["servers"]).map(({ address, ...terms }) => ({
      terms: written(terms),
      address: String(address),
      connect: () => RecordedWorld.connectionOf(recording, comparison, String(terms["name"]))
    })),
    preferences: fieldsOf(given["preferences"]),
    instructions: typeof given["instructions"] === "string" ? given["instructions"] : undefined
  }
  return Plans.layer.pipe(
    Layer.provideMerge(CredentialPool.layer),
    Layer.provideMerge(stored(recording)),
    Layer.provideMerge(MemoryStore.layer),
    Layer.provideMerge(RecordedWorld.layer(recording, comparison)),
    Layer.provideMerge(config),
    Layer.provide([
      Layer.succeed(PlannerText, Effect.succeed(String(environment["planner"]))),
      Recipes.layer(written(environment["recipes"])),
      Layer.succeed(Presets, new Map([[preset.name, preset]])),
      Layer.succeed(
        LocalTools,
        listOf(environment["tools"]).map((tool) => RecordedWorld.localTool(recording, comparison, tool))
      )
    ])
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

/** Says to the plan what was said to it, each time as soon as all in front of it has come. */
const saying = Effect.fnUntraced(function* (
  recording: PlanRecording,
  comparison: Comparison,
  plan_id: Parameters<Plans["Service"]["cancel"]>[1]
) {
  const inbox = yield* Inbox
  const plans = yield* Plans
  const { caller } = recording.plan
  const by = { caller, isAdmin: true }
  const frames = comparison.expected.map(({ data, event }) => ({ event, data: fieldsOf(data) }))
  /** What is said to a parked plan wakes it. */
  const place = (index: number): number => (frames[index - 1]?.event === "woken" ? index - 1 : index)
  const acts = frames.flatMap(
    (
      { data, event },
      index
    ): ReadonlyArray<readonly [number, () => Effect.Effect<unknown, { readonly _tag: string }>]> => {
      if (event === "inbox.accepted") {
        const taken = frames.findIndex((frame, at) => at > index && frame.event === "inbox.taken")
        const isUrgent = frames.slice(index, taken).some((frame) => frame.data["reason"] === "steered")
        const when = isUrgent ? "now" : "boundary"
        return [
          [
            place(index),
            () => inbox.accept(by, plan_id, { type: "text", text: String(data["text"]), when, else: "ask" })
          ]
        ]
      }
      const task = String(data["task_id"])
      const task_id = () => TaskId.make(comparison.replayedTask(task) ?? task)
      if (event === "approval.resolved" && data["note"] !== "expired") {
        const { decision, note } = data
        const given = { decision: written<"approve" | "reject">(decision), ...(typeof note === "string" && { note }) }
        return [[place(index), () => inbox.decide(by, { plan_id, task_id: task_id() }, given)]]
      }
      if (event !== "waiting") return []
      const end = frames.findIndex(
        (frame, at) =>
          at > index &&
          frame.data["task_id"] === task &&
          (frame.event === "task.artifact" || frame.event === "task.finished")
      )
      const call = recording.calls.find((one) => one.task_id === task)
      if (end < 0 || call?.result == null || call.state === "timed-out" || call.state === "interrupted") return []
      const result = { content: call.result, ...(call.state === "failed" && { is_error: true }) }
      return [[place(end), () => inbox.accept(by, plan_id, { type: "result", task_id: task_id(), ...result })]]
    }
  )
  const last = frames.findLast(({ event }) => event === "error")
  if (last?.data["reason"] === "cancelled") {
    const ending = new Set(["task.finished", "usage", "error", "done", "approval.resolved"])
    const index = frames.findLastIndex(({ event }) => !ending.has(event)) + 1
    acts.push([place(index), () => plans.cancel(caller, plan_id)])
  }
  yield* Effect.forEach(
    acts,
    ([index, act]) => Effect.andThen(comparison.before(index), Effect.ignore(Effect.suspend(act))),
    { concurrency: "unbounded", discard: true }
  )
})

/** Compares what the models were asked, as far as the plan has come. */
const comparePrompts = Effect.fnUntraced(function* (
  recording: PlanRecording,
  comparison: Comparison,
  plan_id: Parameters<Plans["Service"]["cancel"]>[1]
) {
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

/** Starts the plan again, and reads it as long as it is the same. */
const run = Effect.fnUntraced(function* (recording: PlanRecording, comparison: Comparison) {
  const streams = yield* PlanStreams
  const { caller } = recording.plan
  const told = toldTo(recording)
  const name = told === undefined ? yield* seed(recording) : undefined
  const request = { ...requestOf(recording), ...(name !== undefined && { session_id: name }) }
  const reading = yield* streams.start({ caller, request, told })
  const { plan_id } = reading
  yield* Effect.forkScoped(saying(recording, comparison, plan_id))
  let head = 0
  const hear = (frames: typeof reading.frames) =>
    Stream.runForEach(
      Stream.takeUntil(frames, () => comparison.isOver),
      (frame) =>
        Effect.sync(() => {
          if (typeof frame === "string" || frame.seq <= head) return
          head = frame.seq
          comparison.take({ event: frame.event, data: fieldsOf(JSON.parse(frame.payload)) })
        })
    )
  const reads = Effect.gen(function* () {
    yield* hear(reading.frames)
    while (!comparison.isOver) yield* hear((yield* streams.read(caller, plan_id, head)).frames)
  })
  yield* Effect.raceFirst(reads, comparison.differs)
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
  const replayed = await replayAlone(recording)
  if (replayed._tag === "Impossible") return replayed
  if (replayed._tag === "Different" && startsOtherwise(recording, replayed.step)) {
    return {
      _tag: "Impossible",
      why: `calls of step ${replayed.step} started in another order than the model made them`
    }
  }
  if (replayed._tag === "Different" && hasOtherTools(recording, replayed)) {
    return { _tag: "Impossible", why: "its client has given other tools with a result, and they are not in the record" }
  }
  if (replayed._tag === "Different" && recording.plan.error?.reason === "deadline") {
    return { _tag: "Impossible", why: "its deadline has passed in the middle of something, and no frame tells when" }
  }
  const answered = await differenceIn(recording, answers)
  if (answered === undefined || (replayed._tag === "Different" && replayed.step < answered.step)) return replayed
  return { _tag: "Different", ...answered }
}

const replayAlone = async (recording: PlanRecording): Promise<Replayed> => {
  const why = obstacleOf(recording)
  if (why !== undefined) return { _tag: "Impossible", why }
  await (tokenizer ??= Promise.all([
    import("gpt-tokenizer/bpeRanks/o200k_base"),
    import("gpt-tokenizer/encoding/o200k_base")
  ]))
  const comparison = new Comparison(recording)
  const random = new SeededRandom(recording.plan.plan_id)
  const loop = new Loop(random.of("order"))
  const process = new Process("replay", loop, random.of("process"), () => undefined)
  const misuse: Array<string> = []
  let exit: Exit.Exit<void, unknown> | undefined
  const restore = RealWorld.watch((what) => void misuse.push(what), loop)
  try {
    const scope = Scope.makeUnsafe()
    const whole = Effect.gen(function* () {
      const context = yield* Layer.buildWithScope(graphOf(recording, comparison), scope)
      yield* Effect.provideContext(run(recording, comparison), context)
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
