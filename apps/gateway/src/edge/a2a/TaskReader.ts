import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import type { ServedUpdate } from "@bowline/a2a/unstable/server/ServedTask"
import { TaskFold } from "@bowline/a2a/unstable/server/TaskFold"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { Plans } from "@bowline/runtime/plan/Plans"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { toFrames } from "@bowline/runtime/unstable/store/EventRow"
import type { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { isOver, type TaskPlan, type TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import type { PlanReader, Reading } from "@bowline/runtime/unstable/stream/LivePlan"
import { Effect, Stream } from "effect"

export interface Services {
  readonly plans: Plans["Service"]
  readonly streams: PlanStreams["Service"]
  readonly store: PlanStore["Service"]
  readonly tasks: TaskStore["Service"]
}

/** The place of an update in a task: the number of its plan in the chain, and the seq of its frame there. */
export interface Cursor {
  readonly plan: number
  readonly seq: number
}

/** What a frame changes. Behind the last of its updates a reader may come back with `id`. */
export interface Change {
  readonly id: string
  readonly updates: ReadonlyArray<ServedUpdate>
}

/** The seq, and for a later plan of the task also its number. */
const idOf = ({ plan, seq }: Cursor): string => (plan === 0 ? String(seq) : `${plan}.${seq}`)

const cursorOf = (id: string): Cursor | undefined => {
  const [, plan = "0", seq] = /^(?:(\d{1,9})\.)?(\d{1,9})$/.exec(id) ?? []
  return seq === undefined ? undefined : { plan: Number(plan), seq: Number(seq) }
}

/** The cancellation of a task that waited stands behind its last plan, as if it were the first event of another one. */
const behind = ({ plan }: Cursor): Cursor => ({ plan: plan + 1, seq: 1 })

export const isBehind = (a: Cursor, b: Cursor): boolean => a.plan > b.plan || (a.plan === b.plan && a.seq > b.seq)

/** A task as far as it is stored: its fold, the place of the last frame in it, and the changes that the reader has not seen. */
export interface OpenTask {
  readonly caller: CallerName
  readonly task: PlanId
  readonly fold: TaskFold
  readonly at: Cursor
  readonly plan: TaskPlan
  readonly missed: ReadonlyArray<Change>
  /** The id of the place. */
  readonly id: string
}

const pageSize = 500

/** How long a reader waits before it reads on, when its plan moves to another process. */
const comeBackAfter = "250 millis"

export const notFound = (id: string): A2aError =>
  new A2aError({ error: "TaskNotFound", message: `There is no task ${JSON.stringify(id.slice(0, 100))}` })

/** The chain when its plan of this number is settled, as it soon is: its last frames are there. */
const settledChain = Effect.fnUntraced(function* ({ tasks }: Services, caller: CallerName, task: PlanId, at: number) {
  for (;;) {
    const chain = yield* tasks.plans(caller, task)
    const plan = chain[at]
    if (plan !== undefined && isSettled(plan.plan)) return { plan, next: chain[at + 1] }
    yield* Effect.sleep("50 millis")
  }
})

/**
 * Reads what is stored of a task. With the id of a change (`after`), those behind it are the ones that were missed. Calls that its
 * client has `decided` about do not wait any more.
 */
export const open = Effect.fnUntraced(
  function* (
    services: Services,
    caller: CallerName,
    task: PlanId,
    { after, decided = [] }: { readonly after?: string; readonly decided?: ReadonlyArray<string> }
  ) {
    const seen = after === undefined ? undefined : cursorOf(after)
    if (after !== undefined && seen === undefined) {
      return yield* invalidParams([{ path: "Last-Event-ID", message: "Expected the id of an event of this task" }])
    }
    const chain = yield* services.tasks.plans(caller, task)
    const [first] = chain
    const fold = new TaskFold(task, first.plan.external_session_id ?? first.plan.session_id, first)
    for (const id of decided) fold.decide(id)
    const missed: Array<Change> = []
    let at: Cursor = { plan: 0, seq: 0 }
    const add = (updates: ReadonlyArray<ServedUpdate>) => {
      if (updates.length > 0 && seen !== undefined && isBehind(at, seen)) missed.push({ id: idOf(at), updates })
    }
    let plan: TaskPlan = first
    for (;;) {
      // The first plan's beginning is what every reader starts with.
      const begun = fold.begin(plan)
      let updates = at.plan === 0 ? [] : begun
      for (;;) {
        const rows = yield* services.store.events(plan.plan.plan_id, at.seq, pageSize)
        for (const frame of rows.flatMap(toFrames)) {
          if (frame.seq <= at.seq) continue
          at = { ...at, seq: frame.seq }
          updates = [...updates, ...fold.next(frame)]
          // The end of the plan belongs to the same frame.
          if (fold.hasEnded) break
          add(updates)
          updates = []
        }
        if (rows.length === 0 || fold.hasEnded) break
      }
      if (!fold.hasEnded) break
      const { next, plan: settled } = yield* settledChain(services, caller, task, at.plan)
      plan = settled
      add([...updates, ...fold.end(settled.plan, next !== undefined)])
      if (next === undefined && settled.cancelled_at !== null) {
        at = behind(at)
        add(fold.cancel(settled.cancelled_at))
      }
      if (next === undefined) break
      plan = next
      at = { plan: at.plan + 1, seq: 0 }
    }
    if (seen !== undefined && isBehind(seen, at)) {
      return yield* invalidParams([
        { path: "Last-Event-ID", message: "Expected no more than the last event of the task" }
      ])
    }
    return { caller, task, fold, at, plan, missed, id: idOf(at) } satisfies OpenTask
  },
  (opening, _services, _caller, task) => Effect.catchTag(opening, "NotFound", () => Effect.fail(notFound(task)))
)

/** The task before its first event. */
export const begin = Effect.fnUntraced(function* ({ tasks }: Services, caller: CallerName, task: PlanId) {
  const [plan] = yield* tasks.plans(caller, task)
  const fold = new TaskFold(task, plan.plan.external_session_id ?? plan.plan.session_id, plan)
  fold.begin(plan)
  const at: Cursor = { plan: 0, seq: 0 }
  return { caller, task, fold, at, plan, missed: [], id: idOf(at) } satisfies OpenTask
})

/** The place behind all that is stored of the task. */
export const placeBehind = ({ at, fold }: OpenTask): Cursor => (fold.hasEnded ? { plan: at.plan + 1, seq: 0 } : at)

interface Following {
  readonly join?: (connect: Reading["connect"]) => void
  readonly until?: "rest" | "end"
  /** Whether a task that waits for its client at first is followed all the same, until it is over or waits again. */
  readonly isPatient?: boolean
}

/**
 * How long a reader waits before it looks whether the client of a task has answered, in milliseconds; at first, and at most. When the
 * gateway shuts down, its streams have two seconds to end.
 */
const answerWait = { first: 250, longest: 1_500 }

/** The plan that answers what the task waits for, or when the task was cancelled; undefined if this gateway shuts down first. */
const awaitAnswer = Effect.fnUntraced(function* (
  { plans, tasks }: Services,
  caller: CallerName,
  task: PlanId,
  at: number
) {
  for (let wait = answerWait.first; ; wait = Math.min(wait * 2, answerWait.longest)) {
    const chain = yield* tasks.plans(caller, task)
    const answer = chain[at + 1] ?? chain[at]?.cancelled_at ?? undefined
    if (answer !== undefined || (yield* plans.isDraining)) return answer
    yield* Effect.sleep(wait)
  }
})

/**
 * Follows a task from where it is open, wherever its plans run: until it is over or waits for its client or, to the `end`, until all its
 * plans are over. Gives its place then, and undefined if this gateway shuts down first. `join` closes the connection of a reader that
 * is cut off and reads no more.
 */
export const follow = <E, R>(
  services: Services,
  { at: from, caller, fold, plan: opened, task }: OpenTask,
  emit: (change: Change, at: Cursor) => Effect.Effect<void, E, R>,
  { join = () => undefined, isPatient = false, until = "rest" }: Following = {}
) =>
  Effect.gen(function* () {
    let at = from
    let plan = opened
    let pending: ReadonlyArray<ServedUpdate> = []
    let isAnswered = !isPatient
    const isDone = () => until === "rest" && (isOver(fold.standing) || (isAnswered && fold.isWaiting))
    const tell = (updates: ReadonlyArray<ServedUpdate>) => {
      isAnswered ||= updates.some(({ _tag }) => _tag === "Status")
      return updates.length === 0 ? Effect.void : emit({ id: idOf(at), updates }, at)
    }
    const cancel = (cancelled_at: string) => {
      at = behind(at)
      return tell(fold.cancel(cancelled_at))
    }
    const begin = (next: TaskPlan) => {
      plan = next
      at = { plan: at.plan + 1, seq: 0 }
      pending = fold.begin(next)
    }
    const readOut = (frames: PlanReader) =>
      frames.pipe(
        Stream.filter((item) => typeof item !== "string"),
        Stream.takeUntil((item) => typeof item !== "string" && item.event === "done"),
        Stream.runForEachWhile((item) => {
          if (typeof item === "string" || item.seq <= at.seq) return Effect.succeed(true)
          at = { ...at, seq: item.seq }
          const updates = [...pending, ...fold.next(item)]
          pending = fold.hasEnded ? updates : []
          if (fold.hasEnded) return Effect.succeed(false)
          return Effect.map(tell(updates), () => !isDone())
        })
      )
    // Its plan is over, and the end is told.
    if (!isDone() && until === "rest" && fold.hasEnded) {
      const answer = yield* awaitAnswer(services, caller, task, at.plan)
      if (answer === undefined) return undefined
      if (typeof answer !== "string") begin(answer)
      else yield* cancel(answer)
    }
    while (!isDone()) {
      yield* Effect.scoped(
        Effect.flatMap(services.streams.read(caller, plan.plan.plan_id, at.seq), ({ frames, connect }) => {
          join(connect)
          return readOut(frames)
        })
      )
      if (isDone()) return at
      if (!fold.hasEnded) {
        if (yield* services.plans.isDraining) return undefined
        yield* Effect.sleep(comeBackAfter)
        continue
      }
      const { next, plan: settled } = yield* settledChain(services, caller, task, at.plan)
      const updates = [...pending, ...fold.end(settled.plan, next !== undefined)]
      pending = []
      yield* tell(updates)
      if (next === undefined && settled.cancelled_at !== null) yield* cancel(settled.cancelled_at)
      if (next === undefined) return at
      begin(next)
    }
    return at
  })
