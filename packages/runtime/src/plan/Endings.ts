import type { PlanId } from "@bowline/domain/plan/Plan"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Effect, Exit, Predicate, Scope } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { Permissions } from "../config/Permissions.ts"
import { Presets } from "../config/Presets.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { PeerClient } from "../remote/PeerClient.ts"
import * as Resumption from "../planner/Resumption.ts"
import { emptyInbox, type InboxContent, InboxStore } from "../store/InboxStore.ts"
import { Notices } from "../store/Notices.ts"
import * as PlanGist from "../store/PlanGist.ts"
import { type AbandonedPlan, type PlanCommit, PlanStore } from "../store/PlanStore.ts"
import * as Abandonment from "./Abandonment.ts"
import * as StoredRequest from "../store/StoredRequest.ts"
import * as LeftTasks from "./LeftTasks.ts"

/** Between two tries to write an end that the database rejects, in milliseconds. */
const leastPause = 3_000
const mostPause = 300_000

/**
 * The end of a plan that no process can resume. While the database is away, the very same commit is written again: it may be stored
 * already. A commit that the database rejects is replaced, since it would be rejected again.
 */
interface Ending {
  readonly abandoned: AbandonedPlan
  /** Holds the session's lease, so that nobody takes the plan over again. */
  readonly scope: Scope.Closeable
  readonly gist: PlanGist.PlanGist | undefined
  commit: PlanCommit
  /** How long the next try waits, and when it comes. Times in milliseconds. */
  pause: number
  due: number
}

interface Parts {
  readonly store: PlanStore["Service"]
  readonly lock: SessionLock["Service"]
  readonly notices: Notices["Service"]
  readonly inboxes: InboxStore["Service"]
  readonly peers: PeerClient["Service"]
  readonly permissions: typeof Permissions.Service
  readonly presets: typeof Presets.Service
  readonly uuid: () => string
  /** The sessions of plans that are not ended yet are released when it closes. */
  readonly scope: Scope.Scope
}

/** The agents that the request of an abandoned plan named, as they are stored. */
const namedIn = ({ request }: AbandonedPlan): ReadonlyArray<unknown> => {
  const stored: unknown = request?.request
  return Predicate.hasProperty(stored, "agents") && Array.isArray(stored.agents) ? stored.agents : []
}

/** The ends of plans that no process can resume. Each holds its session until the store has it. */
export class Endings {
  readonly #parts: Parts
  readonly #endings = new Map<PlanId, Ending>()

  private constructor(parts: Parts) {
    this.#parts = parts
  }

  static readonly make = Effect.gen(function* () {
    return new Endings({
      store: yield* PlanStore,
      lock: yield* SessionLock,
      notices: yield* Notices,
      inboxes: yield* InboxStore,
      peers: yield* PeerClient,
      permissions: yield* Permissions,
      presets: yield* Presets,
      uuid: yield* UuidGenerator,
      scope: yield* Effect.scope
    })
  })

  has(id: PlanId): boolean {
    return this.#endings.has(id)
  }

  /** Those that are to be written at this time. */
  due(now: number): ReadonlyArray<Ending> {
    return Array.from(this.#endings.values()).filter(({ due }) => due <= now)
  }

  /** Prepares the end of a plan that was just taken over: it is due at once. */
  readonly begin = Effect.fnUntraced(function* (this: Endings, abandoned: AbandonedPlan) {
    const { lock, store, scope: parent } = this.#parts
    const { plan, guard } = abandoned
    const earlier = this.#endings.get(plan.plan_id)
    if (earlier !== undefined) yield* this.#drop(earlier)
    const scope = yield* Scope.fork(parent)
    const gist = yield* PlanGist.resume(store, abandoned)
    const commit = yield* this.#settlement(abandoned, abandoned.inbox, gist, Resumption.shownText(abandoned))
    const ending: Ending = { abandoned, scope, gist, commit, pause: 0, due: yield* Monotonic.now }
    this.#endings.set(plan.plan_id, ending)
    if (guard._tag !== "Held") return
    // The replica that has the session now ends the plan. The next write here is refused.
    const onLost = () => {
      const isNews = ending.due !== 0
      ending.due = 0
      return isNews
    }
    yield* Scope.provide(lock.adopt(plan.session_id, guard.fence, onLost), scope)
  })

  /** Writes the end. Then the session is free, and peers are told to end the plan's open tasks. */
  readonly write = Effect.fnUntraced(function* (this: Endings, ending: Ending): Effect.fn.Return<void, StorageError> {
    const { store, peers, notices, permissions, presets } = this.#parts
    const { abandoned, commit } = ending
    const { plan_id } = commit
    const committed = yield* store
      .commit([commit])
      .pipe(Effect.tapError(({ reason }) => (reason.isRetryable ? Effect.void : this.#postpone(ending))))
    if (committed.get(plan_id) === "unread") {
      const text = Resumption.shownText(abandoned)
      ending.commit = yield* this.#settlement(abandoned, yield* this.#inboxOf(abandoned), ending.gist, text)
      return yield* this.write(ending)
    }
    yield* this.#drop(ending)
    if (committed.get(plan_id) === "refused") return
    const open = abandoned.tasks.filter(({ state }) => state === "running")
    const { owner, plan, route } = abandoned
    const permission = permissions.forCaller(owner, StoredRequest.groupsOf(abandoned.request))
    const agents = LeftTasks.reachable(presets, permission, plan.preset, namedIn(abandoned))
    yield* LeftTasks.cancelAll(peers, { agents, caller: owner, route, permission }, open)
    yield* Effect.ignore(notices.publish([{ _tag: "Advanced", plan_id }]))
  })

  /** The store would reject the same commit again. The next commit has no text, and the pauses between later tries grow. */
  readonly #postpone = Effect.fnUntraced(function* (this: Endings, ending: Ending) {
    ending.due = (yield* Monotonic.now) + ending.pause
    ending.pause = Math.min(Math.max(2 * ending.pause, leastPause), mostPause)
    const { inbox } = ending.abandoned
    ending.commit = yield* this.#settlement(ending.abandoned, inbox, undefined, "")
  })

  #settlement(
    abandoned: AbandonedPlan,
    inbox: InboxContent,
    gist: PlanGist.PlanGist | undefined,
    text: string
  ): Effect.Effect<PlanCommit> {
    return Effect.map(Clock.currentTimeMillis, (now) =>
      Abandonment.settlement(abandoned, inbox, gist, text, now, this.#parts.uuid)
    )
  }

  /** What was said to the plan, also since it was taken over. */
  #inboxOf({ plan: { plan_id } }: AbandonedPlan): Effect.Effect<InboxContent, StorageError> {
    return Effect.map(this.#parts.inboxes.read([{ plan_id, seen: -1 }]), ([content]) => content ?? emptyInbox(plan_id))
  }

  #drop({ abandoned, scope }: Ending): Effect.Effect<void> {
    this.#endings.delete(abandoned.plan.plan_id)
    return Scope.close(scope, Exit.void)
  }
}
