import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { inPlace, SchemaChecks } from "@bowline/runtime/unstable/tool/SchemaChecks"
import { Cause, Clock, Context, Duration, Effect, Logger, Metric, Random, References, Scheduler } from "effect"
import { AsyncLocalStorage } from "node:async_hooks"
import type { SeededRandom } from "../scenario/SeededRandom.ts"
import type { Loop } from "./Loop.ts"

type Task = () => void

/** When a run begins, in milliseconds since 1970. */
export const epoch = Date.UTC(2026, 0, 1, 12)

/** The process whose task runs, or whose task has made the promise that goes on. */
export const running = new AsyncLocalStorage<Process>()

const nanos = (ms: number): bigint => BigInt(Math.floor(ms * 1_000)) * 1_000n

/** How much goes on in a process. */
export interface Load {
  readonly fibers: number
  readonly timers: number
}

/** The plan that a fiber says in its logs. */
export const planOf = ({ plan_id }: Readonly<Record<string, unknown>>): string =>
  typeof plan_id === "string" ? plan_id : ""

const makeLogger = (log: (line: string, plan: string) => void) =>
  Logger.make(({ cause, fiber, message }) => {
    const why = cause.reasons.length === 0 ? "" : `: ${String(Cause.squash(cause))}`
    const words = Array.isArray(message) ? message : [message]
    log(`logs ${words.map(String).join(" ")}${why}`, planOf(fiber.getRef(References.CurrentLogAnnotations)))
  })

/**
 * One process of the world: everything in it runs in its queue. Whatever comes from outside, a timer, bytes or an answer, comes as a task.
 * So a process that is killed does nothing any more, not even a finalizer, and one that is paused does it later.
 */
export class Process {
  readonly name: string
  readonly loop: Loop
  readonly random: SeededRandom
  /** What every fiber of the process runs with. */
  readonly context: Context.Context<never>
  /** How many of its fibers have not ended, by the plan that they say in their logs; the others under an empty name. */
  readonly fibers = new Map<string, number>()
  /** Runs a task as one of the process. To enter `running` for each of the tasks would make a map each time. */
  readonly #inside = running.run(this, () => AsyncLocalStorage.snapshot())
  #isAlive = true
  /** Of those that have not ended yet. */
  #pauses = 0
  #timers = 0
  #queue: Array<Task> = []
  #at = 0
  /** By priority; what comes later than the usual ones. */
  #later: Array<{ readonly priority: number; readonly task: Task }> = []
  #wallSkew = 0
  #tasksLeft = Infinity
  readonly #killed = new Set<Task>()

  constructor(name: string, loop: Loop, random: SeededRandom, log: (line: string, plan: string) => void) {
    this.name = name
    this.loop = loop
    this.random = random
    this.context = this.#makeContext(makeLogger(log))
    loop.add(this)
  }

  get isAlive(): boolean {
    return this.#isAlive
  }

  readonly isReady = (): boolean =>
    this.#isAlive && this.#pauses === 0 && (this.#at < this.#queue.length || this.#later.length > 0)

  readonly step = (): void => {
    if (this.#tasksLeft-- <= 0) {
      this.kill()
      return
    }
    if (this.#at === this.#queue.length) {
      this.#queue = this.#later.map(({ task }) => task)
      this.#later = []
      this.#at = 0
    }
    const task = this.#queue[this.#at++]
    if (this.#at > 1_024 && this.#at * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#at)
      this.#at = 0
    }
    if (task !== undefined) this.#inside(task)
  }

  /** Does it next, after what is there already. */
  readonly post = (task: Task): void => {
    if (this.#isAlive) this.#queue.push(task)
  }

  /** Does it in so many milliseconds. Gives what cancels that. */
  after(ms: number, task: Task): () => void {
    let isOpen = true
    const close = () => {
      if (isOpen) this.#timers--
      isOpen = false
    }
    const ring = () =>
      this.post(() => {
        if (!isOpen) return
        close()
        task()
      })
    this.#timers++
    if (ms <= 0) {
      ring()
      return close
    }
    const cancel = this.loop.after(ms, ring)
    return () => {
      close()
      cancel()
    }
  }

  /** Runs an effect in a fiber of this process. */
  fork<A, E>(effect: Effect.Effect<A, E>): void {
    this.post(() => void Effect.runForkWith(this.context)(effect))
  }

  /** Nothing of it runs any more, as after `kill -9`. */
  kill(): void {
    if (!this.#isAlive) return
    this.#isAlive = false
    this.loop.remove(this)
    this.#queue = []
    this.#later = []
    const killed = Array.from(this.#killed)
    this.#killed.clear()
    for (const hear of killed) hear()
  }

  /** Kills it after so many more tasks. */
  killAfter(tasks: number): void {
    this.#tasksLeft = tasks
  }

  /** Until as many have resumed it. */
  pause(): void {
    this.#pauses++
  }

  resume(): void {
    this.#pauses--
  }

  /** What of it goes on that is no plan's: fibers, and waits for a time. */
  get load(): Load {
    return { fibers: this.fibers.get("") ?? 0, timers: this.#timers }
  }

  /** Its wall clock jumps. Its timers do not notice. */
  stepClock(byMs: number): void {
    this.#wallSkew += byMs
  }

  /** Called when the process is killed, until the result is called. */
  onKill(hear: Task): () => void {
    this.#killed.add(hear)
    return () => void this.#killed.delete(hear)
  }

  #makeContext(logger: Logger.Logger<unknown, unknown>): Context.Context<never> {
    const dispatcher: Scheduler.SchedulerDispatcher = {
      scheduleTask: (task, priority) => {
        if (priority <= 0) this.post(task)
        else if (this.#isAlive) {
          this.#later.push({ priority, task })
          this.#later.sort((one, other) => one.priority - other.priority)
        }
      },
      flush: () => {}
    }
    const random: Random.Random = {
      nextDoubleUnsafe: () => this.random.next(),
      nextIntUnsafe: () => this.random.bits() * 2_097_152 - Number.MAX_SAFE_INTEGER + (this.random.bits() >>> 11)
    }
    return Context.make(Scheduler.Scheduler, {
      executionMode: "async",
      shouldYield: (fiber) => fiber.currentOpCount >= fiber.cache.maxOpsBeforeYield,
      makeDispatcher: () => dispatcher
    }).pipe(
      Context.add(Clock.Clock, this.#makeClock()),
      Context.add(Random.Random, random),
      Context.add(UuidGenerator, () => this.random.uuid()),
      Context.add(SchemaChecks, inPlace),
      Context.add(References.TracerEnabled, false),
      Context.add(References.MinimumLogLevel, "Warn"),
      Context.add(Logger.CurrentLoggers, new Set([logger])),
      Context.add(Metric.FiberRuntimeMetrics, {
        recordFiberStart: (context) => this.#count(context, 1),
        recordFiberEnd: (context) => this.#count(context, -1)
      })
    )
  }

  #count(context: Context.Context<never>, difference: number): void {
    const key = planOf(Context.get(context, References.CurrentLogAnnotations))
    this.fibers.set(key, (this.fibers.get(key) ?? 0) + difference)
  }

  #makeClock(): Clock.Clock {
    const wall = () => epoch + this.loop.now + this.#wallSkew
    return {
      currentTimeMillisUnsafe: wall,
      currentTimeMillis: Effect.sync(wall),
      currentTimeNanosUnsafe: () => nanos(wall()),
      currentTimeNanos: Effect.sync(() => nanos(wall())),
      monotonicTimeNanosUnsafe: () => nanos(this.loop.now),
      monotonicTimeNanos: Effect.sync(() => nanos(this.loop.now)),
      sleep: (duration) => {
        const ms = Duration.toMillis(duration)
        if (!Number.isFinite(ms)) return Effect.never
        return Effect.callback<void>((resume) => Effect.sync(this.after(ms, () => resume(Effect.void))))
      }
    }
  }
}

/**
 * Runs an effect in the process `to` for a fiber of `from`, which gets its exit as a task. An interruption reaches it, too, and nobody waits
 * for what it still does. `broken` is what the asker gets instead when `to` is killed.
 */
export const across = <A, E>(
  from: Process,
  to: Process,
  effect: Effect.Effect<A, E>,
  broken: Effect.Effect<A, E> = Effect.never
): Effect.Effect<A, E> =>
  Effect.callback<A, E>((resume) => {
    const answer = (given: Effect.Effect<A, E>) => from.post(() => resume(given))
    if (!to.isAlive) return answer(broken)
    let interrupt = () => {}
    const forget = to.onKill(() => answer(broken))
    to.post(() => {
      const fiber = Effect.runForkWith(to.context)(effect)
      interrupt = () => fiber.interruptUnsafe()
      fiber.addObserver((exit) => {
        forget()
        answer(exit)
      })
    })
    return Effect.sync(() => {
      forget()
      to.post(() => interrupt())
    })
  })
