import { PlanId } from "@bowline/domain/plan/Plan"
import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Effect } from "effect"
import type { Audience, ReplicaClient, Refused } from "./ReplicaClient.ts"
import type { ObservedReader } from "../scenario/Observed.ts"
import type { Replica } from "./Replica.ts"
import type { Open, World } from "../world/World.ts"

/** Until the caller knows the id of its plan. */
const nobody = PlanId.make("plan_00000000-0000-4000-8000-000000000000")

/** How a connection ended: behind `done`, before it, by the caller, or with a refusal. */
export type Ending = "done" | "closed" | "broken" | "left" | Refused

/** What a caller knows of its plan. */
export interface Progress {
  plan: PlanId | undefined
  /** The last `seq`. */
  seen: number
  isDone: boolean
}

interface Reader {
  readonly name: string
  /** How long it takes for each frame, in milliseconds. */
  readonly readMs: number
  readonly progress: Progress
}

/** One connection of a caller to a replica, and what comes over it. */
export class Reading {
  readonly observed: Open<ObservedReader>
  readonly #world: World
  readonly #reader: Reader
  readonly #onBegin: () => void
  #isOpen = true
  #hasLeft = false
  #onLeave = () => {}

  constructor(world: World, reader: Reader, replica: Replica, onBegin: () => void) {
    this.#world = world
    this.#reader = reader
    this.#onBegin = onBegin
    this.observed = {
      reader: reader.name,
      plan_id: reader.progress.plan ?? nobody,
      replica: replica.name,
      after: reader.progress.seen,
      readMs: reader.readMs,
      began: world.moment(),
      frames: [],
      pings: [],
      ended: undefined
    }
  }

  /** Closes the connection. One that has ended before its plan is left, too: the caller does not come back by itself. */
  leave(): void {
    this.#hasLeft = true
    this.#isOpen = false
    this.#onLeave()
    const { ended } = this.observed
    if (ended?.how === "broken") this.observed.ended = { ...ended, how: "left" }
    if (ended?.how === "closed") this.observed.ended = { ...ended, how: "given up" }
  }

  /** Reads until the connection ends, by whomever. */
  follow(open: (audience: Audience) => ReturnType<ReplicaClient["Service"]["read"]>): Effect.Effect<Ending> {
    const leaving = Effect.callback<"left">((resume) => {
      this.#onLeave = () => resume(Effect.succeed("left"))
      if (this.#hasLeft) this.#onLeave()
    })
    const served = Effect.match(open({ begin: this.#begin, take: this.#take }), {
      onFailure: (error): Ending => (error._tag === "Broken" ? "broken" : error),
      onSuccess: (): Ending => "closed"
    })
    return Effect.map(Effect.raceFirst(served, leaving), (how) => {
      this.#isOpen = false
      const ending = this.#hasLeft ? "left" : this.#reader.progress.isDone ? "done" : how
      this.observed.ended = { ...this.#world.moment(), how: typeof ending === "string" ? ending : "closed" }
      return ending
    })
  }

  readonly #begin = (plan: PlanId): Effect.Effect<void> =>
    Effect.sync(() => {
      this.observed.plan_id = plan
      this.observed.began = this.#world.moment()
      this.#world.readers.push(this.observed)
      this.#reader.progress.plan = plan
      this.#onBegin()
    })

  readonly #take = (items: ReadonlyArray<ReaderItem>): Effect.Effect<void> => {
    const { progress, readMs } = this.#reader
    return Effect.forEach(
      items,
      (item) =>
        Effect.andThen(
          readMs > 0 && typeof item !== "string" ? Effect.sleep(readMs) : Effect.void,
          Effect.sync(() => {
            if (!this.#isOpen) return
            if (item === "ping") this.observed.pings.push(this.#world.moment())
            if (typeof item === "string") return
            this.observed.frames.push({ frame: item, ...this.#world.moment() })
            progress.seen = item.seq
            if (item.event === "done") progress.isDone = true
          })
        ),
      { discard: true }
    )
  }
}
