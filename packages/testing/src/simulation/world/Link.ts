import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import type { Notice } from "@bowline/runtime/unstable/store/Notices"
import { Audience, Notices } from "@bowline/runtime/unstable/store/Notices"
import { Effect } from "effect"
import type { Process } from "../process/Process.ts"
import type { World } from "./World.ts"

/** How long a replica waits for an answer of the store, as for a database; in milliseconds. */
const patience = 10_000

/** After so many milliseconds of silence a replica notices that it hears no notices. */
const deafness = 5_000

const noAnswer = (cause: string) => new StorageError({ reason: new Unavailable({ cause }) })

/** Every effect of a store is one. */
const isStatement = (value: unknown): value is Effect.Effect<unknown, StorageError> => Effect.isEffect(value)

/** The connection of one replica to the store, with everything that can happen to it. */
export class Link {
  readonly process: Process
  readonly #world: World
  readonly #audience = new Audience()
  /** Added to each way of a statement, in milliseconds. */
  slowMs = 0
  /** How many of the faults that cut it last still. */
  #cuts = 0
  /** When it gives up the last statement that has not reached the store, or whose answer was lost. */
  waitsUntil = 0
  notices: "heard" | "lost" | "late" | "twice" = "heard"
  /** What happens to the next answers: they are lost, whether the statement was done or not. */
  readonly losses: Array<{ readonly isApplied: boolean }> = []
  #isListening = true

  constructor(world: World, process: Process) {
    this.#world = world
    this.process = process
  }

  /** The same service behind this connection: each of its effects is a statement that travels to the store. */
  readonly over = <Service extends object>(service: Service, local: ReadonlyArray<PropertyKey> = []): Service =>
    new Proxy(service, {
      get: (target, key, receiver): unknown => {
        const member: unknown = Reflect.get(target, key, receiver)
        if (local.includes(key)) return member
        if (isStatement(member)) return this.#ask(member)
        if (typeof member !== "function") return member
        return (...args: ReadonlyArray<unknown>): unknown => {
          const made: unknown = Reflect.apply(member, target, args)
          return isStatement(made) ? this.#ask(made) : made
        }
      }
    })

  /** The notices of all replicas, as this one hears them. */
  readonly noticesOf = (board: Noticeboard): Notices["Service"] =>
    Notices.of({
      publish: (notices) => this.#ask(Effect.sync(() => board.publish(notices))),
      subscribe: this.#audience.subscribe,
      isListening: () => this.#isListening
    })

  hear(notice: Notice): void {
    if (this.#isCut || this.notices === "lost") return
    const random = this.#world.process.random
    const times = this.notices === "twice" ? 2 : 1
    for (let time = 0; time < times; time++) {
      const ms = this.notices === "late" ? random.int(1_000, 20_000) : random.int(0, 5)
      this.#world.loop.after(ms, () => this.process.post(() => this.#audience.tell(notice)))
    }
  }

  /** From now on nothing passes, until the result is called. */
  cut(): () => void {
    this.#cuts++
    const cancel = this.#world.loop.after(deafness, () => this.#listens(false))
    return () => {
      this.#cuts--
      cancel()
      if (this.#cuts === 0) this.#listens(true)
    }
  }

  get #isCut(): boolean {
    return this.#cuts > 0 || this.#world.isStoreAway
  }

  #listens(isListening: boolean): void {
    if (this.#isListening === isListening) return
    this.#isListening = isListening
    this.process.post(() => this.#audience.tell({ _tag: "ListeningChanged" }))
  }

  /**
   * A statement that nobody waits for any more may be done all the same. Neither does it stop where its replica dies. A run has hundreds of
   * statements, so none but the statement itself has a fiber.
   */
  #ask<A, E>(statement: Effect.Effect<A, E>): Effect.Effect<A, E | StorageError> {
    return Effect.callback<A, E | StorageError>((resume) => {
      // Promises of one that was killed may still ask: nothing leaves.
      if (!this.process.isAlive) return
      const store = this.#world.process
      let isAnswered = false
      let stop = () => {}
      const giveUp = () =>
        store.post(() => {
          stop()
          answer(Effect.never)
        })
      store.post(() => {
        stop = this.#travel(() => {
          const loss = this.losses.shift()
          if (loss?.isApplied === false) return answer(noAnswer("the connection was lost on the way to the store"))
          const isPatient = store.random.chance(50)
          const fiber = Effect.runForkWith(store.context)(statement)
          stop = () => fiber.interruptUnsafe()
          fiber.addObserver((exit) => {
            if (loss !== undefined) answer(noAnswer("the connection was lost on the way back"))
            else if (isPatient) stop = this.#travel(() => answer(exit))
            else this.#arrive(() => answer(exit))
          })
        })
      })
      const forget = this.process.after(patience, () => {
        giveUp()
        resume(noAnswer("no answer in time"))
      })
      const answer = (given: Effect.Effect<A, E | StorageError>) => {
        if (!isAnswered) {
          this.process.post(() => {
            forget()
            resume(given)
          })
        }
        isAnswered = true
      }
      return Effect.sync(() => {
        giveUp()
        forget()
      })
    })
  }

  /** Goes to the store, or back. Gives what ends it on the way. */
  #travel(arrived: () => void): () => void {
    const { process } = this.#world
    return process.after(process.random.int(0, 2) + this.slowMs, () => this.#arrive(arrived))
  }

  /** Behind a connection that is cut, nothing ever arrives. */
  #arrive(arrived: () => void): void {
    if (this.#isCut) this.waitsUntil = this.#world.now + patience
    else arrived()
  }
}

/** Where notices are published. */
export class Noticeboard {
  readonly links = new Set<Link>()

  publish(notices: ReadonlyArray<Notice>): void {
    for (const notice of notices) for (const link of this.links) link.hear(notice)
  }
}
