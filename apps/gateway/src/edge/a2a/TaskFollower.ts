import type { ServedUpdate } from "@bowline/a2a/unstable/server/ServedTask"
import type { InvalidRequest, NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { isOver, type TaskPlan } from "@bowline/runtime/unstable/store/TaskStore"
import type { Reading } from "@bowline/runtime/unstable/stream/LivePlan"
import type { Followed } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Option, Stream } from "effect"
import { behind, chainAt, type Change, changeAt, type OpenTask, type Services } from "./TaskReader.ts"

export interface Following {
  /** Joins the reader of a plan to its connection. */
  readonly join?: (connect: Reading["connect"]) => void
  /** Until all plans of the task are over, and not only until it is over or waits. Then the task is at each change as far as that is. */
  readonly toTheEnd?: boolean
  /** Whether a task that waits for its client at first is followed all the same, until it is over or waits again. */
  readonly isPatient?: boolean
  /** Whether a task that waits for an account alone is followed all the same: it continues without its client. */
  readonly throughAccounts?: boolean
}

type Changes<E = never> = Stream.Stream<Followed<Change>, StorageError | E>

const silenceMs = 10_000

/**
 * One reader of a task, which follows its plans one after the other.
 *
 *     frames of a plan ──its end──▶ is there a next plan? ──yes──▶ its frames ──▶ …
 *           │                              └──no──▶ Over
 *           └──the task is over, or waits for its client──▶ Over
 *     a task that waits ──its client answers──▶ frames of the next plan
 */
class TaskFollower {
  readonly #services: Services
  readonly #opened: OpenTask
  readonly #following: Following
  #plan: TaskPlan
  #at: Change["at"]
  /** What is told with the next frame, or with the end. */
  #pending: ReadonlyArray<ServedUpdate> = []
  #isAnswered: boolean
  #isLeft = false

  constructor(services: Services, opened: OpenTask, following: Following) {
    this.#services = services
    this.#opened = opened
    this.#following = following
    this.#plan = opened.plan
    this.#at = opened.at
    this.#isAnswered = following.isPatient !== true
  }

  get changes(): Changes<NotFound | InvalidRequest> {
    if (this.#isDone) return Stream.succeed("Over")
    return this.#opened.fold.hasEnded && this.#following.toTheEnd !== true ? this.#awaitAnswer() : this.#readPlan()
  }

  get #isDone(): boolean {
    const { isAuthorizing, isWaiting, standing } = this.#opened.fold
    if (this.#following.toTheEnd === true || (isAuthorizing && this.#following.throughAccounts === true)) return false
    return isOver(standing) || (this.#isAnswered && isWaiting)
  }

  #tell(updates: ReadonlyArray<ServedUpdate>): ReadonlyArray<Change> {
    this.#isAnswered ||= updates.some(({ _tag }) => _tag === "Status")
    return updates.length === 0 ? [] : [changeAt(this.#at, updates)]
  }

  #begin(next: TaskPlan): Changes<NotFound | InvalidRequest> {
    this.#plan = next
    this.#at = { plan: this.#at.plan + 1, seq: 0 }
    this.#pending = this.#opened.fold.begin(next)
    return this.#readPlan()
  }

  #readPlan(): Changes<NotFound | InvalidRequest> {
    const { caller } = this.#opened
    const reading = this.#services.follower.read(caller, this.#plan.plan.plan_id, this.#at.seq)
    const told = Effect.map(reading, ({ connect, frames }) => {
      this.#following.join?.(connect)
      return this.#opened.files.before(this.#following.toTheEnd === true ? Stream.rechunk(frames, 1) : frames).pipe(
        Stream.mapArray((items) => [items.flatMap((item) => this.#read(item))]),
        Stream.takeUntil(() => this.#isDone),
        Stream.flattenIterable
      )
    })
    return Stream.concat(
      // What it has come to is on its row.
      Stream.unwrap(Effect.catchTag(told, "EventsExpired", () => Effect.succeed(Stream.empty))),
      Stream.suspend(() => this.#endPlan())
    )
  }

  #read(item: Followed<PlanFrame>): ReadonlyArray<Followed<Change>> {
    const { fold } = this.#opened
    if (item === "ping") return [item]
    if (typeof item === "string") {
      this.#isLeft = item !== "Over"
      return this.#isLeft ? [item] : []
    }
    if (this.#isDone || fold.hasEnded) return []
    this.#at = { ...this.#at, seq: item.seq }
    this.#pending = [...this.#pending, ...fold.next(item)]
    // The end of the plan belongs to the same frame.
    if (fold.hasEnded) return []
    const updates = this.#pending
    this.#pending = []
    // A frame that shows nothing of the task is told, too: no ping comes soon behind it, and the connection must not be silent.
    return updates.length === 0 ? [changeAt(this.#at, [])] : this.#tell(updates)
  }

  #endPlan(): Changes<NotFound | InvalidRequest> {
    const { caller, fold, task } = this.#opened
    if (this.#isLeft) return Stream.empty
    if (this.#isDone) return Stream.succeed("Over")
    return Stream.unwrap(
      Effect.map(chainAt(this.#services, caller, task, this.#at.plan), ({ next, plan }) => {
        const ended = this.#tell([...this.#pending, ...fold.end(plan.plan, next !== undefined)])
        const rest = () => (next === undefined ? this.#endTask(plan.cancelled_at) : this.#begin(next))
        return Stream.concat(Stream.fromIterable(ended), Stream.suspend(rest))
      })
    )
  }

  #endTask(cancelled_at: string | null): Changes {
    if (cancelled_at === null) return Stream.succeed("Over")
    this.#at = behind(this.#at)
    return Stream.make(...this.#tell(this.#opened.fold.cancel(cancelled_at)), "Over" as const)
  }

  /** Its plan is over, and what the task waits for comes with the next plan, or with its cancellation. */
  #awaitAnswer(): Changes<NotFound | InvalidRequest> {
    const { caller, task } = this.#opened
    const { follower, plans } = this.#services
    let next: TaskPlan | undefined
    let cancelled_at: string | null = null
    const waiting = Effect.gen({ self: this }, function* () {
      const { news } = yield* follower.watch(task)
      return Stream.paginate(yield* Monotonic.now, (lastSent: number) =>
        Effect.gen({ self: this }, function* () {
          const chain = yield* chainAt(this.#services, caller, task, this.#at.plan)
          next = chain.next
          cancelled_at = chain.plan.cancelled_at
          if (next !== undefined || cancelled_at !== null) return [[], Option.none<number>()] as const
          this.#isLeft = yield* plans.isDraining
          if (this.#isLeft) return [["Draining" as const], Option.none<number>()] as const
          const now = yield* Monotonic.now
          const heard = yield* Effect.timeoutOption(news, lastSent + silenceMs - now)
          if (Option.isSome(heard)) return [[], Option.some(lastSent)] as const
          return [["ping" as const], Option.some(yield* Monotonic.now)] as const
        })
      )
    })
    const goOn = () => {
      if (this.#isLeft) return Stream.empty
      return next === undefined ? this.#endTask(cancelled_at) : this.#begin(next)
    }
    return Stream.concat(Stream.unwrap(waiting), Stream.suspend(goOn))
  }
}

/**
 * What happens to a task from where it is open, wherever its plans run: until it is over or waits for its client, or `toTheEnd`. Its fold
 * goes along.
 */
export const follow = (services: Services, opened: OpenTask, following: Following = {}): Changes =>
  Stream.suspend(() => new TaskFollower(services, opened, following).changes).pipe(
    Stream.catchTag(["NotFound", "InvalidRequest"], () => Stream.succeed("Gone" as const))
  )
