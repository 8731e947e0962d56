import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { SessionId } from "@bowline/domain/session/Session"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { type Accepting, InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import { type NewFiring, ScheduleStore } from "@bowline/runtime/unstable/store/ScheduleStore"
import { LoginStore } from "@bowline/runtime/unstable/store/LoginStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { EffectStore } from "@bowline/runtime/unstable/store/EffectStore"
import { FeedbackStore } from "@bowline/runtime/unstable/store/FeedbackStore"
import { PushStore } from "@bowline/runtime/unstable/store/PushStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { Context, Duration, Effect, Layer, Scope } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { type Link, Noticeboard } from "./Link.ts"
import type { Moment } from "../scenario/Observed.ts"
import { nameOfQuestion, type World } from "./World.ts"

/** What a store brings. */
export type Stores = MemoryStore.Stores | RateLimiter.RateLimiterStore

const memory = Layer.merge(
  MemoryStore.layerWith({ sessionTtl: Duration.days(30), maxBytes: Infinity }),
  RateLimiter.layerStoreMemory
)

/** How long a request may wait for its count, in milliseconds: as at a database. */
const countPatience = 1_000

/** Counts of requests behind a connection, on which they fail as the SQL store says. */
const countsOver = (counts: RateLimiter.RateLimiterStore["Service"]): RateLimiter.RateLimiterStore["Service"] => ({
  ...counts,
  fixedWindow: (asked) =>
    counts.fixedWindow(asked).pipe(
      Effect.timeout(countPatience),
      Effect.mapError(
        (cause) =>
          new RateLimiter.RateLimiterError({
            reason: new RateLimiter.RateLimitStoreError({ message: "The count of requests cannot be read", cause })
          })
      )
    )
})

/** A plan when it was stored. */
export interface CreatedPlan extends Moment {
  readonly name: string
  readonly replica: string
  readonly caller: CallerName
  readonly session_id: SessionId
  readonly request: PlanRequest
  /** The due time of a schedule that it was created for. */
  readonly firing?: NewFiring | undefined
}

/** The store that all replicas share, and the log of what it does. Its clock is the world's. */
export class Database {
  readonly board = new Noticeboard()
  readonly stores: Context.Context<Stores>
  readonly created = new Map<PlanId, CreatedPlan>()
  readonly #world: World

  private constructor(world: World, stores: Context.Context<Stores>) {
    this.#world = world
    this.stores = stores
    const hear = Context.get(this.stores, Notices).subscribe((heard) => {
      if (heard._tag !== "ListeningChanged") this.board.publish([heard])
    })
    Effect.runSync(Scope.provide(hear, Scope.makeUnsafe()))
  }

  /** Builds the stores in the process of the world, and waits until they hear each other's notices. */
  static async open(world: World, layer: Layer.Layer<Stores> = memory): Promise<Database> {
    let stores: Context.Context<Stores> | undefined
    const build = Effect.map(Layer.buildWithScope(layer, Scope.makeUnsafe()), (built) => void (stores = built))
    world.process.fork(build)
    const isListening = () => stores !== undefined && Context.get(stores, Notices).isListening()
    await world.loop.run(() => isListening() || world.now > 0)
    if (stores === undefined || !isListening()) throw new Error("The stores were not ready at once")
    return new Database(world, stores)
  }

  /** The stores as a replica sees them. */
  of(replica: string, link: Link): Context.Context<Stores> {
    const { over } = link
    const get = <Id extends Stores, Shape>(key: Context.Key<Id, Shape>): Shape => Context.get(this.stores, key)
    return this.stores.pipe(
      Context.add(PlanStore, { ...this.#heard(replica, over(this.#plans(replica), ["reading"])), isDurable: true }),
      Context.add(TaskStore, over(get(TaskStore))),
      Context.add(PushStore, over(get(PushStore))),
      Context.add(EffectStore, over(get(EffectStore))),
      Context.add(FeedbackStore, over(get(FeedbackStore))),
      Context.add(FileStore, over(this.#files(replica))),
      // It does so once a second, on one replica, for all: the faults are those of plans.
      Context.add(InboxStore, over(this.#inboxes(replica), ["expire"])),
      Context.add(SessionStore, over(get(SessionStore))),
      Context.add(LeaseStore, over(get(LeaseStore))),
      Context.add(CredentialStore, over(this.#credentials())),
      Context.add(AccountStore, over(get(AccountStore))),
      Context.add(KeyStore, over(get(KeyStore))),
      Context.add(ScheduleStore, over(get(ScheduleStore))),
      Context.add(LoginStore, over(get(LoginStore))),
      Context.add(RateLimiter.RateLimiterStore, countsOver(over(get(RateLimiter.RateLimiterStore)))),
      Context.add(Notices, link.noticesOf(this.board))
    )
  }

  #plans(replica: string): PlanStore["Service"] {
    const world = this.#world
    const store = Context.get(this.stores, PlanStore)
    const applied = new WeakSet<PlanCommit>()
    return {
      ...store,
      reading: () => Effect.void,
      create: (plan, maxQueue) =>
        Effect.tap(store.create(plan, maxQueue), ({ session_id }) =>
          Effect.sync(() => {
            const { caller, firing, plan_id, request } = plan
            const name = nameOfQuestion(request.question)
            this.created.set(plan_id, { name, replica, caller, session_id, request, firing, ...world.moment() })
            world.tell(replica, name, firing === undefined ? "is created" : `is created for ${fromMillis(firing.due)}`)
          })
        ),
      commit: (batch) =>
        Effect.map(store.commit(batch), (committed) => {
          for (const commit of batch) {
            const how = committed.get(commit.plan_id)
            if (how === "refused" || how === "unread" || applied.has(commit)) continue
            applied.add(commit)
            this.#note(replica, commit)
          }
          return committed
        }),
      takeOver: (...given) =>
        Effect.tap(store.takeOver(...given), (taken) =>
          Effect.sync(() => {
            for (const { plan } of taken) {
              world.takeOvers.push({ ...world.moment(), replica, plan_id: plan.plan_id, heard: undefined })
              world.tell(replica, this.nameOf(plan.plan_id), `takes over, it was ${plan.state}`)
            }
          })
        )
    }
  }

  /** Notes when an answer has reached the replica. */
  #heard(replica: string, store: PlanStore["Service"]): PlanStore["Service"] {
    const { takeOvers } = this.#world
    return {
      ...store,
      takeOver: (...given) =>
        Effect.tap(store.takeOver(...given), (taken) =>
          Effect.sync(() => {
            for (const { plan } of taken) {
              const told = takeOvers.findLast((one) => one.replica === replica && one.plan_id === plan.plan_id)
              if (told !== undefined) told.heard ??= this.#world.now
            }
          })
        )
    }
  }

  /** The name of a plan in the scenario. */
  nameOf(id: PlanId): string {
    return this.created.get(id)?.name ?? ""
  }

  /** The plan with this name in the scenario. */
  createdAs(name: string): CreatedPlan | undefined {
    return Array.from(this.created.values()).find((created) => created.name === name)
  }

  #note(replica: string, { changes, events, plan_id, session_id, ...commit }: PlanCommit): void {
    const world = this.#world
    const last = events.at(-1)
    const first = events[0]
    const seqs = first && last && { first: first.seq, last: last.seq + last.count - 1 }
    const fence = commit.guard.fence
    world.commits.push({ ...world.moment(), replica, plan_id, session_id, fence, changes, events: seqs })
    for (const change of changes) {
      if (change._tag !== "Continued") continue
      const { caller, plan_id, request } = change.plan
      const name = nameOfQuestion(request.question)
      this.created.set(plan_id, { name, replica, caller, session_id, request, ...world.moment() })
      world.tell(replica, name, "is created for what came too late")
    }
    const shown = [
      ...events.filter(({ event }) => !event.endsWith(".delta")).map(({ event }) => event),
      ...changes.flatMap((change) => (change._tag === "Settled" ? [`= ${change.outcome.state}`] : []))
    ]
    if (shown.length > 0) world.tell(replica, this.nameOf(plan_id), `stores ${shown.join(", ")}`)
  }

  /** The acceptance has written the frame of a plan that nobody has. */
  readonly #noteTold = Effect.fnUntraced(function* (this: Database, replica: string, { entry_id, plan_id }: Accepting) {
    const store = Context.get(this.stores, PlanStore)
    let told: EventRow | undefined
    let last: EventRow | undefined
    do {
      const rows = yield* store.events(plan_id, last === undefined ? 0 : last.seq + last.count - 1, 500)
      told = rows.find(({ event, payload }) => event === "inbox.accepted" && payload.includes(entry_id))
      last = rows.at(-1)
    } while (told === undefined && last !== undefined)
    const session_id = this.created.get(plan_id)?.session_id
    if (told === undefined || session_id === undefined) return
    const seqs = { first: told.seq, last: told.seq }
    this.#world.commits.push({
      ...this.#world.moment(),
      replica,
      plan_id,
      session_id,
      fence: 0,
      changes: [],
      events: seqs
    })
    this.#world.tell(replica, this.nameOf(plan_id), "stores inbox.accepted of a parked plan")
  })

  #inboxes(replica: string): InboxStore["Service"] {
    const world = this.#world
    const store = Context.get(this.stores, InboxStore)
    return {
      ...store,
      accept: (accepting) => {
        const { entry, plan_id } = accepting
        const accepted = Effect.tap(store.accept(accepting), (how) =>
          "parked" in how && how.parked === "told" ? this.#noteTold(replica, accepting) : Effect.void
        )
        if (entry.type === "result" || entry.type === "answer") {
          const content = entry.type === "result" ? entry.content : entry.text
          const given = world.given.find((one) => one.task_id === entry.task_id && one.content === content)
          const note = Effect.sync(() => given && (given.accepted ??= world.moment()))
          return Effect.tap(accepted, ({ _tag }) => (_tag === "Accepted" ? note : Effect.void))
        }
        if (entry.type !== "decision") return accepted
        const { decision: asked, task_id } = entry
        const note = (stands: typeof asked) =>
          Effect.sync(() => {
            world.decisions.push({ ...world.moment(), task_id, asked, stands })
            world.tell(replica, this.nameOf(plan_id), `hears ${asked} of a call: ${stands} stands`)
          })
        // Where nobody has decided before, the wait is over: that is a rejection.
        const noteFirst = () => note(world.decisions.find((one) => one.task_id === task_id)?.stands ?? "reject")
        return accepted.pipe(
          Effect.tap(() => note(asked)),
          Effect.tapErrorTag("EntryRefused", ({ code }) => (code === "task_settled" ? noteFirst() : Effect.void))
        )
      }
    }
  }

  #files(replica: string): FileStore["Service"] {
    const store = Context.get(this.stores, FileStore)
    const { begun } = this.#world
    return {
      ...store,
      begin: (upload) =>
        Effect.tap(store.begin(upload), () =>
          Effect.sync(() => begun.set(upload.file_id, { owner: upload.owner, replica }))
        )
    }
  }

  #credentials(): CredentialStore["Service"] {
    const world = this.#world
    const store = Context.get(this.stores, CredentialStore)
    return {
      ...store,
      open: (scope, reason, durations) =>
        Effect.tap(store.open(scope, reason, durations), (isOpened) =>
          Effect.map(store.list, (rows) => {
            const row = rows.find(
              ({ credential, model, provider }) =>
                provider === scope.provider && credential === scope.credential && model === scope.model
            )
            if (!isOpened || row?.window === undefined || row.window === null) return
            const credential = scope.credential ?? scope.provider
            const until = world.now + row.window.leftMs
            world.windows.push({ ...world.moment(), credential, model: scope.model, reason, until })
            world.tell("store", "", `puts ${credential} aside: ${reason}`)
          })
        )
    }
  }
}
