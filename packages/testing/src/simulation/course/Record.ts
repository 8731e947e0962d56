import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { isSettled, PlanId } from "@bowline/domain/plan/Plan"
import * as ModelLimits from "@bowline/runtime/unstable/asking/ModelLimits"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { type PlanChange, PlanStore, type StoredTask } from "@bowline/runtime/unstable/store/PlanStore"
import * as PlanExport from "@bowline/runtime/unstable/record/PlanExport"
import { PushStore } from "@bowline/runtime/unstable/store/PushStore"
import * as StoredFrames from "@bowline/runtime/unstable/stream/StoredFrames"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Context, Duration, Effect, Option, Stream, Struct } from "effect"
import { createHash } from "node:crypto"
import { type Cluster, excess } from "../replica/Cluster.ts"
import type { CreatedPlan, Database, Stores } from "../world/Database.ts"
import type { Left, Observed, ObservedCall, ObservedFile, ObservedPlan, ObservedSession } from "../scenario/Observed.ts"
import { epoch, type Load } from "../process/Process.ts"
import type { ScenarioPlan } from "../scenario/Scenario.ts"
import type { Wires } from "../world/Wires.ts"
import type { Open, World } from "../world/World.ts"

interface Parts {
  readonly world: World
  readonly database: Database
  readonly cluster: Cluster
  readonly wires: Wires
  readonly faultsEnd: number
  /** What goes on in a process that has not had a plan yet. */
  readonly idle: Load
  readonly plans: ReadonlyMap<string, ScenarioPlan>
}

/** The least limit on a provider's silence, in milliseconds. */
const silenceOf = (config: Observed["config"]): number =>
  Math.min(
    ...[config.model, ...config.fallbackModels].flatMap((model) => {
      const { firstToken, idle } = ModelLimits.of(config, model).timers
      return [Duration.toMillis(firstToken), Duration.toMillis(idle)]
    })
  )

const all = 1_000_000

/** How long an upload may be silent, and a little more. */
const maxSilence = 11 * 60_000

/** The calls of a plan, by what was stored of it. */
const tasksOf = (changes: ReadonlyArray<PlanChange>): ReadonlyArray<StoredTask> => {
  const tasks = new Map<string, Open<StoredTask>>()
  for (const change of changes) {
    if (change._tag === "TaskStarted") {
      const { _tag: _, at: started_at, input: __, ...task } = change
      tasks.set(change.task_id, { ...task, started_at, remote_task_id: null, remote_context_id: null })
    }
    const known = "task_id" in change ? tasks.get(change.task_id) : undefined
    if (known === undefined) continue
    if (change._tag === "TaskAccepted") known.remote_task_id = change.remote_task_id
    if (change._tag === "TaskFinished") known.state = change.state
  }
  return Array.from(tasks.values())
}

/** While the plan was parked. */
const parkedOf = ({ commits, takeOvers }: World, id: PlanId): ObservedPlan["parked"] =>
  commits.flatMap(({ at: from, changes, order, plan_id }) => {
    if (plan_id !== id || !changes.some(({ _tag }) => _tag === "Parked")) return []
    const taken = takeOvers.find((one) => one.plan_id === id && one.order > order)
    return [{ from, order, to: taken?.at ?? Infinity }]
  })

const planOf = ({ database, plans, world }: Parts, id: PlanId, created: CreatedPlan) =>
  Effect.gen(function* () {
    const store = Context.get(database.stores, PlanStore)
    const found = yield* Effect.option(store.get(created.caller, id))
    if (Option.isNone(found)) return []
    const { gist } = yield* store.told(created.caller, id)
    const deliveries = yield* Context.get(database.stores, PushStore).deliveries(created.caller, id)
    const inbox = Context.get(database.stores, InboxStore)
    const entries = yield* inbox.list(id, undefined, { limit: all })
    const frames = yield* Stream.runCollect(StoredFrames.between(store, id, 0, all))
    const { at, name, order, replica, request } = created
    const parked = parkedOf(world, id)
    const parkedMs = parked.reduce((sum, { from, to }) => sum + Math.min(to, world.now) - from, 0)
    const changes = world.commits.flatMap(({ changes, plan_id }) => (plan_id === id ? changes : []))
    const observed: ObservedPlan = {
      name,
      replica,
      plan: found.value,
      request,
      budget:
        plans.get(name)?.budget ??
        Struct.pick(request.preferences, ["max_steps", "max_tool_calls", "max_total_tokens"]),
      toolTimeoutMs: plans.get(name)?.toolTimeoutMs ?? Infinity,
      created: { at, order },
      deadline: at + (request.preferences.timeout_ms ?? 0) + parkedMs,
      parked,
      frames,
      gist,
      told: deliveries.map(({ event }) => event),
      tasks: tasksOf(changes),
      inbox: entries.items
    }
    return [observed]
  })

const sessionOf = ({ database }: Parts, session_id: CreatedPlan["session_id"]) =>
  Effect.gen(function* () {
    const store = Context.get(database.stores, SessionStore)
    const { items } = yield* store.messages(session_id, { limit: all })
    const observed: ObservedSession = { session_id, messages: items, summary: yield* store.summary(session_id) }
    return observed
  })

/** What there is of the uploads that have begun, when the sweeper has looked for those that are silent. */
const filesOf = ({ database, world }: Parts) =>
  Effect.gen(function* () {
    const store = Context.get(database.stores, FileStore)
    const later = fromMillis(epoch + world.now + maxSilence)
    yield* Effect.repeat(store.sweep(later), { until: (isMore) => !isMore })
    const owners = new Set(Array.from(world.begun.values(), ({ owner }) => owner))
    const lists = yield* Effect.forEach(owners, (owner) => store.list(owner, { limit: all }))
    const kept = new Set(lists.flatMap(({ items }) => items.map(({ file_id }) => file_id)))
    return yield* Effect.forEach(world.begun, ([file_id, { replica }]) =>
      Effect.gen(function* () {
        const hash = createHash("sha256")
        let seq = 0
        for (; ; seq++) {
          const chunk = yield* Effect.option(store.chunk(file_id, seq))
          if (Option.isNone(chunk)) break
          hash.update(chunk.value)
        }
        const observed: ObservedFile = {
          file_id,
          replica,
          isKept: kept.has(file_id),
          sha256: seq === 0 ? undefined : hash.digest("hex")
        }
        return observed
      })
    )
  })

/** Nobody can have the lease of a session that somebody holds. */
const leaseLeft = ({ database }: Parts, session: CreatedPlan["session_id"]) =>
  Effect.map(
    Effect.option(Context.get(database.stores, LeaseStore).acquire(session, "replica_of_the_end", Duration.zero)),
    (granted): ReadonlyArray<Left> =>
      Option.isSome(granted) && Option.isNone(granted.value) ? [{ what: "lease", replica: "", detail: session }] : []
  )

const runningOf = ({ cluster, database, idle, wires, world }: Parts): ReadonlyArray<Left> => [
  ...cluster.all.flatMap(({ name: replica, process }) =>
    process.isAlive
      ? [
          ...Array.from(process.fibers).flatMap(([plan, count]): ReadonlyArray<Left> =>
            plan === "" || count === 0
              ? []
              : [{ what: "fiber", replica, detail: `${count} of ${database.nameOf(PlanId.make(plan))}` }]
          ),
          ...excess(process.load, idle).map((more): Left => ({ ...more, replica })),
          ...wires.openOf(process).map((url): Left => ({ what: "socket", replica, detail: url.href }))
        ]
      : []
  ),
  ...world.readers.flatMap(({ ended, reader, replica }): ReadonlyArray<Left> =>
    ended === undefined ? [{ what: "reader", replica, detail: reader }] : []
  ),
  ...world.calls.flatMap((call): ReadonlyArray<Left> =>
    call.ended === undefined && isOurs(world, call) ? [{ what: "task", replica: call.replica, detail: call.key }] : []
  )
]

const hasResult = ({ commits }: World, { task_id }: ObservedCall): boolean =>
  commits.some(({ changes }) => changes.some((change) => change._tag === "TaskFinished" && change.task_id === task_id))

/**
 * A task of a peer is the gateway's as long as a process lives that knows it, and has not told the peer to cancel. A call of an MCP server is no
 * longer, once the connection that should bring its result is broken.
 */
const isOurs = (world: World, call: ObservedCall): boolean => {
  if (call.replica !== "") return true
  const isAlive = world.replicas.some(({ ended, replica }) => replica === call.named?.replica && ended === undefined)
  return isAlive && call.cancels.length === 0 && (call.remote_task_id !== null || !hasResult(world, call))
}

/** What is on record of each plan that is over and stored, as an export has it. The stores have to be those in memory. */
export const exported = ({ database, world }: Pick<Parts, "database" | "world">): ReadonlyArray<string> => {
  const get = <Id extends Stores, Shape>(key: Context.Key<Id, Shape>): Shape => Context.get(database.stores, key)
  const stores = {
    store: get(PlanStore),
    sessions: get(SessionStore),
    inboxes: get(InboxStore),
    files: get(FileStore)
  }
  const files = Effect.forEach(database.created, ([id, { caller }]) =>
    Effect.gen(function* () {
      const plan = yield* stores.store.get(caller, id)
      if (!isSettled(plan)) return []
      const lines = yield* PlanExport.linesOf(stores, caller, id)
      return [lines.map((line) => `${JSON.stringify(line)}\n`).join("")]
    }).pipe(Effect.catchTag(["EventsExpired", "NotFound"], () => Effect.succeed([])))
  )
  return Effect.runSyncWith(world.process.context)(files).flat()
}

/** What is known in the end. */
export const collect = (parts: Parts): Observed => {
  const { cluster, database, faultsEnd, world } = parts
  const { config } = cluster.surroundings
  const sessions = Array.from(new Set(Array.from(database.created.values(), ({ session_id }) => session_id)))
  const stored = Effect.gen(function* () {
    const plans = yield* Effect.forEach(database.created, ([id, created]) => planOf(parts, id, created))
    const histories = yield* Effect.forEach(sessions, (session) => sessionOf(parts, session))
    const leases = yield* Effect.forEach(sessions, (session) => leaseLeft(parts, session))
    const files = yield* filesOf(parts)
    return { plans: plans.flat(), sessions: histories, files, left: [...runningOf(parts), ...leases.flat()] }
  })
  // What no replica has stored, nobody can cancel after its death.
  const learned = new Set(
    world.commits.flatMap(({ changes }) =>
      changes.flatMap((change) => (change._tag === "TaskAccepted" ? [change.remote_task_id] : []))
    )
  )
  return {
    ...Effect.runSyncWith(world.process.context)(stored),
    firings: Array.from(database.created).flatMap(([plan_id, { at, firing, order, replica }]) =>
      firing === undefined
        ? []
        : [{ at, order, replica, plan_id, schedule_id: firing.schedule_id, due: firing.due - epoch }]
    ),
    replicas: world.replicas,
    readers: world.readers,
    commits: world.commits,
    takeOvers: world.takeOvers,
    requests: world.requests,
    calls: world.calls.map((call) => ({
      ...call,
      remote_task_id: learned.has(call.remote_task_id) ? call.remote_task_id : null
    })),
    paid: world.paid,
    decisions: world.decisions,
    said: world.said,
    given: world.given,
    answers: world.answers,
    uploads: world.uploads,
    faults: world.faults,
    attempts: world.attempts,
    windows: world.windows,
    resets: world.resets,
    storeAway: world.storeAway,
    lostAnswers: world.lostAnswers,
    probes: world.probes,
    day: world.day,
    config,
    silence: silenceOf(config),
    faultsEnd,
    end: world.now
  }
}
