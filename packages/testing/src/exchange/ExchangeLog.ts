import { Deferred, Effect, Stream, SubscriptionRef } from "effect"

/** A recorded request, and how its exchange ended. */
export type Recorded<Request, Ending> = Request & { readonly ended: Effect.Effect<Ending> }

/** The requests that a fake got, in order. */
export interface ExchangeLog<Request, Ending> {
  readonly all: Effect.Effect<ReadonlyArray<Recorded<Request, Ending>>>
  /** Waits until there are `count` requests, and gives them all. */
  readonly awaitCount: (count: number) => Effect.Effect<ReadonlyArray<Recorded<Request, Ending>>>
  /** How many exchanges have not ended. */
  readonly open: Effect.Effect<number>
  /** Records a request. The result has to be called when its exchange ends. */
  readonly begin: (request: Request) => Effect.Effect<(ending: Ending) => Effect.Effect<void>>
}

export const make = <Request, Ending>(): Effect.Effect<ExchangeLog<Request, Ending>> =>
  Effect.gen(function* () {
    const requests: Array<Recorded<Request, Ending>> = []
    const count = yield* SubscriptionRef.make(0)
    let open = 0
    const all = Effect.sync(() => requests.slice())
    return {
      all,
      awaitCount: (expected) =>
        SubscriptionRef.changes(count).pipe(
          Stream.takeUntil((reached) => reached >= expected),
          Stream.runDrain,
          Effect.andThen(all)
        ),
      open: Effect.sync(() => open),
      begin: Effect.fnUntraced(function* (request) {
        const ended = yield* Deferred.make<Ending>()
        open++
        requests.push({ ...request, ended: Deferred.await(ended) })
        yield* SubscriptionRef.set(count, requests.length)
        return (ending) =>
          Effect.suspend(() => {
            open--
            return Deferred.succeed(ended, ending)
          })
      })
    }
  })
