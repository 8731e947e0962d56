import { A2aError, invalidParams } from "@bowline/a2a/unstable/server/A2aError"
import type { ServedTask, ServedUpdate } from "@bowline/a2a/unstable/server/ServedTask"
import { type Shown, TaskFold } from "@bowline/a2a/unstable/server/TaskFold"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { framesBehind, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { type TaskPlan, TaskStore, type ToldPlan } from "@bowline/runtime/unstable/store/TaskStore"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect } from "effect"
import { Accounts } from "../../http/ConnectedAccounts.ts"
import * as ShownFiles from "../../http/ShownFiles.ts"

/** What tasks are started, read and followed by. */
export const services = Effect.all({
  plans: Plans,
  streams: PlanStreams,
  follower: PlanFollower,
  store: PlanStore,
  tasks: TaskStore,
  shown: ShownFiles.make,
  /** The link by which a person connects an account, as it is good now. */
  linkOf: Effect.map(Accounts, (accounts): Shown["linkOf"] => accounts?.freshen ?? ((url) => url))
})
export type Services = Effect.Success<typeof services>

/** The place of an update in a task: the number of its plan in the chain, and the seq of its frame there. */
export interface Cursor {
  readonly plan: number
  readonly seq: number
}

/** What a frame changes, if it shows something, and its place. Behind the last of its updates a reader may come back with `id`. */
export interface Change {
  readonly id: string
  readonly at: Cursor
  readonly updates: ReadonlyArray<ServedUpdate>
}

/** The seq, and for a later plan of the task also its number. */
export const idOf = ({ plan, seq }: Cursor): string => (plan === 0 ? String(seq) : `${plan}.${seq}`)

export const changeAt = (at: Cursor, updates: ReadonlyArray<ServedUpdate>): Change => ({ id: idOf(at), at, updates })

const cursorOf = (id: string): Cursor | undefined => {
  const [, plan = "0", seq] = /^(?:(\d{1,9})\.)?(\d{1,9})$/.exec(id) ?? []
  return seq === undefined ? undefined : { plan: Number(plan), seq: Number(seq) }
}

/** The cancellation of a task that waited stands behind its last plan, as if it were the first event of another one. */
export const behind = ({ plan }: Cursor): Cursor => ({ plan: plan + 1, seq: 1 })

export const isBehind = (a: Cursor, b: Cursor): boolean => a.plan > b.plan || (a.plan === b.plan && a.seq > b.seq)

/** A task as far as it is stored: its fold, the place of the last frame in it, and the changes that the reader has not seen. */
export interface OpenTask {
  readonly caller: CallerName
  readonly task: PlanId
  readonly fold: TaskFold
  /** The files of its artifacts. */
  readonly files: ShownFiles.ShownFiles
  readonly at: Cursor
  readonly plan: TaskPlan
  readonly missed: ReadonlyArray<Change>
}

const partOf =
  (files: ShownFiles.ShownFiles): Shown["fileOf"] =>
  ({ file_id }) => {
    const file = files.of(file_id)
    if (file === undefined) return undefined
    const place = "url" in file ? { uri: file.url } : { bytes: file.data }
    return { _tag: "File", mediaType: file.media_type, name: file.name, ...place }
  }

const foldOf = ({ linkOf }: Services, task: PlanId, first: TaskPlan, files: ShownFiles.ShownFiles): TaskFold =>
  new TaskFold(task, first.plan.external_session_id ?? first.plan.session_id, first, { fileOf: partOf(files), linkOf })

export const notFound = (id: string): A2aError =>
  new A2aError({ error: "TaskNotFound", message: `There is no task ${JSON.stringify(id.slice(0, 100))}` })

/** The plan of this number in the chain of the task as it is now, and the one behind it. */
export const chainAt = Effect.fnUntraced(function* ({ tasks }: Services, caller: CallerName, task: PlanId, at: number) {
  const chain = yield* tasks.plans(caller, task)
  return { plan: chain[at] ?? chain[0], next: chain[at + 1] }
})

/** The plans of the task, with what they have come to. */
const rowsOf = Effect.fnUntraced(function* ({ tasks }: Services, caller: CallerName, task: PlanId) {
  const [first, ...later] = yield* tasks.told(caller, [task])
  return first?.plan.plan_id === task ? ([first, ...later] as const) : yield* new NotFound({ what: "plan" })
})

/**
 * Reads what is stored of a task: the rows of its plans, and the events behind what they tell. With the id of a change (`after`) it reads
 * all events: those behind it are the ones that were missed. What its
 * client has `decided` or answered is awaited no more.
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
    // What was missed is told by the events alone.
    const chain = yield* seen === undefined ? rowsOf(services, caller, task) : services.tasks.plans(caller, task)
    const [first] = chain
    const files = services.shown(caller)
    const fold = foldOf(services, task, first, files)
    for (const id of decided) fold.decide(id)
    const missed: Array<Change> = []
    let at: Cursor = { plan: 0, seq: 0 }
    const add = (updates: ReadonlyArray<ServedUpdate>) => {
      if (updates.length > 0 && seen !== undefined && isBehind(at, seen)) missed.push(changeAt(at, updates))
    }
    let plan: TaskPlan & Partial<ToldPlan> = first
    for (;;) {
      // The first plan's beginning is what every reader starts with.
      const begun = fold.begin(plan)
      let updates = at.plan === 0 ? [] : begun
      const { gist = null } = plan
      if (gist !== null) {
        const { events, seq } = yield* PlanGist.read(services.store, { plan: plan.plan, gist })
        yield* files.load(events)
        for (const event of events) fold.tell(event, event.seq)
        // The end is the event before `done`.
        at = { ...at, seq: fold.hasEnded ? seq - 1 : seq }
      }
      while (!fold.hasEnded) {
        const frames = yield* framesBehind(services.store, plan.plan.plan_id, at.seq)
        yield* files.loadFrames(frames)
        for (const frame of frames) {
          at = { ...at, seq: frame.seq }
          updates = [...updates, ...fold.next(frame)]
          // The end of the plan belongs to the same frame.
          if (fold.hasEnded) break
          add(updates)
          updates = []
        }
        if (frames.length === 0) break
      }
      if (!fold.hasEnded) break
      const { next, plan: settled } = isSettled(plan.plan)
        ? { next: chain[at.plan + 1], plan }
        : yield* chainAt(services, caller, task, at.plan)
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
    return { caller, task, fold, files, at, plan, missed } satisfies OpenTask
  },
  (opening, _services, _caller, task) => Effect.catchTag(opening, "NotFound", () => Effect.fail(notFound(task)))
)

/** The task before its first event. */
export const begin = Effect.fnUntraced(function* (services: Services, caller: CallerName, task: PlanId) {
  const [plan] = yield* services.tasks.plans(caller, task)
  const files = services.shown(caller)
  const fold = foldOf(services, task, plan, files)
  fold.begin(plan)
  return { caller, task, fold, files, at: { plan: 0, seq: 0 }, plan, missed: [] } satisfies OpenTask
})

/** The place behind all that is stored of the task. */
export const placeBehind = ({ at, fold }: OpenTask): Cursor => (fold.hasEnded ? { plan: at.plan + 1, seq: 0 } : at)

const taskOf = Effect.fnUntraced(function* (
  services: Services,
  chain: readonly [ToldPlan, ...ReadonlyArray<ToldPlan>],
  files: ShownFiles.ShownFiles,
  isAlone: boolean
) {
  const [first] = chain
  const fold = foldOf(services, first.task_id, first, files)
  for (const [index, told] of chain.entries()) {
    fold.begin(told)
    const { events } = yield* PlanGist.read(services.store, told)
    // The tasks of a list have the lines of their files.
    if (isAlone) yield* files.load(events)
    for (const event of events) fold.tell(event, event.seq)
    const isLast = index === chain.length - 1
    if (fold.hasEnded) fold.end(told.plan, !isLast)
    else fold.stand()
    if (isLast && told.cancelled_at !== null) fold.cancel(told.cancelled_at)
  }
  return fold.task
})

/** A task as its plans' rows tell it, and those. */
interface ToldTask {
  readonly task: ServedTask
  readonly chain: ReadonlyArray<ToldPlan>
  readonly last: ToldPlan
}

/** The tasks of these ids that there are, by their ids. */
export const tell = Effect.fnUntraced(function* (services: Services, caller: CallerName, ids: ReadonlyArray<PlanId>) {
  const chains = Map.groupBy(yield* services.tasks.told(caller, ids), ({ task_id }) => task_id)
  const found = new Map<PlanId, ToldTask>()
  for (const [id, [first, ...later]] of chains) {
    if (first?.plan.plan_id !== id) continue
    const chain = [first, ...later] as const
    const task = yield* taskOf(services, chain, services.shown(caller), ids.length === 1)
    found.set(id, { task, chain, last: later.at(-1) ?? first })
  }
  return found
})
