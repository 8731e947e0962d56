import type { FileReference, ToolResultPart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId, ToolKind } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect, Option, type Schema, Semaphore } from "effect"
import type { Verified } from "@bowline/domain/plan/PlanEvent"
import type { PeerEvent } from "../remote/PeerClient.ts"
import * as Monotonic from "../process/Monotonic.ts"
import * as ToolSpan from "../telemetry/ToolSpan.ts"
import * as GivenRecord from "../record/GivenRecord.ts"
import * as Envelope from "../tool/Envelope.ts"
import { expired, expiredUnsent } from "../tool/ClientTools.ts"
import type { AgentDid, CallQuestion, NeededAccount, Tool, ToolResult } from "../tool/Tool.ts"
import { waitOfCall } from "../store/AccountWait.ts"
import type { EffectEnd, PlanChange, PlanStore } from "../store/PlanStore.ts"
import type { Settlement } from "../store/InboxStore.ts"
import { CallFiles, type ShownEvent, type StoredResult } from "./CallFiles.ts"
import * as AccountWaits from "./AccountWaits.ts"
import { CallTime, CallTurns, type Place, Places } from "./CallPlaces.ts"
import * as CallEffect from "./CallEffect.ts"
import * as Resumption from "./Resumption.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlanFiles } from "./PlanFiles.ts"
import type { TaskStart } from "./PlanTasks.ts"
import type { Prepared } from "./PreparedCalls.ts"

/** How long a resumed call waits for its peer at most, if its own time was over before this process resumed it. */
const lastLook = 10_000

const maxRawInput = 2_048

const shownInput = (input: Schema.Json): Schema.Json =>
  typeof input === "string" && input.length > maxRawInput ? `${input.slice(0, maxRawInput)}…` : input

const shownProgress = (task_id: TaskId, { message, state }: Extract<PeerEvent, { _tag: "Progress" }>): ShownEvent => ({
  event: "task.progress",
  data: message === undefined ? { task_id, state } : { task_id, state, message }
})

const shownArtifact = (
  task_id: TaskId,
  artifact: {
    readonly content: Schema.Json
    readonly mediaType: string
    readonly verified: Verified | undefined
    readonly name?: string
  },
  limit: number
): ShownEvent => {
  const { content, mediaType: media_type, name, verified } = artifact
  const { text, truncated } = Envelope.truncate(typeof content === "string" ? content : JSON.stringify(content), limit)
  const shown = { task_id, content: truncated ? text : content, media_type, truncated }
  return {
    event: "task.artifact",
    data: { ...shown, ...(verified !== undefined && { verified }), ...(name !== undefined && { name }) }
  }
}

const gone = "The call was not made: a file that it names was deleted"
const withoutFile: StoredResult = {
  state: "invalid",
  content: gone,
  error: { code: "invalid", message: gone },
  isUnsent: true
}

/** Whether another process has shown the event to readers: each of those in `seen` is compared once. */
const isSeen = (seen: Set<string>, { data }: ShownEvent): boolean => seen.delete(JSON.stringify(data))

const timedOut = ({ name }: Tool, limit: number, isMade: boolean): ToolResult => {
  const within = Duration.format(Duration.millis(limit))
  const message = isMade
    ? `${name} did not finish within ${within}. Whether it had an effect is unknown.`
    : `${name} was not called: its ${within} were over before the call could leave.`
  return { state: "timed-out", content: message, error: { code: "timeout", message } }
}

/** The tools whose results are wrapped for the model. */
const fromOutside: ReadonlySet<ToolKind> = new Set<ToolKind>(["peer", "mcp", "client"])

type Dispatched = Extract<Prepared, { readonly _tag: "Ready" | "Begun" }>

export interface Options {
  /** Marks what comes from outside, for the model. */
  readonly delimiter: string
  /** Characters of one result, or of one artifact. */
  readonly resultLimit: number
  /** How many calls run at once. Those that wait for an approval do not count. */
  readonly concurrency: number
  /** The operator's limit of each call. */
  readonly timeoutMs: number
  /** Knows whose the effects of calls are. */
  readonly store: PlanStore["Service"]
  /** Waits until a call may be made, and refuses it if it may not. */
  readonly admit: (run: PlanRun, call: Prepared) => Effect.Effect<Prepared, StorageError>
  readonly lookAgain: AccountWaits.LookAgain
  /** Stores what calls give, and gives them the files that they name. */
  readonly files: PlanFiles
}

/** A result as the model gets it, with the files that it has given. */
export interface Answer {
  readonly result: ToolResultPart
  readonly files: ReadonlyArray<FileReference>
}

/** How long a call may take, in milliseconds: what the tool, the request and the operator say, whatever is least. */
export const limitOf = ({ timeoutMs = Infinity }: Tool, { given: { request } }: PlanRun, configured: number): number =>
  Math.min(timeoutMs, request.preferences.tool_timeout_ms, configured)

/** The tool calls of one step. */
class StepCalls {
  readonly #run: PlanRun
  readonly #options: Options
  readonly #places: Places
  /** Undefined if calls of the client's tools may wait side by side. */
  readonly #turns: Semaphore.Semaphore | undefined
  /** The results of calls of the client's tools: each is taken with the end of its call. */
  readonly #results = new Map<TaskId, Settlement>()

  constructor(run: PlanRun, options: Options) {
    this.#run = run
    this.#options = options
    this.#places = new Places(options.concurrency)
    this.#turns = run.given.request.legs?.parallel === false ? Semaphore.makeUnsafe(1) : undefined
  }

  /** Makes a call once it may be made, or refuses it, and gives its result to the model. */
  readonly make = Effect.fnUntraced(function* (this: StepCalls, call: Prepared) {
    const run = this.#run
    const prepared = yield* this.#withFiles(yield* this.#options.admit(run, call))
    if (prepared._tag !== "Begun") yield* (yield* CallTurns).await(call.part.task_id)
    const made = run.stages.within("tool")(this.#places.within((place) => this.#make(prepared, place)))
    const isOfClient = prepared._tag !== "Refused" && prepared.tool.kind === "client"
    const result = yield* isOfClient && this.#turns !== undefined ? this.#turns.withPermit(made) : made
    // The last tool has ended, and other calls still wait.
    const { stage } = run
    if (stage === "approval" || stage === "client") run.given.journal.append([run.progressed(stage)], [])
    return result
  })

  /** Refuses a call whose arguments name files that it cannot get. */
  #withFiles(call: Prepared): Effect.Effect<Prepared, StorageError> {
    if (call._tag !== "Ready") return Effect.succeed(call)
    const { input, part, tool } = call
    return Effect.map(this.#options.files.problem(tool, input), (message): Prepared =>
      message === undefined ? call : { _tag: "Refused", part, tool, state: "invalid", input, message }
    )
  }

  readonly #make = Effect.fnUntraced(function* (this: StepCalls, admitted: Prepared, place: Place) {
    const prepared = CallEffect.keyed(this.#run, admitted)
    const begun = yield* Monotonic.now
    const did = yield* this.#identify(prepared)
    if (prepared._tag === "Begun") {
      const { deadline, endsAt, resumed } = this.#run.given
      // Another process has started it, by another clock. What is left of the plan says how late it is by the clock of the deadline.
      const now = deadline - (endsAt - begun)
      const spent = resumed === undefined ? 0 : Resumption.spentBefore(resumed, prepared.task, now)
      return yield* this.#dispatch(prepared, place, did, begun - spent)
    }
    // Before it starts: what is refused is stored with its end, or not at all.
    yield* this.#run.given.journal.keepUp
    const now = yield* Clock.currentTimeMillis
    // Another process has started a call that is refused only now.
    if (this.#run.tasks.get(prepared.part.task_id) === undefined) this.#start(prepared, did, now)
    if (prepared._tag === "Ready") return yield* this.#dispatch(prepared, place, did, begun)
    const { state, message, code = state } = prepared
    return this.#answer(prepared, did, { state, content: message, error: { code, message } }, now)
  })

  /** Who the agent of a call is: it may have to be asked, which counts as a part of the call. */
  #identify(prepared: Prepared): Effect.Effect<AgentDid | null> {
    if (prepared._tag === "Refused") return Effect.succeed(null)
    const { tool } = prepared
    return Effect.map(Effect.timeoutOption(tool.identify, this.#limitOf(tool)), Option.getOrNull)
  }

  #limitOf(tool: Tool): number {
    return limitOf(tool, this.#run, this.#options.timeoutMs)
  }

  /** Tells that a task has started; of one that is refused that is its end, too. */
  #start(prepared: Exclude<Prepared, { readonly _tag: "Begun" }>, did: AgentDid | null, now: number): void {
    const { part, tool } = prepared
    const task: TaskStart = {
      task_id: part.task_id,
      tool: part.tool,
      kind: tool?.kind ?? "local",
      agent: tool?.agent ?? null,
      endpoint: tool?.endpoint ?? null,
      skill: tool?.skill ?? null,
      input: prepared._tag === "Ready" ? prepared.input : shownInput(prepared.input),
      state: prepared._tag === "Ready" ? "running" : prepared.state
    }
    const agent = { agent_did: did?.did ?? null, agent_did_source: did?.source ?? null }
    const claim = prepared._tag === "Ready" ? CallEffect.claimed(prepared, now) : []
    this.#run.tasks.start(task, tool?.isIdempotent ?? false, agent, [...claim, this.#run.progressed("tool")], now)
  }

  readonly #dispatch = Effect.fnUntraced(function* (
    this: StepCalls,
    prepared: Dispatched,
    place: Place,
    did: AgentDid | null,
    since: number
  ) {
    const { tool, input, part } = prepared
    const { tasks, given } = this.#run
    // The intent is stored before the call leaves.
    yield* given.journal.flush
    const limit = this.#limitOf(tool)
    const waited = CallEffect.settle(this.#options.store, this.#run, prepared, limit - ((yield* Monotonic.now) - since))
    const settled = yield* prepared.effectKey === undefined ? Effect.undefined : place.leave(waited)
    if (settled !== undefined) {
      yield* (yield* CallTurns).await(part.task_id)
      return this.#answer(prepared, did, settled, yield* Clock.currentTimeMillis)
    }
    if (given.isOverdue()) {
      // Another process may have the plan by now, and somebody may have been told that the call was not made: only a write says so.
      given.journal.append([this.#run.progressed("tool")], [])
      yield* given.journal.flush
    }
    const spent = (yield* Monotonic.now) - since
    const { remote_context_id: contextId = null, remote_task_id: taskId = null } = tasks.get(part.task_id) ?? {}
    const resumes = taskId === null ? undefined : { taskId, contextId }
    const wait = given.resumed?.waits.get(part.task_id)
    // Its time stands still, however late this process is: its client may have given the result.
    const isAtClient = prepared._tag === "Begun" && wait?.kind === "result"
    // The peer may have finished while nobody asked.
    const inTime = resumes === undefined || spent < limit ? limit - spent : Math.min(lastLook, limit)
    const left = isAtClient ? limit : inTime
    const seen = new Set(prepared._tag === "Begun" ? given.resumed?.seen : [])
    let hasArtifact = false
    const files = new CallFiles(part.task_id, this.#options.files.keep, (event) => this.#show(seen, event))
    tasks.resume(part.task_id)
    if (left <= 0) {
      const late = { ...timedOut(tool, limit, prepared._tag === "Begun"), isUnsent: true }
      yield* (yield* CallTurns).await(part.task_id)
      return this.#answer(prepared, did, late, yield* Clock.currentTimeMillis, this.#effectOf(late, prepared))
    }
    const sent = yield* this.#options.files.sentWith(tool, input)
    if (sent === undefined) return this.#answer(prepared, did, withoutFile, yield* Clock.currentTimeMillis)
    const time = new CallTime(left)
    const waitsFor = AccountWaits.left(this.#run, waitOfCall(part.task_id))
    const awaitAccount = (needed: NeededAccount) =>
      place.leave(time.stop(this.#awaitAccount(prepared, needed, () => limit - time.left)))
    const made = tool.call({
      ...sent,
      asked: wait?.kind === "answer" ? wait : undefined,
      ask: (question) => place.leave(time.stop(this.#ask(prepared, question, () => limit - time.left))),
      awaitAccount,
      continues: waitsFor?.resumes,
      taskId: part.task_id,
      idempotencyKey: CallEffect.idempotencyKeyOf(this.#run, prepared.effectKey),
      resumes,
      // A peer that has asked something about an earlier effect gets no other one for an answer.
      isOther: prepared.effectKey !== undefined && (prepared._tag === "Begun" || prepared.follows === undefined),
      isHandedOver: () => this.#run.isHandedOver(part.task_id),
      onEvent: (event) => {
        hasArtifact ||= event._tag === "Artifact"
        return this.#tell(part.task_id, seen, files, event)
      }
    })
    const isUnsent = waitsFor !== undefined && waitsFor.resumes === undefined && resumes === undefined
    const call =
      waitsFor === undefined
        ? made
        : Effect.flatMap(awaitAccount({ ...waitsFor, message: "" }), (isThere) =>
            isThere ? made : Effect.succeed(isUnsent ? expiredUnsent : expired)
          )
    const ending = Effect.map(
      time.limit(call),
      Option.getOrElse(() => timedOut(tool, limit, true))
    )
    const ended = yield* ToolSpan.observe(ending, {
      tool,
      input,
      taskId: part.task_id,
      preset: this.#run.given.preset
    })
    yield* (yield* CallTurns).await(part.task_id)
    // Who watches the stream sees what the model reads, though the tool gave it as its bare result. An error is shown with the end.
    const isBare = !hasArtifact && ended.content !== "" && ended.content !== ended.error?.message
    const artifact = { content: ended.content, mediaType: "text/plain", verified: ended.verified }
    const shown = isBare ? [shownArtifact(part.task_id, artifact, this.#options.resultLimit)] : []
    // The text of a result with files is shown at once: the end waits until they are stored.
    const hasFiles = (ended.files ?? []).length > 0
    if (hasFiles) for (const event of shown) this.#show(seen, event)
    const end = yield* files.ended(ended)
    const last = hasFiles ? [] : shown.filter((event) => !isSeen(seen, event))
    const now = yield* Clock.currentTimeMillis
    return this.#answer(prepared, did, end, now, this.#effectOf(end, prepared, isUnsent), last)
  })

  /** A call that another process has begun may have arrived, though this one could not make it again; unless that one had not sent it. */
  #effectOf(end: ToolResult, { _tag, part }: Dispatched, isUnsent = false): EffectEnd {
    const isBegun = _tag === "Begun" && !isUnsent
    return CallEffect.endOf(end, isBegun || this.#run.tasks.get(part.task_id)?.remote_task_id != null)
  }

  /** Waits until the call can be made as the caller. Any process can go on with it: nothing was sent, or its server knows it. */
  #awaitAccount(
    { input, part, tool }: Dispatched,
    { account, found, mark, message }: NeededAccount,
    spent: () => number
  ): Effect.Effect<boolean> {
    const run = this.#run
    const { task_id } = part
    const waiter = { id: waitOfCall(task_id), tool: part.tool, agent: tool.agent, input, spent }
    const wait = { account, found, task_id, message, ...(mark !== undefined && { resumes: mark }) }
    return Effect.acquireUseRelease(
      Effect.sync(() => run.tasks.pause(task_id, true)),
      () => AccountWaits.ask(run, this.#options.lookAgain, waiter, wait),
      () => Effect.sync(() => run.tasks.pause(task_id, false))
    ).pipe(
      run.stages.instead("tool", "client"),
      Effect.catchTag("StorageError", (error) => {
        run.stop(error)
        return Effect.never
      })
    )
  }

  /** Opens what the call waits for, unless another process has done so, and waits for what settles it. */
  #ask({ input, part, tool }: Dispatched, question: CallQuestion, spent: () => number): Effect.Effect<Settlement> {
    const run = this.#run
    const results = this.#results
    const { task_id } = part
    const { journal, request, resumed } = run.given
    const { isHeld = false, kind, mark, round, schema, ...shown } = question
    const { timeoutMs = request.preferences.wait_timeout_ms, ...said } = shown
    const known = resumed?.waits.get(task_id)
    const opened = known?.kind === kind && known.round === round ? known : undefined
    const used = run.inbox.settlementOf(task_id) === undefined ? opened?.settlement : undefined
    const open = Effect.fnUntraced(function* (expires_at: string) {
      if (kind !== "timer") yield* (yield* CallTurns).await(task_id)
      yield* journal.keepUp
      const call = { task_id, kind, round, tool: part.tool, agent: tool.agent, input, expires_at }
      const { data = null, message = null, url = null } = said
      const rest = { why: null, schema, message, data, url, tool_digest: null, known_tool: null, mark: mark ?? null }
      journal.append(
        [{ _tag: "WaitOpened", ...call, ...rest, spent_ms: spent(), left_ms: timeoutMs }, run.progressed(run.stage)],
        // Nobody has to do anything for the time.
        kind === "timer" ? [] : [{ event: "waiting", data: { ...call, kind, ...said } }]
      )
    })
    const waiting = Effect.gen(function* () {
      const expires_at = opened?.expires_at ?? fromMillis((yield* Clock.currentTimeMillis) + timeoutMs)
      if (opened === undefined) yield* open(expires_at)
      else journal.append([run.progressed(run.stage)], [])
      run.tasks.pause(task_id, mark !== undefined)
      const settlement = yield* run.inbox
        .wait({ task_id, kind, round, expires_at, isHeld })
        .pipe(
          Effect.onInterrupt(() => Effect.sync(() => isHeld && journal.append([{ _tag: "WaitEnded", task_id }], [])))
        )
      run.tasks.pause(task_id, false)
      if (kind === "answer") GivenRecord.keep(journal, settlement)
      if (kind === "result") {
        results.set(task_id, settlement)
        return settlement
      }
      journal.append(run.inbox.use(settlement), [])
      // Before anything is done with it: so it is used in this call, whoever finishes that.
      yield* journal.flush
      return settlement
    }).pipe(
      Effect.catchTag("StorageError", (error) => {
        run.stop(error)
        return Effect.never
      })
    )
    if (used !== undefined) return Effect.succeed(used)
    // A time that has passed is no wait: nothing is stored, and the plan is not parked.
    if (timeoutMs === 0 && opened === undefined) {
      return Effect.succeed({ task_id, round, given: undefined, tool_digest: null })
    }
    return run.stages.instead("tool", "client")(kind === "result" ? run.given.unread(waiting) : waiting)
  }

  /** Tells what a call says on its way. */
  #tell(task_id: TaskId, seen: Set<string>, files: CallFiles, event: PeerEvent): Effect.Effect<void> {
    const { journal } = this.#run.given
    return Effect.suspend(() => {
      if (event._tag === "Accepted") {
        const { remoteContextId: remote_context_id, remoteTaskId: remote_task_id } = event
        this.#run.tasks.accept(task_id, { remote_task_id, remote_context_id })
      } else if (event._tag === "Progress" || event.files === undefined || event.content !== null) {
        const shown =
          event._tag === "Progress"
            ? shownProgress(task_id, event)
            : shownArtifact(task_id, event, this.#options.resultLimit)
        this.#show(seen, shown)
      }
      const told = Effect.ignore(journal.keepUp)
      if (event._tag !== "Artifact" || event.files === undefined) return told
      const { verified } = event
      return Effect.andThen(
        Effect.forEach(event.files, (file) => files.take(file, verified), { discard: true }),
        told
      )
    })
  }

  /** Shows an event, unless another process has shown it. */
  #show(seen: Set<string>, event: ShownEvent): void {
    if (!isSeen(seen, event)) this.#run.tasks.tell(event)
  }

  /** `effect` is what the call has done, if it was its to do; `last` is shown with its end. */
  #answer(
    prepared: Prepared,
    did: AgentDid | null,
    result: StoredResult,
    now: number,
    effect?: EffectEnd,
    last: ReadonlyArray<ShownEvent> = []
  ): Answer {
    const { task_id, tool } = prepared.part
    const { text } = Envelope.truncate(result.content, this.#options.resultLimit)
    const isForeign = prepared._tag !== "Refused" && fromOutside.has(prepared.tool.kind)
    const { verified = "unknown", note = prepared._tag === "Refused" ? undefined : prepared.note } = result
    const source = { tool, agent: prepared.tool?.agent ?? null, did: did?.did ?? null, verified }
    const said = isForeign ? Envelope.wrap(this.#options.delimiter, source, text) : text
    const content = note === undefined ? said : `${said}\n${note}`
    const given = result.state === "timed-out" ? undefined : this.#results.get(task_id)
    const taken = given === undefined ? [] : this.#run.inbox.use(given)
    const isOurs = prepared._tag !== "Refused" && prepared.effectKey !== undefined && effect !== undefined
    const ended: ReadonlyArray<PlanChange> = isOurs ? [{ _tag: "EffectEnded", task_id, state: effect }] : []
    this.#run.tasks.finish(task_id, { ...result, result: result.content }, content, now, [...taken, ...ended], last)
    return { result: { type: "tool_result", task_id, state: result.state, content }, files: result.references ?? [] }
  }
}

/** Makes the calls of a step side by side. The results stand in the order of the calls. */
export const runAll = (
  run: PlanRun,
  calls: ReadonlyArray<Prepared>,
  options: Options
): Effect.Effect<ReadonlyArray<Answer>, StorageError> => {
  const step = new StepCalls(run, options)
  return Effect.flatMap(CallTurns, (turns) => {
    turns.expect(calls.map(({ part }) => part.task_id))
    const make = (call: Prepared) => turns.within(call.part.task_id, step.make(call))
    return Effect.forEach(calls, make, { concurrency: "unbounded" })
  })
}
