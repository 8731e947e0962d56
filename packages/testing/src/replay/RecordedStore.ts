import type { PlanId } from "@bowline/domain/plan/Plan"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { DailyBudget } from "@bowline/runtime/config/PlansConfig"
import type * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { pageOf, toFrames } from "@bowline/runtime/unstable/store/EventRow"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { type EffectClaim, type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, Deferred, Effect, Layer, Option } from "effect"
import type { Comparison } from "./Comparison.ts"
import type { RecordedCallers } from "./RecordedCallers.ts"
import { failedByStore, unstoredFrom } from "./RecordedEnd.ts"
import { isUnsent } from "./RecordedErrors.ts"
import { refusing } from "./RecordedFiles.ts"
import { forkedFrom } from "./RecordedFork.ts"
import { callsIn, isComparable, ownMessages, type Segment } from "./RecordedTakeovers.ts"
import { failsInQueue } from "./RecordedSession.ts"
import { CurrentCall } from "./RecordedWorld.ts"
import { fieldsOf, listOf, parsed, type PlanRecording, type RecordedFrame, written } from "./RecordFile.ts"

const whole: Segment = {
  from: 0,
  to: Infinity,
  attempts: { from: 0, to: Infinity },
  allowances: 0,
  blocked: { from: 0, to: Infinity },
  messages: Infinity,
  endsOnly: false,
  model: undefined
}

/** A plan waits for 30 s. */
const awayFor = 31_000

const noLimits = { tokens: Infinity, tool_calls: Infinity }

/** Frames that readers also get of a call that was not made. */
const ofUnmade = new Set(["approval.requested", "approval.resolved", "task.started", "task.finished"])

const messagesIn = (changes: PlanCommit["changes"]): number =>
  changes.filter(({ _tag }) => _tag === "MessageAppended").length

/** The plan that runs again, as far as its store knows it. */
export class ReplayedPlan {
  readonly #recording: PlanRecording
  readonly #comparison: Comparison
  #id: PlanId | undefined
  #looks = 0
  #seq = 0
  #messages = 0
  /** In milliseconds of the clock: until then the store is away. */
  #awayUntil: number | undefined
  readonly #away = Deferred.makeUnsafe<void>()
  #segment: Segment
  #left = Deferred.makeUnsafe<void>()
  /** Whether the next process may take the plan over. */
  mayTake: boolean
  /** The next plan that is created is it. */
  isNext = false
  callers: RecordedCallers | undefined

  constructor(recording: PlanRecording, comparison: Comparison) {
    this.#recording = recording
    this.#comparison = comparison
    this.#segment = comparison.segments[0] ?? whole
    this.mayTake = !failsInQueue(recording)
  }

  get id(): PlanId | undefined {
    return this.#id
  }

  /** What the process that has the plan runs of it. */
  get segment(): Segment {
    return this.#segment
  }

  /** Returns as soon as all is stored that this process has stored, and nothing is done any more: then it is gone. */
  get left(): Effect.Effect<void> {
    return Effect.andThen(Deferred.await(this.#left), Effect.sleep(1))
  }

  /** Another process has the plan from now on. */
  leave(segment: Segment): void {
    this.#segment = segment
    this.#looks = segment.allowances
    this.#left = Deferred.makeUnsafe<void>()
    this.callers = undefined
    this.mayTake = false
    const kept = new Set(callsIn(ownMessages(this.#recording).slice(0, this.#messages)))
    this.#comparison.forget((call) => !kept.has(call))
    this.#look()
  }

  #look(): void {
    const { messages, to } = this.#segment
    if (this.#comparison.came.length >= to && this.#messages >= messages) Deferred.doneUnsafe(this.#left, Effect.void)
  }

  /** Fails while the store is away, if it was away when the plan was about to store the frames in front of its end. */
  #beforeWrite({ events }: PlanCommit): Effect.Effect<void, StorageError> {
    return this.#failIfAway(events.filter(isComparable).reduce((sum, row) => sum + row.count, 0))
  }

  /** Waits until the store is away. */
  get away(): Effect.Effect<void> {
    return Deferred.await(this.#away)
  }

  /** The same in front of a read of the planner. What the planner has written before is stored first. */
  get beforeRead(): Effect.Effect<void, StorageError> {
    if (!failedByStore(this.#recording)) return Effect.void
    return Effect.andThen(
      Effect.sleep(1),
      Effect.suspend(() => this.#failIfAway(0, true))
    )
  }

  /** `count` frames are about to be stored. */
  #failIfAway(count: number, isRead = false): Effect.Effect<void, StorageError> {
    const { attempts, came } = this.#comparison
    // It was there until the last attempt had begun.
    const isBehind =
      came.length + count > unstoredFrom(this.#recording, this.#comparison) &&
      attempts >= this.#recording.attempts.length
    if (this.#awayUntil === undefined && !isBehind) return Effect.void
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      this.#awayUntil ??= now + awayFor
      Deferred.doneUnsafe(this.#away, Effect.void)
      // The writes are stored at last. It may be a later read for which the plan has failed.
      const isAway = isRead || now < this.#awayUntil
      const reason = new Unavailable({ cause: "It was away" })
      return isAway ? Effect.fail(new StorageError({ reason })) : Effect.void
    })
  }

  /** Whether this process has not stored that before it was gone. */
  #isBeyond({ changes, events }: PlanCommit): boolean {
    const { messages, to } = this.#segment
    if (this.#comparison.came.length < to) return false
    return events.some(isComparable) || this.#messages + messagesIn(changes) > messages
  }

  /** How long this was being stored, in milliseconds, at least: the time of a call was over before it could leave. */
  #delayOf({ events }: PlanCommit): number {
    const started = events
      .filter(({ event }) => event === "task.started")
      .map(({ payload }) => this.#comparison.recordedIdOf(String(fieldsOf(parsed(payload))["task_id"])))
    const late = this.#recording.calls.filter(isUnsent).filter(({ task_id }) => started.includes(task_id))
    const ends = this.#comparison.expected.filter(
      ({ data, event }) =>
        event === "task.finished" && late.some(({ task_id }) => task_id === fieldsOf(data)["task_id"])
    )
    return Math.max(0, ...ends.map(({ data }) => Number(fieldsOf(data)["duration_ms"])))
  }

  /** Whether it parks the plan, which something that is not on record has kept from it. */
  #parksTooEarly({ changes, events }: PlanCommit): boolean {
    const { came, expected } = this.#comparison
    const count = events.filter(isComparable).reduce((sum, row) => sum + row.count, 0)
    return changes.some(({ _tag }) => _tag === "Parked") && expected[came.length + count - 1]?.event !== "parked"
  }

  /** Aborts the plan instead of a write that takes from the inbox, if the record has the abort between the events of that write. */
  #abortsInstead({ changes, events, inbox }: PlanCommit): Effect.Effect<boolean> {
    const { came, expected } = this.#comparison
    const place = this.callers?.abortPlace ?? Infinity
    const next = events.filter(isComparable)[place - came.length]
    const isWithin = place > came.length && next !== undefined && next.event !== expected[place]?.event
    const isEnd = changes.some(({ _tag }) => _tag === "Settled")
    if (inbox?.closes !== true || !isWithin || isEnd) return Effect.succeed(false)
    return Effect.as(this.callers?.abortAt(place) ?? Effect.void, true)
  }

  /** What its caller may use up, when the plan looks next: of the last look there is no record where the plan ended meanwhile. Numbers without an end are null in the record. */
  get budget(): DailyBudget | undefined {
    const { allowances } = this.#recording
    // It may have been aborted as it looked for the first time.
    const first = this.callers?.abortsBeforeStep === true ? { budget: noLimits } : {}
    const { budget } = allowances[this.#looks] ?? allowances.at(-1) ?? first
    return (
      budget &&
      written<DailyBudget>(
        Object.fromEntries(Object.entries(budget).map(([name, limit]: [string, unknown]) => [name, limit ?? Infinity]))
      )
    )
  }

  /** Whose the effect of a call was when it was to be approved, or made; undefined if the record does not say. */
  #claimOf(call: string | undefined): Option.Option<EffectClaim> | undefined {
    const recorded = this.#recordedIdOf(call)
    const before = this.#isStarted(call) ? "call" : "approval"
    const { claims } = this.#recording
    const { claim } = claims.find((one) => one.task_id === recorded && one.before === before) ?? {}
    if (claim !== undefined) {
      // Calls of the plan itself have other ids here.
      const task_id = TaskId.make(this.#comparison.replayedTask(claim.task_id) ?? claim.task_id)
      return Option.some({ ...claim, task_id })
    }
    // No claim is on record of a call whose time was over before it could leave: it had its effect.
    const isLate = before === "call" && this.#recording.calls.some((one) => one.task_id === recorded && isUnsent(one))
    if (claims.length === 0 && !isLate) return undefined
    // A claim that made somebody approve the call would be on record. The store may have one: of an earlier call of the plan, whose effect was another plan's there.
    if (before === "approval") return Option.none()
    // A claim of another call would be on record as well: a call that was made had its effect.
    if (call === undefined || this.#id === undefined || !this.#isMade(recorded)) return undefined
    const own = { task_id: TaskId.make(call), plan_id: this.#id, at: fromMillis(0) }
    return Option.some({ ...own, state: "running", result: null, taskId: null, contextId: null })
  }

  /**
   * How long it took to read whose the effect of a call is while another call waited for a person already, in milliseconds. The wait of the call
   * is over so much later than that of the other one.
   */
  #readTime(call: string | undefined): number {
    const { expected } = this.#comparison
    const recorded = this.#recordedIdOf(call)
    const isAsked = ({ data, event }: RecordedFrame) =>
      event === "approval.requested" && fieldsOf(data)["task_id"] === recorded
    const at = this.#isStarted(call) ? -1 : expected.findIndex(isAsked)
    const [before, asked] = [expected[at - 1], expected[at]]
    if (before?.event !== "approval.requested" || asked === undefined) return 0
    return Math.max(Date.parse(asked.at) - Date.parse(before.at), 0)
  }

  #recordedIdOf(call: string | undefined): string | undefined {
    return call === undefined ? undefined : this.#comparison.recordedIdOf(call)
  }

  #isStarted(call: string | undefined): boolean {
    return this.#comparison.came.some(({ data, event }) => event === "task.started" && data["task_id"] === call)
  }

  /** Whether the store was away before the plan knew whose the effect of the call was: it has begun, and was not made. */
  #isUnread(call: string | undefined): boolean {
    const { calls } = this.#recording
    const recorded = this.#recordedIdOf(call)
    const isOpen = calls.some(({ remote_task_id, task_id }) => task_id === recorded && remote_task_id === null)
    return failedByStore(this.#recording) && this.#isStarted(call) && isOpen && !this.#isMade(recorded)
  }

  /** Whether the call was made: readers have seen more of it than that it began, or it has ended by itself. */
  #isMade(recorded: string | undefined): boolean {
    const { calls, frames } = this.#recording
    const has = frames.some(({ data, event }) => fieldsOf(data)["task_id"] === recorded && !ofUnmade.has(event))
    return has || calls.some(({ state, task_id }) => task_id === recorded && state !== "interrupted")
  }

  /** Effects that another plan had as calls were to be made: that one has claimed them here, too. */
  #claimedThen<Commit extends PlanCommit>(commit: Commit): Commit {
    const { claims, plan } = this.#recording
    const changes = commit.changes.map((change) => {
      if (change._tag !== "EffectClaimed") return change
      const recorded = this.#comparison.recordedIdOf(change.task_id)
      const { claim } = claims.find(({ before, task_id }) => before === "call" && task_id === recorded) ?? {}
      return claim === undefined || claim.plan_id === plan.plan_id ? change : { ...change, task_id: claim.task_id }
    })
    return { ...commit, changes }
  }

  /** The model is told when an earlier call was made. */
  readonly #asThen = (claim: EffectClaim): EffectClaim => {
    const recorded = this.#comparison.recordedIdOf(claim.task_id)
    const { started_at } = this.#recording.calls.find(({ task_id }) => task_id === recorded) ?? {}
    return started_at === undefined ? claim : { ...claim, at: started_at }
  }

  /** Compares what was stored of the plan since, in its order. */
  #take(store: PlanStore["Service"]): Effect.Effect<void, StorageError> {
    return Effect.suspend(() => {
      if (this.#id === undefined) return Effect.void
      return Effect.map(store.events(this.#id, this.#seq, 10_000), (rows) => {
        for (const { event, payload, seq } of rows.flatMap(toFrames)) {
          if (seq <= this.#seq) continue
          this.#seq = seq
          this.#comparison.take({ event, data: fieldsOf(JSON.parse(payload)) })
        }
        this.#look()
      })
    })
  }

  /** What the planner asks for, unless somebody has aborted the plan while it waited for that, or the store was away. */
  #unlessAborted<A, E>(asked: Effect.Effect<A, E>): Effect.Effect<A, E | StorageError> {
    return Effect.suspend(() => {
      const { callers } = this
      if (callers?.isAborting === true) return Effect.andThen(callers.abort, Effect.never)
      return Effect.andThen(this.beforeRead, asked)
    })
  }

  /** What nobody else can know of the plan: who says what at which instant, and what others have used up. */
  #around(store: PlanStore["Service"]): PlanStore["Service"] {
    const { expected } = this.#comparison
    const other = forkedFrom(this.#recording)
    return {
      ...store,
      // Plans are parked where what is stored outlives the process: here as it was there.
      isDurable: expected.some(({ event }) => event === "parked"),
      create: (plan, maxQueue) =>
        Effect.tap(store.create(plan, maxQueue), () => {
          if (this.#id !== undefined || !this.isNext) return Effect.void
          this.#id = plan.plan_id
          return this.#take(store)
        }),
      commit: (batch) =>
        Effect.gen({ self: this }, function* () {
          const own = batch.find(({ plan_id }) => plan_id === this.#id)
          if (own !== undefined && this.#isBeyond(own)) return yield* Effect.never
          if (own !== undefined) yield* this.#beforeWrite(own)
          if (own?.inbox?.closes === true && this.callers !== undefined) {
            const count = own.events.reduce((sum, row) => sum + row.count, 0)
            // They were heard before this was stored: now it is not, and the plan hears them.
            yield* this.callers.textsBefore(this.#comparison.came.length + count)
          }
          if (own !== undefined && ((yield* this.#abortsInstead(own)) || this.#parksTooEarly(own))) {
            return new Map([[own.plan_id, "unread" as const]])
          }
          const told = yield* store.commit(batch.map((one) => (one === own ? this.#claimedThen(one) : one)))
          const how = own && told.get(own.plan_id)
          if (own !== undefined && how !== "refused" && how !== "unread") this.#messages += messagesIn(own.changes)
          const delay = own === undefined ? 0 : this.#delayOf(own)
          if (delay > 0) yield* Effect.sleep(delay)
          yield* this.#take(store)
          if (this.callers !== undefined) yield* this.callers.abort
          return told
        }),
      // Who aborts the plan tells its process so.
      abortRequests: (replica) =>
        Effect.map(store.abortRequests(replica), (requests) => requests.filter(({ plan_id }) => plan_id !== this.#id)),
      // Who has ended the plan where the record says so could not go on with it.
      takeOver: (...asked) =>
        Effect.suspend(() => {
          if (!this.mayTake) return Effect.succeed([])
          const { endsOnly, from, model } = this.#segment
          // A plan that it has parked itself has its model in its row.
          const found = this.#comparison.came.length > from ? undefined : model
          const deaths = endsOnly ? Infinity : 0
          const taken = Effect.map(store.takeOver(...asked), (plans) =>
            // The credentials that the process before found had a part in the choice of the model.
            plans.map(({ plan, ...rest }) => ({ ...rest, deaths, plan: { ...plan, model: found ?? plan.model } }))
          )
          return Effect.andThen(this.callers?.textsOnWaking ?? Effect.void, taken)
        }),
      // The plan asks for it in front of its first frame of its own: not before all has happened that did in the queue.
      keepText: (digest, text) => {
        // One that fails before that has only its end. It may wait for an account before.
        const isOver = this.#recording.begins.length > 0 || failedByStore(this.#recording)
        const first = isOver ? ["plan", "waiting", "error"] : ["plan"]
        const began = expected.findIndex(({ event }) => first.includes(event))
        const kept = this.#unlessAborted(store.keepText(digest, text))
        return Effect.andThen(began < 0 ? Effect.never : this.#comparison.before(began), kept)
      },
      claimOf: (owner, key) =>
        Effect.gen({ self: this }, function* () {
          const call = yield* CurrentCall
          if (this.#isUnread(call)) yield* this.away
          yield* this.beforeRead
          yield* Effect.sleep(this.#readTime(call))
          const known = this.#claimOf(call)
          return known ?? Option.map(yield* store.claimOf(owner, key), this.#asThen)
        }),
      spent: (owner, day) =>
        this.#unlessAborted(
          Effect.suspend(() => {
            const { spent } = this.#recording.allowances[this.#looks++] ?? {}
            return spent === undefined ? store.spent(owner, day) : Effect.succeed(spent)
          })
        ),
      ...(other !== undefined && {
        recorded: (owner, id) => (id === other.plan_id ? Effect.succeed(other.recorded) : store.recorded(owner, id)),
        events: (id, after, limit) =>
          id === other.plan_id ? Effect.succeed(pageOf(other.rows, after, limit)) : store.events(id, after, limit)
      })
    }
  }

  /** The digests of tools of which readers are told next that their caller knew others. */
  #changed(): ReadonlySet<unknown> {
    const { came, expected, nextStep } = this.#comparison
    const notices = expected
      .slice(came.length, nextStep)
      .map(({ data }) => fieldsOf(data))
      .filter(({ code }) => code === "description_changed")
    return new Set(notices.flatMap(({ data }) => listOf(fieldsOf(data)["tools"]).map(({ digest }) => digest)))
  }

  /** Whether somebody is asked about a call since its tool has changed. */
  get #asksAboutChange(): boolean {
    const { came, expected } = this.#comparison
    return expected.slice(came.length).some(({ data }) => fieldsOf(data)["why"] === "description_changed")
  }

  /** Tools that somebody had approved for the session, in front of the plan. */
  #isKnownTool(tool: string): boolean {
    const called = this.#recording.frames.map(({ data, event }) => ({ event, tool: fieldsOf(data)["tool"] }))
    const has = (name: string) => called.some((frame) => frame.event === name && frame.tool === tool)
    return has("task.started") && !has("approval.requested")
  }

  /** The stores of the run, in memory. */
  layer(stores: Layer.Layer<MemoryStore.Stores>) {
    const around = Layer.effectContext(
      Effect.gen({ self: this }, function* () {
        const inboxes = yield* InboxStore
        const store = yield* PlanStore
        const leases = yield* LeaseStore
        const files = refusing(this.#recording, yield* FileStore)
        const isRemembered: (typeof inboxes)["isRemembered"] = (session, tool) =>
          Effect.andThen(
            this.beforeRead,
            this.#isKnownTool(tool) ? Effect.succeed(true) : inboxes.isRemembered(session, tool)
          )
        return Context.make(PlanStore, this.#around(store)).pipe(
          Context.add(FileStore, files),
          Context.add(LeaseStore, {
            ...leases,
            acquire: (...asked) => Effect.andThen(this.beforeRead, leases.acquire(...asked))
          }),
          Context.add(InboxStore, {
            ...inboxes,
            isRemembered,
            meetTools: (owner, digests, now) =>
              Effect.gen({ self: this }, function* () {
                yield* this.beforeRead
                const [changed, asks] = [this.#changed(), this.#asksAboutChange]
                // The next process finds the other one, too, unless somebody approves a call meanwhile.
                const others = Array.from(digests).filter(([, digest]) => changed.has(digest))
                yield* inboxes.meetTools(owner, new Map(others.map(([tool]) => [tool, "another"])), now)
                const known = yield* inboxes.meetTools(owner, digests, now)
                const own = Array.from(known, ([tool, digest]) => {
                  // Other plans of its caller have met it meanwhile.
                  const told = asks ? digest : (digests.get(tool) ?? digest)
                  return [tool, changed.has(told) ? "another" : told] as const
                })
                return new Map(own)
              }),
            // What is said to a plan that is parked is told by the store.
            accept: (...said) => Effect.tap(inboxes.accept(...said), () => this.#take(store))
          })
        )
      })
    )
    return Layer.provideMerge(around, stores)
  }
}
