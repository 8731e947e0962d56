import { Unreachable } from "@bowline/domain/peer/PeerError"
import { Duration, Effect, Option, Random, Schedule } from "effect"
import { failure, isPassing, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { pollDelay } from "@bowline/runtime/unstable/http/PollDelay"
import type { Task } from "../task/Task.ts"

/** How long a peer may go without a usable answer. */
export const answerLimit = Duration.seconds(30)
const pollLimit = Duration.seconds(10)

/** When to poll. The input is the `Retry-After` of the peer, if it sent one. */
const pollSchedule = Schedule.forever.pipe(
  Schedule.setInputType<ExchangeError["after"]>(),
  Schedule.modifyDelay(({ elapsed, input }) =>
    Effect.map(Random.next, (random) => {
      const delay = Duration.millis(pollDelay(elapsed, random))
      return Option.match(input, { onNone: () => delay, onSome: Duration.max(delay) })
    })
  )
)

/** Makes the pauses between the requests for one thing: each is longer than the one before. */
const makePause = Effect.map(
  Schedule.toStepWithSleep(pollSchedule),
  (wait) =>
    (after: ExchangeError["after"] = Option.none()) =>
      Effect.orDie(wait(after))
)

/**
 * Asks again and again, each time after a pause, until the peer gives a usable answer or the limit has passed. `ask` gets the
 * failure of the request before it.
 */
const askAgain = <A>(
  pause: Effect.Success<typeof makePause>,
  limit: Duration.Duration,
  first: ExchangeError,
  ask: (missed: ExchangeError) => Effect.Effect<A, ExchangeError>
): Effect.Effect<A, ExchangeError> => {
  let missed = first
  const again: Effect.Effect<A, ExchangeError> = Effect.suspend(() => pause(missed.after)).pipe(
    Effect.andThen(Effect.suspend(() => ask(missed))),
    Effect.catchIf(isPassing, (error) => {
      missed = error
      return again
    })
  )
  return Effect.timeoutOrElse(again, {
    duration: limit,
    orElse: () => {
      const { reason, verdict } = missed
      const message = `The peer gave no usable answer for ${Duration.toSeconds(limit)} seconds: ${reason.message}`
      const code = reason._tag === "unreachable" ? reason.code : undefined
      return Effect.fail(failure(verdict, new Unreachable({ message, code })))
    }
  })
}

/** Asks at once, and again after pauses while the failure may pass, until the limit. */
export const askUntilAnswered = Effect.fnUntraced(function* <A>(
  limit: Duration.Duration,
  ask: (missed?: ExchangeError) => Effect.Effect<A, ExchangeError>
): Effect.fn.Return<A, ExchangeError> {
  const pause = yield* makePause
  return yield* Effect.catchIf(ask(), isPassing, (first) => askAgain(pause, limit, first, ask))
})

const unanswered = failure("transient", new Unreachable({ message: "no answer" }))

/** The pauses of one call, and its polls. A poll is repeated until the peer gives a usable answer, for 30 seconds. */
export const make = Effect.fnUntraced(function* (get: (taskId: string) => Effect.Effect<Task, ExchangeError>) {
  const pause = yield* makePause
  const poll = (taskId: string): Effect.Effect<Task, ExchangeError> =>
    askAgain(pause, answerLimit, unanswered, ({ reason }) =>
      Effect.timeoutOrElse(get(taskId), {
        duration: pollLimit,
        orElse: () => Effect.fail(failure("transient", reason))
      })
    )
  return { pause, poll }
})
