import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { gauge } from "@bowline/runtime/unstable/telemetry/Instrument"
import { type Context, Duration, Effect, Fiber, Scope } from "effect"
import { translateErrors } from "./StorageErrors.ts"

const operations = gauge({
  name: "bowline.database.operations",
  description:
    "Statements and transactions that wait for a connection, or for their answer; abandoned ones do not count, though they may hold a connection"
})

/** How long the database may take for one statement or one transaction, the wait for a connection included. */
export const deadlines = {
  usual: Duration.seconds(10),
  /** For what nobody misses: notices, and leases that are given back. */
  short: Duration.seconds(5),
  /** For what touches many rows. */
  long: Duration.seconds(30)
}

/** The answer of the statement if it comes before the timer ends, or the layer. */
const answerOf = <A, E>(statement: Fiber.Fiber<A, E>, timer: Fiber.Fiber<void>, within: Duration.Duration) => {
  // Made when it is needed: the timer of each answered statement is interrupted, and an error costs its stack.
  const late = Effect.suspend(() => {
    const cause = `no answer within ${Duration.format(within)}`
    return Effect.fail(new StorageError({ reason: new Unavailable({ cause }) }))
  })
  return Effect.callback<A, E | StorageError>((resume) => {
    statement.addObserver(resume)
    timer.addObserver(() => resume(late))
    return Effect.void
  })
}

/**
 * Gives a layer its way to ask the database: it translates errors, and fails with `Unavailable` when there is no answer in
 * time. Nobody waits for the end of an abandoned statement, since on a dead connection even that takes minutes. Statements run
 * in the layer's scope, which ends them before the connections are closed.
 */
export const makeWithDeadline = Effect.gen(function* () {
  const scope = yield* Effect.acquireRelease(Scope.make("parallel"), (scope, exit) =>
    // Detached: a statement on a dead connection ends only when its connection is closed.
    Effect.forkDetach(Scope.close(scope, exit), { startImmediately: true }).pipe(
      Effect.flatMap(Fiber.await),
      Effect.timeoutOption(deadlines.usual)
    )
  )
  const open = operations.of({})
  const context: Context.Context<never> = yield* Effect.context()
  return <A, E, R>(effect: Effect.Effect<A, E, R>, within: Duration.Duration = deadlines.usual) =>
    // Both fibers begin uninterruptibly: an asker that is interrupted at once leaves none behind.
    Effect.acquireUseRelease(
      Effect.gen(function* () {
        open.modifyUnsafe(1, context)
        const statement = yield* Effect.forkIn(translateErrors(effect), scope, { startImmediately: true })
        const timer = yield* Effect.forkIn(Effect.sleep(within), scope, { startImmediately: true })
        return { statement, timer }
      }),
      ({ statement, timer }) => answerOf(statement, timer, within),
      ({ statement, timer }) =>
        Effect.sync(() => {
          statement.interruptUnsafe()
          timer.interruptUnsafe()
          open.modifyUnsafe(-1, context)
        })
    )
})

/** Asks the database, in time. */
export type WithDeadline = Effect.Success<typeof makeWithDeadline>
