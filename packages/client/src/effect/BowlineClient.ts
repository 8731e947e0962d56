import {
  Clock,
  Config,
  Context,
  Duration,
  Effect,
  FiberSet,
  Layer,
  Pull,
  Random,
  Redacted,
  Schedule,
  type Scope,
  Stream
} from "effect"
import { FetchHttpClient } from "effect/http"
import type { Bowline, List, PlanFrame, PlanRequest, StreamEvent } from "../Bowline.ts"
import { makeBowline } from "../Bowline.ts"
import type { BowlineError } from "../BowlineError.ts"
import { type GivenFork, makeForks } from "../forks/PlanForks.ts"
import { type Backoff, fullJitter, toError } from "../Requests.ts"

export { BowlineError } from "../BowlineError.ts"

/** Durations have the defaults of the plain client: 10 s, 30 s and 15 min. */
export interface BowlineClientOptions {
  readonly baseUrl: string
  readonly apiKey?: Redacted.Redacted | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly maxRetries?: number | undefined
  readonly connectTimeout?: Duration.Input | undefined
  readonly silence?: Duration.Input | undefined
  readonly giveUpAfter?: Duration.Input | undefined
  /** The waits between two attempts, anew for each outage. When it ends, so do the attempts. Full jitter from 0.5 s to 10 s, if not given. */
  readonly schedule?: Schedule.Schedule<unknown> | undefined
  readonly onEvent?: ((event: StreamEvent) => void) | undefined
}

/** The plain client's timers as sleeps of Effect's clock. They end with the scope. */
const makeClock = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const fork = yield* FiberSet.makeRuntime()
  return {
    now: () => clock.currentTimeMillisUnsafe(),
    after: (ms: number, run: () => void) => {
      const fiber = fork(Effect.andThen(clock.sleep(Duration.millis(ms)), Effect.sync(run)))
      return () => fiber.interruptUnsafe()
    },
    random: () => random.nextDoubleUnsafe()
  }
})

type Step = Effect.Success<ReturnType<typeof Schedule.toStep<unknown, unknown, never, never>>>

const toBackoff = Effect.fnUntraced(function* (schedule: Schedule.Schedule<unknown>) {
  const run = yield* FiberSet.makeRuntimePromise()
  return (): Backoff => {
    let step: Step | undefined
    const next = Effect.gen(function* () {
      step ??= yield* Schedule.toStep(schedule)
      const [, delay] = yield* step(yield* Clock.currentTimeMillis, undefined)
      return Duration.toMillis(delay)
    })
    return () => run(Pull.catchDone(next, () => Effect.undefined))
  }
})

const toMillis = (duration: Duration.Input | undefined): number | undefined =>
  duration === undefined ? undefined : Duration.toMillis(duration)

const make = Effect.fnUntraced(function* ({ apiKey, schedule, ...options }: BowlineClientOptions) {
  const clock = yield* makeClock
  const system = {
    clock,
    backoff: schedule === undefined ? fullJitter(clock) : yield* toBackoff(schedule),
    options: {
      ...options,
      apiKey: apiKey === undefined ? undefined : Redacted.value(apiKey),
      fetch: yield* FetchHttpClient.Fetch,
      connectTimeoutMs: toMillis(options.connectTimeout),
      silenceMs: toMillis(options.silence),
      giveUpAfterMs: toMillis(options.giveUpAfter)
    }
  }
  return { bowline: makeBowline(system), forks: makeForks(system) }
})

/**
 * The client of one gateway. Every wait is one of Effect's clock, requests go through `FetchHttpClient.Fetch`.
 *
 * @example
 * ```ts
 * import { BowlineClient, type BowlineError } from "@bowline/client/effect"
 * import { Effect, Stream } from "effect"
 *
 * export const ask = (question: string): Stream.Stream<string, BowlineError, BowlineClient> =>
 *   Stream.unwrap(Effect.map(BowlineClient, (bowline) => bowline.plan({ question }))).pipe(
 *     Stream.map((frame) => frame.event)
 *   )
 *
 * export const Client = BowlineClient.layer({ baseUrl: "http://127.0.0.1:3774" })
 * ```
 */
export class BowlineClient extends Context.Service<
  BowlineClient,
  {
    /** The frames of a new plan. Interrupted, or not read to its end, it cancels the plan, unless the request says `on_disconnect: "continue"`. */
    readonly plan: (
      request: PlanRequest,
      options?: { readonly idempotencyKey?: string | undefined }
    ) => Stream.Stream<PlanFrame, BowlineError>
    /** The frames of a plan that somebody has started. Whoever leaves it leaves it alone. */
    readonly attach: (
      planId: string,
      options?: { readonly after?: number | undefined }
    ) => Stream.Stream<PlanFrame, BowlineError>
    /** The frames of a plan that goes on from a step of another one, as those of `plan`. */
    readonly fork: (
      planId: string,
      wanted?: GivenFork,
      options?: { readonly idempotencyKey?: string | undefined }
    ) => Stream.Stream<PlanFrame, BowlineError>
    /** Any other request, as in `use((bowline, signal) => bowline.plans.get(id, { signal }))`. Interruption aborts the signal. */
    readonly use: <A>(ask: (bowline: Bowline, signal: AbortSignal) => Promise<A>) => Effect.Effect<A, BowlineError>
    /** All entries of a list, as in `list((bowline) => bowline.plans.list({ state: "running" }))`. */
    readonly list: <Entry>(
      of: (bowline: Bowline) => Pick<List<Entry, unknown>, typeof Symbol.asyncIterator>
    ) => Stream.Stream<Entry, BowlineError>
  }
>()("@bowline/client/effect/BowlineClient") {
  static readonly make = (options: BowlineClientOptions): Effect.Effect<BowlineClient["Service"], never, Scope.Scope> =>
    Effect.map(make(options), ({ bowline, forks }) => ({
      plan: (request, given) => Stream.suspend(() => Stream.fromAsyncIterable(bowline.plan(request, given), toError)),
      attach: (planId, given) => Stream.suspend(() => Stream.fromAsyncIterable(bowline.attach(planId, given), toError)),
      fork: (planId, wanted, given) =>
        Stream.suspend(() => Stream.fromAsyncIterable(forks.fork(planId, wanted, given), toError)),
      use: (ask) => Effect.tryPromise({ try: (signal) => ask(bowline, signal), catch: toError }),
      list: (of) => Stream.suspend(() => Stream.fromAsyncIterable(of(bowline), toError))
    }))

  static readonly layer = (options: BowlineClientOptions): Layer.Layer<BowlineClient> =>
    Layer.effect(BowlineClient, BowlineClient.make(options))

  /** As `layer`, with options that are read from the configuration. */
  static readonly layerConfig = (
    options: Config.Wrap<BowlineClientOptions>
  ): Layer.Layer<BowlineClient, Config.ConfigError> =>
    Layer.effect(BowlineClient, Effect.flatMap(Config.unwrap(options), BowlineClient.make))
}
