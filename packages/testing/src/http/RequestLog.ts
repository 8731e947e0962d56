import { Cause, Deferred, Effect, Exit, Option, Stream, SubscriptionRef } from "effect"
import type { Fault, HostRequest } from "./Host.ts"

/** How an exchange ended: the whole answer was written, the client closed the connection first, or the host broke it. */
export type Ending = "answered" | "closed" | Fault["kind"]

export interface RecordedRequest extends HostRequest {
  /** Waits for the end of the exchange. */
  readonly ended: Effect.Effect<Ending>
}

/** The requests that a host got, in order, from the moment when they were whole. */
export interface RequestLog {
  readonly all: Effect.Effect<ReadonlyArray<RecordedRequest>>
  /** Waits until there are that many, and gives them all. */
  readonly awaitCount: (count: number) => Effect.Effect<ReadonlyArray<RecordedRequest>>
  /** How many exchanges have not ended. */
  readonly open: Effect.Effect<number>
  /** Runs an exchange on the record: success is an answer, interruption a client that left. */
  readonly record: <A>(request: HostRequest, exchange: Effect.Effect<A, Fault>) => Effect.Effect<A, Fault>
}

/** The fault in a cause, if the host broke the connection by itself. */
export const faultOf = (cause: Cause.Cause<Fault>): Fault | undefined =>
  Option.getOrUndefined(Cause.findErrorOption(cause))

const endingOf = (exit: Exit.Exit<unknown, Fault>): Ending =>
  Exit.isSuccess(exit) ? "answered" : (faultOf(exit.cause)?.kind ?? "closed")

export const make: Effect.Effect<RequestLog> = Effect.gen(function* () {
  const requests = yield* SubscriptionRef.make<ReadonlyArray<RecordedRequest>>([])
  let open = 0
  return {
    all: SubscriptionRef.get(requests),
    awaitCount: (count) =>
      SubscriptionRef.changes(requests).pipe(
        Stream.filter((all) => all.length >= count),
        Stream.runHead,
        Effect.flatMap(Effect.fromOption),
        Effect.orDie
      ),
    open: Effect.sync(() => open),
    record: (request, exchange) =>
      Effect.acquireUseRelease(
        Effect.gen(function* () {
          const ended = yield* Deferred.make<Ending>()
          open++
          yield* SubscriptionRef.update(requests, (all) => [...all, { ...request, ended: Deferred.await(ended) }])
          return ended
        }),
        () => exchange,
        (ended, exit) =>
          Effect.suspend(() => {
            open--
            return Deferred.succeed(ended, endingOf(exit))
          })
      )
  }
})
