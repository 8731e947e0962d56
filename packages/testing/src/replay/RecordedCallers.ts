import type { NewEntry } from "@bowline/domain/plan/Inbox"
import { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { TaskId } from "@bowline/domain/tool/TaskState"
import * as CallerTokens from "@bowline/runtime/unstable/auth/CallerTokens"
import { type Decider, Inbox } from "@bowline/runtime/plan/Inbox"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStore, questionId } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect, Struct } from "effect"
import type { Comparison } from "./Comparison.ts"
import { isExpired } from "./RecordedErrors.ts"
import { isComparable, type Segment } from "./RecordedTakeovers.ts"
import { abortIn, type How } from "./RecordedEnd.ts"
import { isOf } from "./RecordedProviders.ts"
import { fieldsOf, listOf, parsed, type PlanRecording, written } from "./RecordFile.ts"

/** What somebody outside has done to the plan: as soon as so many frames have come. */
interface Act {
  place: number
  /** The frame from which on it could be done, if it settles what a call waits for. */
  readonly from: number
  readonly isText: boolean
  /** It was there as the process took the plan over, though no frame tells that before. */
  readonly isEarly: boolean
  /** So many attempts have begun before: one of them is what it has interrupted. */
  readonly attempts: number
  readonly isAbort: boolean
  /** It comes as the end of the plan is about to be stored. */
  isLast: boolean
  readonly does: Effect.Effect<unknown, { readonly _tag: string }>
  isDone: boolean
}

/** The callers of the plan on record: they say what they said, each time as soon as all in front of it has come. */
export class RecordedCallers {
  readonly #acts: ReadonlyArray<Act>
  readonly #comparison: Comparison
  /** What was said in front of this frame was said before any process of theirs had the plan. */
  readonly #told: number

  private constructor(acts: ReadonlyArray<Act>, comparison: Comparison, told: number) {
    this.#acts = acts
    this.#comparison = comparison
    this.#told = told
  }

  static readonly of = Effect.fnUntraced(function* (
    recording: PlanRecording,
    comparison: Comparison,
    plan_id: PlanId,
    how: How,
    segment: Segment
  ) {
    const { endsOnly, from, to } = segment
    const inbox = yield* Inbox
    const plans = yield* Plans
    const store = yield* PlanStore
    const wake = yield* CallerTokens.makeWake
    const { entries } = recording
    const frames = comparison.expected.map(({ data, event }) => ({ event, data: fieldsOf(data) }))
    const acts: Array<Act> = []
    const add = (index: number, does: Act["does"], is: Partial<Omit<Act, "does" | "isDone" | "place">> = {}) =>
      acts.push({
        place: index,
        does,
        from: Infinity,
        isText: false,
        isEarly: false,
        attempts: 0,
        isAbort: false,
        isLast: false,
        ...is,
        isDone: false
      })
    /** Where something was accepted that tools of the client may have come with, and those. */
    const accepted: Array<number> = []
    const given = new Map<number, ReadonlyArray<ClientTool>>()
    const accept = (index: number, by: Decider, entry: () => NewEntry) => {
      accepted.push(index)
      return Effect.suspend(() => inbox.accept(by, plan_id, entry(), undefined, given.get(index)))
    }
    // Here the times of all waits are over at once. So one that outlasted another one is settled as soon as it is opened; its call shows that in its turn.
    const sayAt = (opened: number, told: number) => {
      const since = Math.max(opened + 1, from)
      return told < to && outlasts(recording, frames.slice(since, told)) ? since : told
    }
    const replayed = (task: string) => TaskId.make(comparison.replayedTask(task) ?? task)
    for (const [index, { data, event }] of frames.entries()) {
      const by = {
        caller: typeof data["by"] === "string" ? CallerName.make(data["by"]) : recording.plan.caller,
        isAdmin: true
      }
      const task = String(data["task_id"])
      if (event === "inbox.accepted") {
        const entry = entries.find(({ entry_id }) => entry_id === data["entry_id"])
        const isNow = isUrgent(frames, index, to)
        const when = isNow ? "now" : "boundary"
        const otherwise = entry?.state === "untaken" ? "reject" : "ask"
        const text = String(data["text"])
        const said = { type: "text", text, when, else: otherwise, ...filesOf(recording, text) } as const
        add(
          index,
          accept(index, by, () => said),
          {
            isText: true,
            attempts: isNow ? attemptsBefore(recording, data["entry_id"]) : summariesBefore(recording, data["entry_id"])
          }
        )
      }
      const withdrawn = event === "inbox.moved" && entries.find(({ entry_id }) => entry_id === data["entry_id"])
      if (withdrawn && withdrawn.state === "withdrawn") {
        const accepted = frames.findIndex(
          (frame) => frame.event === "inbox.accepted" && frame.data["entry_id"] === withdrawn.entry_id
        )
        add(
          index,
          Effect.suspend(() =>
            inbox.withdraw(
              { caller: withdrawn.by, isAdmin: true },
              plan_id,
              EntryId.make(String(comparison.came[accepted]?.data["entry_id"]))
            )
          )
        )
      }
      if (event === "approval.resolved" && !isExpired(data)) {
        const { decision, note } = data
        const decided = {
          decision: written<"approve" | "reject">(decision),
          ...(typeof note === "string" && { note }),
          ...givenTo(recording, task)
        }
        const asked = frames.findLastIndex((frame, at) => at < index && frame.data["task_id"] === task)
        // The process before has asked: a call whose tool is gone since then waits for nothing.
        const isEarly = asked < from && frames.slice(from, index).every((frame) => frame.event !== "parked")
        add(
          sayAt(asked, index),
          Effect.suspend(() => inbox.decide(by, { plan_id, task_id: replayed(task) }, decided)),
          { from: asked, isEarly }
        )
      }
      if (event !== "waiting") continue
      if (data["kind"] === "account") {
        const end = grantOf(recording, frames, index)
        const account = typeof data["url"] === "string" ? data["url"] : null
        if (end !== undefined) add(end, wake(recording.plan.caller, account), { from: index })
        continue
      }
      const end =
        comparison.placeOfAnswer(task, data["round"]) ??
        frames.findIndex((frame, at) => at > index && isOfCall(frame, task))
      if (end < 0) continue
      const entry = data["kind"] === "result" ? resultOf(recording, task) : answerOf(recording, task, data)
      if (entry === undefined) continue
      add(
        sayAt(index, end),
        accept(end, by, () => ({ ...entry, task_id: replayed(task) })),
        { from: index }
      )
    }
    for (const { place, tools } of clientTools(recording)) {
      const said = Math.max(...accepted.filter((index) => index <= place))
      given.set(said, tools)
    }
    const abort = abortIn(recording, comparison, how, segment)
    if (abort !== undefined) {
      const cancel = plans.cancel(recording.plan.caller, plan_id)
      // What its provider has reported by then is told, and what was given by then is taken: it has to come first.
      const isBehind = abort === comparison.behindGivens || ["usage", "woken"].includes(frames[abort]?.event ?? "")
      const isAtOnce = !how.abortsLate && !isBehind
      const attempts = attemptsTo(recording, comparison.expected[abort])
      add(abort, isAtOnce ? cancel : Effect.delay(cancel, 1), isAtOnce ? { isAbort: true } : { attempts })
    }
    // The process that was woken by the abort has heard of it later.
    const woken = frames.findLastIndex(({ data, event }) => event === "woken" && data["because"] === "abort")
    if (woken >= 0 && woken < (abort ?? Infinity)) add(woken, store.requestAbort(plan_id, "cancelled"))
    const next = comparison.segments.find((segment) => segment.from === to)
    const error = frames.findIndex((frame) => frame.event === "error")
    // Nobody is told of what was said last, while the plan was ended; unless it has woken the plan.
    const askedAt = (task: string | null) => {
      const last = frames.findLastIndex(({ data, event }) => asks.has(event) && data["task_id"] === task)
      return last < 0 ? Infinity : last
    }
    for (const entry of entries) {
      const isTold = frames.some(({ data }) => data["entry_id"] === entry.entry_id)
      const said = isTold || entry.state !== "untaken" ? undefined : saidBy(entry, replayed)
      if (said === undefined || error < 0 || endsOnly) continue
      const does = Effect.suspend(() => inbox.accept({ caller: entry.by, isAdmin: true }, plan_id, said()))
      if (next?.endsOnly === true) add(to - 1, Effect.andThen(comparison.before(to), does))
      else add(error, does, { from: askedAt(entry.task_id), isText: true, isLast: true })
    }
    for (const [index, { data, event }] of frames.entries()) {
      if (event !== "woken" || data["because"] !== "entry" || acts.some(({ place }) => place === index)) continue
      const waking = acts
        .filter(({ from, place }) => from < index && place > index)
        .sort((one, other) => one.place - other.place)[0]
      if (waking === undefined) continue
      waking.place = index
      waking.isLast = false
    }
    const cut = frames[to - 1]
    const isCut = cut?.event === "usage" && !recording.attempts.some((attempt) => isOf(attempt, cut))
    // Its process has handed it over, and has told what was used up by then.
    if (isCut && to > from) add(to - 1, plans.drain)
    const own = acts.filter(({ place }) => place >= from && place < to)
    const told = frames.findIndex(({ event }, index) => index >= from && event !== "inbox.accepted")
    return new RecordedCallers(own, comparison, told)
  })

  /** Does what was done while no process had the plan. */
  get before(): Effect.Effect<void> {
    const acts = this.#acts.filter(
      ({ isAbort, isEarly, isLast, place }) => !isAbort && !isLast && (isEarly || place <= this.#told)
    )
    return Effect.forEach(acts, (act) => this.#do(act), { discard: true })
  }

  /** Does everything, each thing in its place. */
  get acts(): Effect.Effect<void> {
    const acts = this.#acts.filter(({ isLast }) => !isLast)
    const when = ({ attempts, place }: Act) =>
      Effect.andThen(this.#comparison.before(place), this.#comparison.begun(attempts))
    return Effect.forEach(acts, (act) => Effect.andThen(when(act), this.#do(act)), {
      concurrency: "unbounded",
      discard: true
    })
  }

  /** Whether somebody aborts the plan behind what has come of it. */
  get isAborting(): boolean {
    return this.#acts.some(({ isAbort, place }) => isAbort && place <= this.#comparison.came.length)
  }

  /** Whether somebody aborts the plan in front of its next step. */
  get abortsBeforeStep(): boolean {
    const { came, expected } = this.#comparison
    const isNext = (place: number) => expected.slice(came.length, place).every(({ event }) => event !== "step")
    return this.#acts.some(({ isAbort, place }) => isAbort && place < expected.length && isNext(place))
  }

  /** The frame in front of which somebody aborts the plan, if nobody has yet. */
  get abortPlace(): number | undefined {
    return this.#acts.find(({ isAbort, isDone }) => isAbort && !isDone)?.place
  }

  /** Aborts the plan, if it was aborted here: before it does anything else. */
  get abort(): Effect.Effect<void> {
    return this.abortAt(this.#comparison.came.length)
  }

  /** The same, as if `place` frames had come. */
  abortAt(place: number): Effect.Effect<void> {
    const due = this.#acts.filter((act) => act.isAbort && !act.isDone && act.place <= place)
    return Effect.forEach(due, (act) => Effect.forkChild(this.#do(act), { startImmediately: true }), { discard: true })
  }

  /** Says every text that was said in front of the frame with this index. */
  textsBefore(index: number): Effect.Effect<void> {
    return Effect.forEach(
      this.#acts.filter(({ isText, place }) => isText && place < index),
      (act) => this.#do(act),
      { discard: true }
    )
  }

  /** Says the texts that were said to a plan that was woken, before a process had it. */
  get textsOnWaking(): Effect.Effect<void> {
    const { came, expected } = this.#comparison
    const woken = came.length
    const isWoken = this.#acts.some(({ isDone, place }) => isDone && place === woken)
    if (expected[woken]?.event !== "woken" || !isWoken) return Effect.void
    const behind = expected.findIndex(({ event }, index) => index > woken && event !== "inbox.accepted")
    const acts = this.#acts.filter(({ isText, place }) => isText && place > woken && place < behind)
    return Effect.forEach(acts, (act) => this.#do(act), { discard: true })
  }

  #do(act: Act): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (act.isDone) return Effect.void
      act.isDone = true
      return Effect.ignore(act.does)
    })
  }
}

/** The tools that the client has given with something that it said, with the number of frames in front of what has followed from that. */
const clientTools = ({ frames, sources }: PlanRecording) =>
  sources.flatMap(({ place, sources: { client } }) => {
    const told = client !== undefined && "told" in client ? fieldsOf(client.told) : {}
    const tools = written<ReadonlyArray<ClientTool> | undefined>(told["tools"])
    return tools === undefined ? [] : [{ place: frames.slice(0, place).filter(isComparable).length, tools }]
  })

const filesIn = (messages: PlanRecording["messages"]): ReadonlyArray<FileId> =>
  messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === "file" && "file_id" in part ? [part.file_id] : []))
  )

/** The files of a text that was said to the plan. */
const filesOf = ({ messages, plan }: PlanRecording, text: string) => {
  const said = messages.find(
    (message) =>
      message.plan_id === plan.plan_id &&
      message.role === "user" &&
      message.message_id !== questionId(plan.plan_id) &&
      message.parts.some((part) => part.type === "text" && part.text === text) &&
      filesIn([message]).length > 0
  )
  return said === undefined ? {} : { files: filesIn([said]) }
}

/** What an entry of which no frame tells may have said: nobody has read it. */
const saidBy = (
  { task_id, text, type }: PlanRecording["entries"][number],
  replayed: (task: string) => TaskId
): (() => NewEntry) | undefined => {
  const untold = "It is not on record"
  switch (type) {
    case "text":
      return () => ({ type, text: text ?? "", when: "boundary", else: "reject" })
    case "decision":
      return () => ({ type, task_id: replayed(task_id ?? ""), decision: "reject" })
    case "answer":
      return () => ({ type, task_id: replayed(task_id ?? ""), text: untold })
    case "result":
      return () => ({ type, task_id: replayed(task_id ?? ""), content: untold })
    default:
      return undefined
  }
}

interface Frame {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/** How many attempts had begun as this frame told what one of them had used. */
const attemptsTo = ({ attempts, frames }: PlanRecording, used: PlanRecording["frames"][number] | undefined): number => {
  if (used?.event !== "usage") return 0
  const before = attempts.filter(({ place }) => place <= frames.indexOf(used))
  return before.length + (before.some((attempt) => isOf(attempt, used)) ? 0 : 1)
}

/** How many attempts were over as this text was taken. */
const attemptsBefore = ({ attempts, frames }: PlanRecording, entry: unknown): number => {
  const taken = frames.findIndex(({ data, event }) => event === "inbox.taken" && fieldsOf(data)["entry_id"] === entry)
  return attempts.filter(({ place }) => place <= taken).length
}

/** How many attempts had begun as this text was told, if the last one was at a summary, of which nothing else is told. */
const summariesBefore = ({ attempts, frames }: PlanRecording, entry: unknown): number => {
  const told = frames.findIndex(({ data, event }) => event === "inbox.accepted" && fieldsOf(data)["entry_id"] === entry)
  return attempts.findLastIndex(({ place, step }) => place === told && step === 0) + 1
}

/** What tells that a call waits for somebody. */
const asks = new Set(["waiting", "approval.requested"])

/** What comes of a text that interrupts an answer. */
const ofSteering = new Set(["inbox.accepted", "inbox.taken", "text.retract", "usage"])

/** Whether the text was taken in the middle of a step, at once, by the process that ends at `to`. Others that were there already are taken with it. */
const isUrgent = (frames: ReadonlyArray<Frame>, index: number, to: number): boolean => {
  const entry = frames[index]?.data["entry_id"]
  const taken = frames.findIndex(({ data, event }) => event === "inbox.taken" && data["entry_id"] === entry)
  const step = frames.findLast(({ event }, at) => at < taken && event === "step")
  if (step === undefined || frames[taken]?.data["step"] !== step.data["step"]) return false
  // The next process takes what this one has left to it.
  if (taken >= to && frames.slice(index, to).every(({ event }) => event !== "text.retract")) return false
  const between = frames.slice(index + 1, taken)
  const steers = between.findIndex(({ event }) => event === "text.retract")
  const isLast = between.slice(0, steers < 0 ? undefined : steers).every(({ event }) => event !== "inbox.accepted")
  return isLast && frames.slice(index, taken).every(({ event }) => ofSteering.has(event))
}

/** Whether the time of another wait was over in these frames, and the plan was not parked in them. */
const outlasts = ({ calls }: PlanRecording, meanwhile: ReadonlyArray<Frame>): boolean => {
  const expired = calls.filter(({ error }) => error?.code === "wait_expired")
  const isEnd = ({ data, event }: Frame) =>
    (event === "approval.resolved" && isExpired(data)) ||
    (event === "task.finished" && expired.some(({ task_id }) => task_id === data["task_id"]))
  return meanwhile.some(isEnd) && meanwhile.every(({ event }) => event !== "parked")
}

/** The frame in front of which an account was granted that a call, or the plan, has waited for; undefined if none was. */
const grantOf = ({ calls }: PlanRecording, frames: ReadonlyArray<Frame>, index: number): number | undefined => {
  // A plan that waits for a server has no call yet.
  const task = frames[index]?.data["task_id"]
  const goesOn = (frame: Frame) => (typeof task === "string" ? isOfCall(frame, task) : !ofWait.has(frame.event))
  const end = frames.findIndex((frame, at) => at > index && goesOn(frame))
  const ended = calls.find(({ task_id }) => task_id === task)?.state
  const isLast = frames[end]?.event === "task.finished" && (ended === "timed-out" || ended === "interrupted")
  return end < 0 || isLast || frames[end]?.event === "error" ? undefined : end
}

/** What a plan tells while it waits. */
const ofWait = new Set(["waiting", "parked", "woken", "inbox.accepted", "inbox.moved"])

/** Whether it tells that a call has gone on. */
const isOfCall = ({ data, event }: Frame, task: string): boolean =>
  data["task_id"] === task && (event.startsWith("task.") || event === "waiting")

/** What was given for a call of the client's tool, if it was taken. */
const resultOf = ({ calls, messages, plan }: PlanRecording, task: string) => {
  const call = calls.find(({ task_id }) => task_id === task)
  if (call?.result == null || call.state === "timed-out" || call.state === "interrupted") return undefined
  const tool = listOf(fieldsOf(plan.request)["tools"]).find(({ name }) => name === call.tool)
  // What has a schema was no text.
  const told = tool?.["output_schema"] === undefined ? call.result : (parsed(call.result) ?? call.result)
  const files = filesIn(
    messages.filter(({ parts }) => parts.some((part) => part.type === "tool_result" && part.task_id === task))
  )
  // The store has written a line for each file.
  const sections = call.result.split("\n\n").map((text) => files.find((id) => text.endsWith(`, ${id}]`)) ?? { text })
  const parts = sections.reduce<ReadonlyArray<{ readonly text: string } | FileId>>((all, next) => {
    const last = all.at(-1)
    if (typeof next === "string" || typeof last !== "object") return [...all, next]
    return [...all.slice(0, -1), { text: `${last.text}\n\n${next.text}` }]
  }, [])
  const content =
    files.length === 0
      ? told
      : parts.map((part) => (typeof part === "string" ? { type: "file", file_id: part } : { type: "text", ...part }))
  return { type: "result" as const, content, ...(call.state === "failed" && { is_error: true }) }
}

/** The process may have died before its record of what was given was stored: of a question without a schema every answer will do, which nobody else sees. */
const answerOf = ({ entries, givens, plan }: PlanRecording, task: string, { data, round }: Frame["data"]) => {
  const { entry } = givens.find((record) => record.entry.task_id === task && record.round === round) ?? {}
  if (entry !== undefined) return entry.type === "answer" ? entry : undefined
  // One that its peer has not waited for has woken the plan all the same.
  const states = plan.state === "completed" ? ["taken", "untaken"] : ["taken"]
  const given = entries.filter((one) => one.type === "answer" && one.task_id === task && states.includes(one.state))
  const isLost = Number(round) <= given.length && data === undefined
  return isLost ? { type: "answer" as const, text: "It is not on record" } : undefined
}

/** More than the decision that frames tell: other arguments, or that it is to be remembered. */
const givenTo = ({ givens }: PlanRecording, task: string) => {
  const entry = givens.map((record) => record.entry).find(({ task_id }) => task_id === task)
  return entry?.type === "decision" ? Struct.pick(entry, ["input", "remember"]) : {}
}
